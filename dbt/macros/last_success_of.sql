{# Query for the freshness of a source table. A table that no job loads is never late. #}
{% macro last_success_of(table) -%}
select coalesce(max(last_success_at), current_timestamp)
from {{ source('person_data_ops', 'table_freshness') }}
where table_name = '{{ table }}'
{%- endmacro %}
