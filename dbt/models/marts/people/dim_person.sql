{{
    config(
        materialized='incremental',
        on_schema_change='append_new_columns',
        pre_hook='{{ delete_changed_people("int_person_changes") }}',
        post_hook='{{ delete_erased_people() }}',
    )
}}

with people as (

    select *
    from {{ ref('int_settled_people') }} as settled
    where {{ is_missing('settled') }}

)

select
    people.service_pid,
    people.full_name,
    people.first_name,
    people.middle_name,
    people.last_name,
    people.name_suffix,
    people.gender,
    people.dob,
    people.age,
    people.marital_status,
    people.service_household_id,
    people.service_spouse_pid,
    people.number_of_children,
    people.is_retired,
    people.estimated_income_range,
    people.estimated_income_min,
    people.estimated_income_max,
    people.estimated_wealth_range,
    people.estimated_wealth_min,
    people.estimated_wealth_max,
    people.home_ownership_status,
    people.has_bankruptcy_records,
    people.has_judgment_records,
    people.linkedin_url,
    people.linkedin_title,
    people.linkedin_industry,
    people.linkedin_profile_pic_url,
    people.is_likely_remote_worker,
    people.facebook_url,
    people.twitter_url,
    emails.email_address,
    emails.email_type,
    emails.email_validation_status,
    phones.phone_number,
    phones.phone_type,
    addresses.address_line_1,
    addresses.address_line_2,
    addresses.address_city,
    addresses.address_state,
    addresses.address_zipcode,
    jobs.work_company_name,
    jobs.work_company_industry,
    jobs.work_title,
    jobs.standard_work_title,
    jobs.work_seniority_level,
    jobs.work_department,
    jobs.work_start_on,
    jobs.work_start_precision,
    {% if var('person_etl_deaths') %}
    deceased.service_pid is not null as is_deceased,
    deceased.date_of_death,
    {% else %}
    cast(null as {{ dbt.type_boolean() }}) as is_deceased,
    cast(null as date) as date_of_death,
    {% endif %}
    people._record_synced_at
from people
left join {{ ref('stg_person_best_email') }} as emails
    on emails.service_pid = people.service_pid
left join {{ ref('stg_person_best_phone') }} as phones
    on phones.service_pid = people.service_pid
left join {{ ref('stg_person_current_address') }} as addresses
    on addresses.service_pid = people.service_pid
left join {{ ref('stg_person_current_job') }} as jobs
    on jobs.service_pid = people.service_pid
{% if var('person_etl_deaths') %}
left join {{ ref('int_deceased_people') }} as deceased
    on deceased.service_pid = people.service_pid
{% endif %}
