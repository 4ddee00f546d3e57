select
    job,
    source,
    source_key,
    request_completed_at
from {{ source('person_data', 'resolution') }}
