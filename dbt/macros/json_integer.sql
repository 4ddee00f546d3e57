{# Integer in a field of a JSON object. #}
{% macro json_integer(object, field) %}
    {{- return(adapter.dispatch('json_integer', 'person_etl')(object, field)) -}}
{% endmacro %}

{% macro default__json_integer(object, field) -%}
cast({{ object }} ->> '{{ field }}' as {{ dbt.type_bigint() }})
{%- endmacro %}

{% macro bigquery__json_integer(object, field) -%}
cast(json_value({{ object }}, '$.{{ field }}') as int64)
{%- endmacro %}

{% macro spark__json_integer(object, field) -%}
cast(get_json_object({{ object }}, '$.{{ field }}') as bigint)
{%- endmacro %}
