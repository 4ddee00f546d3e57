select
    job,
    source,
    source_key,
    valid_from,
    valid_to,
    is_match,
    service_pid,
    match_score
from {{ source('person_data', 'match_history') }}
