-- A run in progress may still commit rows with a `_record_synced_at` from `safe_until` on.
select people.*
from {{ ref('stg_person') }} as people
where people._record_synced_at < (
    select safe_until
    from {{ ref('stg_table_freshness') }}
    where table_name = 'person'
)
