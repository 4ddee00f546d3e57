{{ config(enabled=var('person_etl_usage')) }}

select
    endpoint,
    observed_date,
    total_requests,
    num_input_records,
    num_resolvable_records,
    num_matches,
    overall_match_rate,
    resolvable_match_rate,
    last_requested_at
from {{ source('person_data_ops', 'endpoint_usage') }}
