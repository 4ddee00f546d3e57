{# Bytes as lowercase hex. #}
{% macro bytes_to_hex(bytes) %}
    {{- return(adapter.dispatch('bytes_to_hex', 'person_etl')(bytes)) -}}
{% endmacro %}

{% macro default__bytes_to_hex(bytes) -%}
encode({{ bytes }}, 'hex')
{%- endmacro %}

{% macro bigquery__bytes_to_hex(bytes) -%}
to_hex({{ bytes }})
{%- endmacro %}

{% macro duckdb__bytes_to_hex(bytes) -%}
lower(hex({{ bytes }}))
{%- endmacro %}

{% macro spark__bytes_to_hex(bytes) -%}
lower(hex({{ bytes }}))
{%- endmacro %}
