{# Fails for every combination of values of the columns that occurs more than once. #}
{% test unique_together(model, columns) %}
select {{ columns | join(', ') }}
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
