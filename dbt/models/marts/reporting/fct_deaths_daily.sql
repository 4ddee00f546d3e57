{{ config(enabled=var('person_etl_deaths')) }}

with members as (

    {% if var('person_etl_segments') %}
    select distinct service_pid
    from {{ ref('stg_segment_member') }}
    where is_member
    {% else %}
    select service_pid
    from {{ ref('int_deceased_people') }}
    where false
    {% endif %}

),

deaths as (

    select
        {{ utc_day('deceased.first_observed_at') }} as day,
        members.service_pid is not null as is_member
    from {{ ref('int_deceased_people') }} as deceased
    left join members
        on members.service_pid = deceased.service_pid
    where deceased.first_observed_at is not null

)

select
    day,
    count(*) as deaths,
    sum(case when is_member then 1 else 0 end) as deaths_of_members
from deaths
group by day
