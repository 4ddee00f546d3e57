select
    call_id,
    endpoint,
    settled_at as stated_at,
    coalesce(
        records_available,
        records_remaining,
        case
            when coalesce(allowance_records_available, overage_records_available) is not null
                then coalesce(allowance_records_available, 0) + coalesce(overage_records_available, 0)
        end
    ) as records_left,
    allowance_records_available,
    overage_records_available,
    records_requested
from {{ ref('stg_api_call') }}
where has_plan_figures
