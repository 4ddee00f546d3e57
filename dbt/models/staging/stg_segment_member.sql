{{ config(enabled=var('person_etl_segments')) }}

select
    segment_id,
    service_pid,
    is_member
from {{ source('person_data', 'segment_member') }}
