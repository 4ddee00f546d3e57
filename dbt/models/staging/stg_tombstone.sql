select
    tombstone_id,
    service_pid,
    source,
    source_key,
    erased_at
from {{ source('person_data', 'tombstone') }}
