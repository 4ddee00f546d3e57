{#
An incremental model of people deletes the changed people before it runs, and then appends the missing ones.
If it is interrupted in between, the next run appends them. The models have no unique_key: without one, dbt's default
strategy inserts all rows of the query in every engine.
#}

{#
Pre-hook: deletes the rows of people who changed since the newest row of the model. `changes` is the model that has
the changes that matter, as `service_pid` and `_record_synced_at`.
#}
{% macro delete_changed_people(changes='stg_person') %}
    {%- set changes = ref('person_etl', changes) -%}
    {%- set settled = ref('person_etl', 'int_settled_people') -%}
    {%- if is_incremental() -%}
delete from {{ this }}
where service_pid in (
    select changes.service_pid
    from {{ changes }} as changes
    inner join {{ settled }} as people
        on people.service_pid = changes.service_pid
    where changes._record_synced_at >= (select max(_record_synced_at) from {{ this }})
)
    {%- endif -%}
{% endmacro %}

{# Condition for people missing from the model. `people` is the alias of a relation with `service_pid`. #}
{% macro is_missing(people) %}
    {%- if is_incremental() -%}
not exists (
        select 1 from {{ this }} as existing
        where existing.service_pid = {{ people }}.service_pid
    )
    {%- else -%}
true
    {%- endif -%}
{% endmacro %}

{# Post-hook for everything that keeps rows of people: deletes the rows of erased people. #}
{% macro delete_erased_people() -%}
delete from {{ this }}
where service_pid in (
    select service_pid from {{ ref('person_etl', 'stg_tombstone') }}
    where service_pid is not null
)
{%- endmacro %}
