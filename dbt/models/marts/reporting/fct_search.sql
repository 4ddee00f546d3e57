{{ config(enabled=var('person_etl_searches')) }}

with members as (

    select
        segment_id,
        count(*) as people_returned
    from {{ ref('stg_audience_search_member') }}
    group by segment_id

)

select
    'person_search' as search_type,
    search_id,
    search_name,
    query,
    'completed' as status,
    created_at,
    total_count as people_found,
    result_count as people_returned,
    cast(null as {{ dbt.type_int() }}) as estimated_billable_count,
    cast(null as {{ dbt.type_int() }}) as billable_count,
    cast(null as {{ dbt.type_timestamp() }}) as unlocked_at
from {{ ref('stg_person_search') }}

union all

select
    'audience_search' as search_type,
    searches.segment_id as search_id,
    searches.search_name,
    searches.query,
    searches.status,
    searches.created_at,
    searches.total_count as people_found,
    members.people_returned,
    searches.estimated_billable_count,
    searches.billable_count,
    searches.unlocked_at
from {{ ref('stg_audience_search') }} as searches
left join members
    on members.segment_id = searches.segment_id
