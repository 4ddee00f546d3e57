select
    run_id,
    job,
    shard,
    job_type,
    status,
    limited_by,
    started_at,
    finished_at,
    {{ seconds_between('started_at', 'finished_at') }} as seconds,
    records_read,
    records_sent,
    records_matched,
    records_rejected,
    rows_written,
    requests,
    retries
from {{ ref('stg_sync_run') }}
