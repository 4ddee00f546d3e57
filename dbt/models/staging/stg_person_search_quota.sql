{{ config(enabled=var('person_etl_usage')) }}

select
    org_id,
    {{ utc_day('observed_at') }} as day,
    daily_record_limit
from {{ source('person_data_ops', 'person_search_quota') }}
