{{ config(enabled=var('person_etl_searches')) }}

select *
from {{ ref('stg_contact_job_result') }}
