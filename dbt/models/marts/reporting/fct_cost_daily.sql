select
    day,
    endpoint,
    job,
    records_sent,
    records_billed,
    possibly_billed,
    price,
    amount,
    currency,
    possibly_billed_amount
from {{ ref('stg_cost_daily') }}
