{{
    config(
        materialized='incremental',
        on_schema_change='append_new_columns',
        pre_hook='{{ delete_changed_people("int_person_changes") }}',
        post_hook='{{ delete_erased_people() }}',
    )
}}

{% if var('person_etl_validation') %}
-- An address may have been validated in several spellings: the newest status counts.
with validations as (

    select
        normalized_address,
        email_validation_status,
        row_number() over (
            partition by normalized_address
            order by status_since desc, email_address
        ) as place
    from {{ ref('stg_email_validation') }}

)

{% endif %}
select
    emails.service_pid,
    emails.email_type,
    emails.position,
    emails.email_rank,
    emails.email_address,
    {% if var('person_etl_validation') %}
    validations.email_validation_status,
    {% else %}
    cast(null as {{ dbt.type_string() }}) as email_validation_status,
    {% endif %}
    people._record_synced_at
from {{ ref('int_settled_people') }} as people
inner join {{ ref('stg_person_email') }} as emails
    on emails.service_pid = people.service_pid
{% if var('person_etl_validation') %}
left join validations
    on validations.normalized_address = emails.normalized_address
    and validations.place = 1
{% endif %}
where {{ is_missing('people') }}
