{{ config(enabled=var('person_etl_deaths')) }}

with present as (

    select distinct
        obituary_id,
        service_pid
    from {{ ref('stg_segment_death_signal') }}
    where is_present

)

select
    signals.obituary_id,
    signals.service_pid,
    signals.date_of_death,
    signals.first_observed_at,
    signals.publication_last_update_date,
    signals.signal_source,
    signals.signal_confidence_score,
    present.obituary_id is not null as is_reported
from {{ ref('stg_death_signal') }} as signals
left join present
    on present.obituary_id = signals.obituary_id
    and present.service_pid = signals.service_pid
