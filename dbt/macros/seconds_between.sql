{# Whole seconds between two instants. #}
{% macro seconds_between(first_instant, last_instant) %}
    {{- return(adapter.dispatch('seconds_between', 'person_etl')(first_instant, last_instant)) -}}
{% endmacro %}

{% macro default__seconds_between(first_instant, last_instant) -%}
cast(floor(extract(epoch from {{ last_instant }} - {{ first_instant }})) as {{ dbt.type_bigint() }})
{%- endmacro %}

{% macro bigquery__seconds_between(first_instant, last_instant) -%}
timestamp_diff({{ last_instant }}, {{ first_instant }}, second)
{%- endmacro %}

{% macro spark__seconds_between(first_instant, last_instant) -%}
timestampdiff(second, {{ first_instant }}, {{ last_instant }})
{%- endmacro %}
