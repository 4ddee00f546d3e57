select *
from {{ ref('stg_person_job_change') }}
