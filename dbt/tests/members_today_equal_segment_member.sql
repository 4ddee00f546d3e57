{{ config(enabled=var('person_etl_segments')) }}

with known as (

    select
        segment_id,
        count(*) as members
    from {{ ref('stg_segment_member') }}
    where is_member
    group by segment_id

),

today as (

    select
        segment_id,
        members
    from {{ ref('fct_segment_membership_daily') }}
    where day = (select max(day) from {{ ref('fct_segment_membership_daily') }})

)

select
    today.segment_id,
    today.members,
    known.members as members_in_warehouse
from today
left join known
    on known.segment_id = today.segment_id
where today.members <> coalesce(known.members, 0)
