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
    is_final
from {{ source('person_data_ops', 'endpoint_usage_bucket') }}
