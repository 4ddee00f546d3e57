select
    source,
    source_key,
    service_pid,
    job,
    match_score,
    matched_at
from {{ published_view('person_data', 'identity_link') }}
