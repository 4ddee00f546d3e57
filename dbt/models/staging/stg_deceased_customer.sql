{{ config(enabled=var('person_etl_deaths')) }}

select
    source,
    source_key,
    service_pid,
    match_score,
    obituary_id,
    date_of_death,
    signal_source,
    signal_confidence_score,
    first_seen_at
from {{ published_view('person_data', 'deceased_customer') }}
