{{ config(enabled=var('person_etl_usage')) }}

select *
from {{ ref('stg_endpoint_usage') }}
