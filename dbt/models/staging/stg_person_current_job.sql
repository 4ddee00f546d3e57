select
    service_pid,
    work_company_name,
    work_company_industry,
    work_title,
    standard_work_title,
    work_seniority_level,
    work_department,
    work_start_on,
    work_start_precision
from {{ published_view('person_data', 'person_current_job') }}
