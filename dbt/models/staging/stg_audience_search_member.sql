{{ config(enabled=var('person_etl_searches')) }}

select
    segment_id,
    service_pid,
    position
from {{ source('person_data', 'audience_search_member') }}
