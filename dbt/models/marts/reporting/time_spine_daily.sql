{# From before the first membership that a service can report until today. #}
{{ days_between("cast('2000-01-01' as date)", today()) }}
