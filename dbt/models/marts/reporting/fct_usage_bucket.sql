{{ config(enabled=var('person_etl_usage')) }}

select
    endpoint,
    bucketing_size,
    timezone,
    bucket_start,
    bucket_start_local,
    bucket_end,
    total_requests,
    num_input_records,
    num_resolvable_records,
    num_matches,
    {{ share('num_matches', 'num_input_records') }} as overall_match_rate,
    {{ share('num_matches', 'num_resolvable_records') }} as resolvable_match_rate,
    is_final
from {{ ref('stg_endpoint_usage_bucket') }}
