select *
from {{ ref('stg_person_move') }}
