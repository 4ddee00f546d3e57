select
    table_name,
    last_success_at,
    last_changed_at,
    safe_until
from {{ source('person_data_ops', 'table_freshness') }}
