{# Query with a column `day`: every day from one date to another, both included. #}
{% macro days_between(first_day, last_day) %}
    {{- return(adapter.dispatch('days_between', 'person_etl')(first_day, last_day)) -}}
{% endmacro %}

{% macro default__days_between(first_day, last_day) -%}
select cast(day as date) as day
from generate_series({{ first_day }}, {{ last_day }}, interval '1 day') as days(day)
{%- endmacro %}

{% macro bigquery__days_between(first_day, last_day) -%}
select day
from unnest(generate_date_array({{ first_day }}, {{ last_day }})) as day
{%- endmacro %}

{% macro spark__days_between(first_day, last_day) -%}
select explode(sequence({{ first_day }}, {{ last_day }}, interval 1 day)) as day
{%- endmacro %}
