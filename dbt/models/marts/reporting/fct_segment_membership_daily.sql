{{ config(enabled=var('person_etl_segments')) }}

with changes as (

    select
        segment_id,
        added_on as day,
        1 as added,
        0 as removed
    from {{ ref('stg_segment_membership_history') }}

    union all

    select
        segment_id,
        removed_on as day,
        0 as added,
        1 as removed
    from {{ ref('stg_segment_membership_history') }}
    where removed_on is not null

),

daily_changes as (

    select
        segment_id,
        day,
        sum(added) as added,
        sum(removed) as removed
    from changes
    group by segment_id, day

),

first_days as (

    select
        segment_id,
        min(day) as first_day
    from daily_changes
    group by segment_id

),

-- One row per segment and day since its first member, also for days without a change.
segment_days as (

    select
        first_days.segment_id,
        spine.day
    from first_days
    inner join {{ ref('time_spine_daily') }} as spine
        on spine.day >= first_days.first_day

)

select
    segment_days.day,
    segment_days.segment_id,
    segments.segment_name,
    sum(coalesce(daily_changes.added, 0) - coalesce(daily_changes.removed, 0)) over (
        partition by segment_days.segment_id
        order by segment_days.day
        rows between unbounded preceding and current row
    ) as members,
    coalesce(daily_changes.added, 0) as added,
    coalesce(daily_changes.removed, 0) as removed
from segment_days
left join daily_changes
    on daily_changes.segment_id = segment_days.segment_id
    and daily_changes.day = segment_days.day
left join {{ ref('stg_segment') }} as segments
    on segments.segment_id = segment_days.segment_id
