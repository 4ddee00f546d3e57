{# View of person-etl, or its query where the destination has no views. #}
{% macro published_view(schema, view) -%}
{% if var('person_etl_views') %}{{ source(schema, view) }}{% else %}({{ adapter.dispatch('query_of_view', 'person_etl')(view) }}){% endif %}
{%- endmacro %}

{% macro default__query_of_view(view) -%}
{{ exceptions.raise_compiler_error('person_etl_views can be false only on DuckDB.') }}
{%- endmacro %}
