{{ config(enabled=var('person_etl_erasure_key') != '') }}

select key_id
from {{ ref('stg_erasure_subject') }}
where key_id <> {{ erasure_key_id() }}
