select
    source,
    source_key,
    service_pid,
    job,
    match_score,
    matched_at
from {{ ref('stg_identity_link') }}
