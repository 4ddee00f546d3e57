select
    service_pid,
    address_line_1,
    address_line_2,
    address_city,
    address_state,
    address_zipcode
from {{ published_view('person_data', 'person_current_address') }}
