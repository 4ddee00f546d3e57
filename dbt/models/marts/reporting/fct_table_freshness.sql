select
    table_name,
    last_success_at,
    last_changed_at,
    safe_until,
    round({{ seconds_between('last_success_at', "current_timestamp") }} / 3600.0, 1) as hours_since_success
from {{ ref('stg_table_freshness') }}
