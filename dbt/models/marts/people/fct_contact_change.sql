select *
from {{ ref('stg_person_contact_change') }}
