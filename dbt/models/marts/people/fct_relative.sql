{{
    config(
        materialized='incremental',
        on_schema_change='append_new_columns',
        pre_hook='{{ delete_changed_people() }}',
        post_hook='{{ delete_erased_people() }}',
    )
}}

select
    relatives.*,
    people._record_synced_at
from {{ ref('int_settled_people') }} as people
inner join {{ ref('stg_person_relative') }} as relatives
    on relatives.service_pid = people.service_pid
where {{ is_missing('people') }}
