{{ config(enabled=var('person_etl_usage')) }}

select
    day,
    endpoint,
    ours as calls_ledger,
    reported as calls_reported,
    not_ours as calls_difference,
    ours_records as records_ledger,
    reported_records as records_reported,
    is_final
from {{ published_view('person_data_ops', 'usage_reconciliation') }}
