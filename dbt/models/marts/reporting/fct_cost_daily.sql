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
from {{ ref('stg_cost_daily') }}
