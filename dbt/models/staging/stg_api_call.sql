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
    {{ utc_day('coalesce(request_completed_at, started_at)') }} as day
from {{ source('person_data_ops', 'api_call') }}
