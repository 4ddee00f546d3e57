{# Fails for every key that has a null or occurs more than once. #}
{% test primary_key(model, columns) %}
    {%- set names = [] -%}
    {%- for column in columns -%}
        {%- do names.append(adapter.quote(column)) -%}
    {%- endfor -%}
select {{ names | join(', ') }}
from {{ model }}
group by {{ names | join(', ') }}
having count(*) > 1 or {{ names | join(' is null or ') }} is null
{% endtest %}
