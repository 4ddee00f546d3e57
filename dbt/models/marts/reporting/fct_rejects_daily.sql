select
    day,
    job,
    stage,
    code,
    count(*) as rejects,
    sum(case when is_open then 1 else 0 end) as open_rejects
from {{ ref('stg_reject') }}
group by day, job, stage, code
