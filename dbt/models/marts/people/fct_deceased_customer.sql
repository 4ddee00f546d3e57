{{ config(enabled=var('person_etl_deaths')) }}

select *
from {{ ref('stg_deceased_customer') }}
