with mart as (

    select
        sum(records_billed) as records_billed,
        sum(amount) as amount
    from {{ ref('fct_cost_daily') }}

),

warehouse as (

    select
        sum(records_billed) as records_billed,
        sum(amount) as amount
    from {{ published_view('person_data_ops', 'cost_daily') }}

)

select
    mart.records_billed,
    mart.amount,
    warehouse.records_billed as records_billed_in_warehouse,
    warehouse.amount as amount_in_warehouse
from mart
cross join warehouse
where
    coalesce(mart.records_billed, 0) <> coalesce(warehouse.records_billed, 0)
    or coalesce(mart.amount, 0) <> coalesce(warehouse.amount, 0)
