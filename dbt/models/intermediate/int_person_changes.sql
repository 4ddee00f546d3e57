select
    service_pid,
    _record_synced_at
from {{ ref('stg_person') }}

{% if var('person_etl_deaths') %}
union all

select
    service_pid,
    _synced_at as _record_synced_at
from {{ ref('stg_death_signal') }}
{% endif %}

{% if var('person_etl_validation') %}
union all

select
    emails.service_pid,
    validations._synced_at as _record_synced_at
from {{ ref('stg_person_email') }} as emails
inner join {{ ref('stg_email_validation') }} as validations
    on validations.normalized_address = emails.normalized_address
{% endif %}
