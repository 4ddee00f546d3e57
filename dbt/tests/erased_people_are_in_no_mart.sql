{% for mart in ['dim_person', 'dim_person_history', 'fct_employment', 'fct_address', 'fct_email', 'fct_phone', 'fct_relative', 'fct_education'] %}
select
    '{{ mart }}' as mart,
    tombstones.service_pid
from {{ ref('stg_tombstone') }} as tombstones
inner join {{ ref(mart) }} as mart
    on mart.service_pid = tombstones.service_pid
{{ 'union all' if not loop.last }}
{% endfor %}
