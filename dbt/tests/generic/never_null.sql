{# Fails for every row with a null in one of the columns. #}
{% test never_null(model, columns) %}
select 1 as row_with_null
from {{ model }}
where {% for column in columns %}{{ adapter.quote(column) }} is null{{ ' or ' if not loop.last }}{% endfor %}
{% endtest %}
