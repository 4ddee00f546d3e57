{{ config(enabled=var('person_etl_deaths')) }}

select
    obituary_id,
    service_pid,
    date_of_death,
    publication_last_update_date,
    first_observed_at,
    signal_source,
    signal_confidence_score,
    _synced_at
from {{ source('person_data', 'death_signal') }}
