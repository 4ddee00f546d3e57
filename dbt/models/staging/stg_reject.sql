select
    reject_id,
    job,
    stage,
    code,
    {{ utc_day('created_at') }} as day,
    resolved_at is null as is_open
from {{ source('person_data', 'reject') }}
