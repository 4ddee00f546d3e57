{{ config(enabled=var('person_etl_usage')) }}

select
    org_id,
    period_start as day,
    records_delivered,
    searches_created,
    parse_requests,
    is_final
from {{ source('person_data_ops', 'person_search_usage_daily') }}
