{{ config(enabled=var('person_etl_segments')) }}

select
    segment_id,
    coalesce(name, segment_id) as segment_name
from {{ source('person_data', 'segment') }}
