select
    service_pid,
    position,
    phone_rank,
    phone_type,
    phone_number
from {{ source('person_data', 'person_phone') }}
