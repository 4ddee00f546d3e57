{{ config(enabled=var('person_etl_searches')) }}

select
    segment_id,
    channel,
    {{ adapter.quote('count') }} as people,
    round(percentage / 100.0, 4) as share_of_people
from {{ source('person_data', 'audience_search_coverage') }}
