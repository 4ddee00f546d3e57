select
    run_id,
    job,
    shard,
    job_type,
    status,
    limited_by,
    started_at,
    finished_at,
    records_read,
    records_sent,
    records_matched,
    records_rejected,
    rows_written,
    requests,
    retries
from {{ source('person_data_ops', 'sync_run') }}
