{{ config(enabled=var('person_etl_searches')) }}

select
    search_id,
    search_name,
    query,
    total_count,
    result_count,
    created_at
from {{ source('person_data', 'person_search') }}
