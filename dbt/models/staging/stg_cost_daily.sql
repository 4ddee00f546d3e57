select
    day,
    endpoint,
    job,
    records_sent,
    records_billed,
    possibly_billed,
    price,
    amount,
    currency
from {{ source('person_data_ops', 'cost_daily') }}
