{# Path of an endpoint without the method and the leading slash: `POST /v2/enrich` is `v2/enrich`. #}
{% macro endpoint_path(endpoint) -%}
regexp_replace({{ endpoint }}, '^[A-Z]+ /?', '')
{%- endmacro %}
