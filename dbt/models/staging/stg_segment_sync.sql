{{ config(enabled=var('person_etl_segments')) }}

select
    segment_id,
    run_id,
    observed_at,
    current_size,
    sent,
    push_added,
    redundant,
    push_removed,
    {{ adapter.quote('unknown') }} as unknown_pids
from {{ source('person_data_ops', 'segment_sync') }}
