{{ config(enabled=var('person_etl_searches')) }}

select
    'person_search' as search_type,
    search_id,
    case scope when 'results' then 'channel of results' else 'channel' end as distribution,
    channel as label,
    people,
    share_of_people
from {{ ref('stg_person_search_coverage') }}

union all

select
    'audience_search' as search_type,
    segment_id as search_id,
    'channel' as distribution,
    channel as label,
    people,
    share_of_people
from {{ ref('stg_audience_search_coverage') }}

union all

select
    'audience_search' as search_type,
    segment_id as search_id,
    distribution,
    label,
    people,
    share_of_people
from {{ ref('stg_audience_search_distribution') }}
