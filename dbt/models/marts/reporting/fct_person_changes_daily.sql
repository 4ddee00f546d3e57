with changes as (

    select
        service_pid,
        changed_at,
        'job' as change_type
    from {{ ref('stg_person_job_change') }}

    union all

    select
        service_pid,
        changed_at,
        'address' as change_type
    from {{ ref('stg_person_move') }}

    union all

    select
        service_pid,
        changed_at,
        case field_group when 'phones' then 'phone' else 'email' end as change_type
    from {{ ref('stg_person_contact_change') }}

),

daily as (

    select
        service_pid,
        {{ utc_day('changed_at') }} as day,
        change_type
    from changes

)

select
    day,
    change_type,
    count(distinct service_pid) as people,
    count(*) as changes
from daily
group by day, change_type
