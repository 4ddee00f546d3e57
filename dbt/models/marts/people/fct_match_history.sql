select
    job,
    source,
    source_key,
    valid_from,
    valid_to,
    is_match,
    service_pid,
    match_score
from {{ ref('stg_match_history') }}
