{{ config(enabled=var('person_etl_searches')) }}

select
    job_id,
    job_type,
    status,
    created_at,
    completed_at,
    result_count,
    total_matched,
    results_unlocked,
    error_code,
    billable_count,
    unlocked_at
from {{ source('person_data', 'contact_job') }}
