select
    service_pid,
    phone_number,
    phone_type
from {{ published_view('person_data', 'person_best_phone') }}
