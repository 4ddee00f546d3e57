{{ config(enabled=var('person_etl_erasure_key') != '') }}

with subjects as (

    select
        kind as subject_kind,
        subject_hash,
        'erased' as reason,
        requested_at as since
    from {{ ref('stg_erasure_subject') }}
    -- A content hash covers a whole record: no contact list can be matched against it.
    where kind <> 'content'

    {% if var('person_etl_deaths') %}
    union all

    select
        'pid' as subject_kind,
        {{ hmac_sha256("'pid:' || service_pid") }} as subject_hash,
        'deceased' as reason,
        first_observed_at as since
    from {{ ref('int_deceased_people') }}
    {% endif %}

    {% if var('person_etl_validation') %}
    union all

    select
        'email' as subject_kind,
        {{ hmac_sha256("'email:' || normalized_address") }} as subject_hash,
        'invalid_address' as reason,
        status_since as since
    from {{ ref('stg_email_validation') }}
    where email_validation_status = 'invalid'
    {% endif %}

)

-- The same address may have been sent in several spellings, and the same person erased several times.
select
    subject_kind,
    subject_hash,
    reason,
    min(since) as since
from subjects
group by subject_kind, subject_hash, reason
