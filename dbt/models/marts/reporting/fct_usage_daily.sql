{{ config(enabled=var('person_etl_usage')) }}

with endpoints as (

    select
        day,
        endpoint,
        calls_ledger,
        calls_reported,
        calls_difference,
        records_ledger,
        records_reported,
        is_final
    from {{ ref('stg_usage_reconciliation') }}

),

-- The service reports person search per day, not per endpoint.
searches as (

    select
        day,
        sum(records_delivered) as search_records_delivered,
        sum(searches_created) as searches_created,
        sum(parse_requests) as search_parse_requests,
        min(case when is_final then 1 else 0 end) = 1 as is_final
    from {{ ref('stg_person_search_usage_daily') }}
    group by day

),

quotas as (

    select
        day,
        max(daily_record_limit) as search_records_limit
    from {{ ref('stg_person_search_quota') }}
    group by day

)

select
    day,
    endpoint,
    calls_ledger,
    calls_reported,
    calls_difference,
    records_ledger,
    records_reported,
    cast(null as {{ dbt.type_int() }}) as search_records_delivered,
    cast(null as {{ dbt.type_int() }}) as searches_created,
    cast(null as {{ dbt.type_int() }}) as search_parse_requests,
    cast(null as {{ dbt.type_int() }}) as search_records_limit,
    is_final
from endpoints

union all

select
    searches.day,
    'person-search' as endpoint,
    cast(null as {{ dbt.type_int() }}) as calls_ledger,
    cast(null as {{ dbt.type_int() }}) as calls_reported,
    cast(null as {{ dbt.type_int() }}) as calls_difference,
    cast(null as {{ dbt.type_int() }}) as records_ledger,
    cast(null as {{ dbt.type_int() }}) as records_reported,
    searches.search_records_delivered,
    searches.searches_created,
    searches.search_parse_requests,
    quotas.search_records_limit,
    searches.is_final
from searches
left join quotas
    on quotas.day = searches.day
