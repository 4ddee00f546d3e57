{{ config(enabled=var('person_etl_searches')) }}

select
    'person_search' as search_type,
    search_id,
    position,
    service_pid
from {{ ref('stg_person_search_result') }}

union all

select
    'audience_search' as search_type,
    segment_id as search_id,
    position,
    service_pid
from {{ ref('stg_audience_search_member') }}
