{# UTC day of an instant. #}
{% macro utc_day(instant) %}
    {{- return(adapter.dispatch('utc_day', 'person_etl')(instant)) -}}
{% endmacro %}

{% macro default__utc_day(instant) -%}
cast({{ instant }} at time zone 'UTC' as date)
{%- endmacro %}

{% macro bigquery__utc_day(instant) -%}
date({{ instant }}, 'UTC')
{%- endmacro %}

{% macro spark__utc_day(instant) -%}
cast(to_utc_timestamp({{ instant }}, current_timezone()) as date)
{%- endmacro %}

{# Current UTC day. #}
{% macro today() -%}
{{ utc_day('current_timestamp') }}
{%- endmacro %}
