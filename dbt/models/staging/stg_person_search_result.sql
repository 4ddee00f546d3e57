{{ config(enabled=var('person_etl_searches')) }}

select
    search_id,
    position,
    service_pid
from {{ source('person_data', 'person_search_result') }}
