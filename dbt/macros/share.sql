{# Share of a count in a total, 0 to 1, four decimals; null if the total is 0. #}
{% macro share(part, total) -%}
round(1.0 * {{ part }} / nullif({{ total }}, 0), 4)
{%- endmacro %}
