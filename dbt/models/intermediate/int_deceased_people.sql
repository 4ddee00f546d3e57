{{ config(enabled=var('person_etl_deaths')) }}

with ranked as (

    select
        service_pid,
        date_of_death,
        min(first_observed_at) over (partition by service_pid) as first_observed_at,
        row_number() over (
            partition by service_pid
            order by
                case when date_of_death is null then 1 else 0 end,
                coalesce(signal_confidence_score, 0) desc,
                obituary_id
        ) as place
    from {{ ref('stg_death_signal') }}

)

select
    service_pid,
    date_of_death,
    first_observed_at
from ranked
where place = 1
