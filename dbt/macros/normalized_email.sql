{# Address as person-etl compares it: without white space around it, the letters A to Z in lower case. #}
{% macro normalized_email(address) -%}
    {%- set blanks = [
        9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197, 8198, 8199, 8200, 8201, 8202,
        8232, 8233, 8239, 8287, 12288, 65279
    ] -%}
translate(
        trim({{ address }}, concat({% for blank in blanks %}chr({{ blank }}){{ ', ' if not loop.last }}{% endfor %})),
        'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
        'abcdefghijklmnopqrstuvwxyz'
    )
{%- endmacro %}
