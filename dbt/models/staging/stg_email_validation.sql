{{ config(enabled=var('person_etl_validation')) }}

select
    email_address,
    {{ normalized_email('email_address') }} as normalized_address,
    email_validation_status,
    coalesce(status_changed_at, request_completed_at) as status_since,
    _synced_at
from {{ source('person_data', 'email_validation') }}
