select
    erasure_id,
    kind,
    {{ bytes_to_hex('subject_hash') }} as subject_hash,
    key_id,
    requested_at
from {{ source('person_data_ops', 'erasure_subject') }}
