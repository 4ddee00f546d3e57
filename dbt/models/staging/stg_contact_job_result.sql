{{ config(enabled=var('person_etl_searches')) }}

select
    job_id,
    position,
    service_pid,
    matched_job_title,
    current_job_title,
    matched_company_name,
    matched_company_domain,
    matched_company_linkedin_url,
    matched_naics_code,
    full_name,
    linkedin_url
from {{ source('person_data', 'contact_job_result') }}
