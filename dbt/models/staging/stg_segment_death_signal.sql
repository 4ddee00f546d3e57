{{ config(enabled=var('person_etl_deaths')) }}

select
    segment_id,
    obituary_id,
    service_pid,
    is_present
from {{ source('person_data', 'segment_death_signal') }}
