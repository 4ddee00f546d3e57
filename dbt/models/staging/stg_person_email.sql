select
    service_pid,
    email_type,
    position,
    email_rank,
    email_address,
    {{ normalized_email('email_address') }} as normalized_address
from {{ source('person_data', 'person_email') }}
