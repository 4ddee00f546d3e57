select
    service_pid,
    changed_at,
    field_group,
    change_type,
    contact
from {{ published_view('person_data', 'person_contact_change') }}
