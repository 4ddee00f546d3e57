{{ config(enabled=var('person_etl_searches')) }}

select
    search_id,
    scope,
    channel,
    {{ adapter.quote('count') }} as people,
    round({{ adapter.quote('percent') }} / 100.0, 4) as share_of_people
from {{ source('person_data', 'person_search_coverage') }}
