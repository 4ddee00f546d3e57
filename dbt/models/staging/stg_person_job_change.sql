select
    service_pid,
    changed_at,
    old_since,
    old_work_company_name,
    old_work_title,
    new_work_company_name,
    new_work_title
from {{ published_view('person_data', 'person_job_change') }}
