select
    call_id,
    run_id,
    job,
    {{ endpoint_path('endpoint') }} as endpoint,
    budget,
    http_status,
    records_sent,
    records_matched,
    records_in_doubt,
    settled_at,
    error_details is not null as has_plan_figures,
    {{ json_integer('error_details', 'records_available') }} as records_available,
    {{ json_integer('error_details', 'records_remaining') }} as records_remaining,
    {{ json_integer('error_details', 'allowance_records_available') }} as allowance_records_available,
    {{ json_integer('error_details', 'overage_records_available') }} as overage_records_available,
    {{ json_integer('error_details', 'records_requested') }} as records_requested,
    {{ utc_day('coalesce(request_completed_at, started_at)') }} as day
from {{ source('person_data_ops', 'api_call') }}
