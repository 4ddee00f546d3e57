{{ config(enabled=var('person_etl_segments')) }}

select
    pushes.run_id,
    pushes.segment_id,
    segments.segment_name,
    pushes.observed_at,
    {{ utc_day('pushes.observed_at') }} as day,
    pushes.sent,
    pushes.push_added as added,
    pushes.redundant,
    pushes.push_removed as removed,
    pushes.unknown_pids,
    pushes.current_size
from {{ ref('stg_segment_sync') }} as pushes
left join {{ ref('stg_segment') }} as segments
    on segments.segment_id = pushes.segment_id
-- Null in runs that only read the segment.
where pushes.sent is not null
