-- Of an erasure that is still pending, rows may be left in the warehouse.
with people as (

    select
        settled.service_pid,
        settled._record_synced_at
    from {{ ref('int_settled_people') }} as settled
    left join {{ ref('stg_tombstone') }} as tombstones
        on tombstones.service_pid = settled.service_pid
    where tombstones.service_pid is null

)

select
    people.service_pid,
    people._record_synced_at,
    dim_person._record_synced_at as _record_synced_at_in_mart
from people
left join {{ ref('dim_person') }} as dim_person
    on dim_person.service_pid = people.service_pid
where
    dim_person.service_pid is null
    or dim_person._record_synced_at <> people._record_synced_at
