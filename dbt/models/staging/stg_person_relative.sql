select
    service_pid,
    position,
    relative_service_pid,
    relative_first_name,
    relative_last_name,
    relationship_label,
    relationship_sublabel
from {{ source('person_data', 'person_relative') }}
