{# Address as person-etl compares it: without white space around it, the letters A to Z in lower case. #}
{% macro normalized_email(address) -%}
    {%- set blanks = [
        9, 10, 11, 12, 13, 32, 133, 160, 5760, 8192, 8193, 8194, 8195, 8196, 8197, 8198, 8199, 8200, 8201, 8202,
        8232, 8233, 8239, 8287, 12288, 65279
    ] -%}
translate(
        {{ adapter.dispatch('trim_characters', 'person_etl')(address, blanks) }},
        'ABCDEFGHIJKLMNOPQRSTUVWXYZ',
        'abcdefghijklmnopqrstuvwxyz'
    )
{%- endmacro %}

{# Text without characters, of which the code points are given, around it. #}
{% macro default__trim_characters(text, characters) -%}
trim({{ text }}, concat({% for character in characters %}chr({{ character }}){{ ', ' if not loop.last }}{% endfor %}))
{%- endmacro %}

{# chr() of Spark ends at 255. #}
{% macro spark__trim_characters(text, characters) -%}
btrim({{ text }}, '{% for character in characters %}{{ '\\u%04x' | format(character) }}{% endfor %}')
{%- endmacro %}
