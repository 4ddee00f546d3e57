with responses as (

    select
        source,
        source_key,
        request_completed_at
    from {{ ref('stg_resolution') }}

    union all

    select
        source,
        source_key,
        request_completed_at
    from {{ ref('stg_enrichment') }}

),

last_responses as (

    select
        source,
        source_key,
        max(request_completed_at) as last_response_at
    from responses
    group by source, source_key

)

select
    links.source,
    links.source_key,
    links.service_pid,
    links.job,
    links.match_score,
    links.matched_at,
    last_responses.last_response_at,
    people.service_pid is not null as is_enriched,
    people.full_name,
    people.first_name,
    people.last_name,
    people.gender,
    people.dob,
    people.marital_status,
    people.estimated_income_min,
    people.estimated_income_max,
    people.estimated_wealth_min,
    people.estimated_wealth_max,
    people.home_ownership_status,
    people.linkedin_url,
    people.email_address,
    people.email_type,
    people.email_validation_status,
    people.phone_number,
    people.phone_type,
    people.address_line_1,
    people.address_line_2,
    people.address_city,
    people.address_state,
    people.address_zipcode,
    people.work_company_name,
    people.work_company_industry,
    people.work_title,
    people.work_seniority_level,
    people.work_start_on,
    people.is_deceased,
    people.date_of_death,
    people._record_synced_at
from {{ ref('fct_identity_link') }} as links
left join last_responses
    on last_responses.source = links.source
    and last_responses.source_key = links.source_key
left join {{ ref('dim_person') }} as people
    on people.service_pid = links.service_pid
