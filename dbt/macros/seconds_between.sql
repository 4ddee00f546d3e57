{# Seconds between two instants, in whole milliseconds. #}
{% macro seconds_between(first_instant, last_instant) %}
    {{- return(adapter.dispatch('seconds_between', 'person_etl')(first_instant, last_instant)) -}}
{% endmacro %}

{% macro default__seconds_between(first_instant, last_instant) -%}
round(floor(cast(extract(epoch from {{ last_instant }} - {{ first_instant }}) as {{ dbt.type_numeric() }}) * 1000) / 1000, 3)
{%- endmacro %}

{% macro bigquery__seconds_between(first_instant, last_instant) -%}
timestamp_diff({{ last_instant }}, {{ first_instant }}, millisecond) / 1000
{%- endmacro %}

{% macro spark__seconds_between(first_instant, last_instant) -%}
timestampdiff(millisecond, {{ first_instant }}, {{ last_instant }}) / 1000
{%- endmacro %}
