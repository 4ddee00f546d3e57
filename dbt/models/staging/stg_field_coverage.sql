select
    table_name,
    column_name,
    {{ adapter.quote('rows') }} as rows_total,
    rows_known
from {{ published_view('person_data', 'field_coverage') }}
