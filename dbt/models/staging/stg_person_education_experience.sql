select
    service_pid,
    position,
    experience_rank,
    service_experience_id,
    institution_name,
    institution_linkedin_url,
    education_information,
    education_level,
    education_start_date,
    education_end_date,
    education_majors,
    education_minors,
    education_start_on,
    education_start_precision,
    education_end_on,
    education_end_precision
from {{ source('person_data', 'person_education_experience') }}
