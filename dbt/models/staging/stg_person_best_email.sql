select
    service_pid,
    email_address,
    email_type,
    email_validation_status
from {{ published_view('person_data', 'person_best_email') }}
