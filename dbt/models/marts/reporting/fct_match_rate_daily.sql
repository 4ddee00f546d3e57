with answered as (

    select
        day,
        job,
        endpoint,
        records_sent - coalesce(records_in_doubt, 0) as records_answered,
        records_matched
    from {{ ref('stg_api_call') }}
    where
        http_status = 200
        and budget in ('resolve', 'validate_emails', 'enrich')

),

daily as (

    select
        day,
        job,
        endpoint,
        sum(records_answered) as records_answered,
        sum(records_matched) as records_matched
    from answered
    group by day, job, endpoint

)

select
    day,
    job,
    endpoint,
    records_answered,
    records_matched,
    {{ share('records_matched', 'records_answered') }} as match_rate
from daily
