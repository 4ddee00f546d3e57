{{ config(enabled=var('person_etl_searches')) }}

select
    segment_id,
    search_name,
    query,
    status,
    created_at,
    total_count,
    estimated_billable_count,
    billable_count,
    results_unlocked,
    error_code,
    unlocked_at,
    members_stored_at
from {{ source('person_data', 'audience_search') }}
