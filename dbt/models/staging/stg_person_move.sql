select
    service_pid,
    changed_at,
    old_since,
    old_address_line_1,
    old_address_city,
    old_address_state,
    old_address_zipcode,
    new_address_line_1,
    new_address_city,
    new_address_state,
    new_address_zipcode
from {{ published_view('person_data', 'person_move') }}
