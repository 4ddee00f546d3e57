select
    table_name,
    column_name,
    rows_total,
    rows_known,
    {{ share('rows_known', 'rows_total') }} as share_known
from {{ ref('stg_field_coverage') }}
