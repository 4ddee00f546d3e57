{{ config(enabled=var('person_etl_segments')) }}

select
    segment_id,
    service_pid,
    valid_from,
    valid_to,
    {{ utc_day('valid_from') }} as added_on,
    {{ utc_day('valid_to') }} as removed_on
from {{ source('person_data', 'segment_membership_history') }}
