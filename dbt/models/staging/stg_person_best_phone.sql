select
    service_pid,
    phone_number,
    phone_type
from {{ source('person_data', 'person_best_phone') }}
