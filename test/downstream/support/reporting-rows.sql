-- Ninety days of a synthetic organization, up to today: fixed figures, so that pictures of the dashboards only differ by their dates.
-- The tables are empty and on the search path.

CREATE TEMPORARY TABLE nights AS
SELECT (now() AT TIME ZONE 'UTC')::date - 89 + n AS day, n, 0.75 + noise / 2 AS wave, n % 7 + 1 AS weekday, noise
FROM generate_series(0, 89) AS n, LATERAL (SELECT ('x' || substr(md5(n::text), 1, 4))::bit(16)::integer / 65536.0 AS noise) AS random;

CREATE TEMPORARY TABLE billed_jobs (job text, endpoint text, price numeric, share numeric, records integer);
INSERT INTO billed_jobs VALUES
  ('resolve_customers', 'v1/resolve', 0.01, 0.866, 9000), ('validate_customers', 'v2/validate_emails', 0.002, 1, 14000),
  ('enrich_customers', 'v2/enrich', 0.10, 0.842, 1600), ('audiences', 'person-search/v0/search-jobs', 0.20, 1, 220);

INSERT INTO fct_cost_daily (day, endpoint, job, records_sent, records_billed, possibly_billed, price, amount, currency, possibly_billed_amount)
SELECT day, endpoint, job, sent, billed, possibly, price, billed * price, 'USD', possibly * price
FROM (
  SELECT day, endpoint, job, price, sent, floor(sent * share * CASE WHEN share < 1 THEN 0.98 + (noise * 7919 + length(job) * 0.37) % 0.03 ELSE 1 END)::integer AS billed,
    CASE WHEN n % 17 = 4 AND job <> 'audiences' THEN least(50, sent / 20) ELSE 0 END AS possibly
  FROM (
    SELECT *, floor(records * wave * CASE WHEN n < 3 THEN 2.5 WHEN weekday > 5 THEN 0.35 ELSE 1 END)::integer AS sent
    FROM nights, billed_jobs WHERE job <> 'audiences' OR weekday = 1) AS a) AS b;

INSERT INTO fct_match_rate_daily (day, job, endpoint, records_answered, records_matched, match_rate)
SELECT day, job, endpoint, records_sent, floor(records_billed * part), round(floor(records_billed * part) / records_sent, 6)
FROM (SELECT *, CASE job WHEN 'validate_customers' THEN 0.90 + records_sent % 97 / 4000.0 ELSE 1 END AS part FROM fct_cost_daily) AS c
WHERE job <> 'audiences';

INSERT INTO fct_usage_daily (day, endpoint, calls_ledger, calls_reported, calls_difference, records_ledger, records_reported, is_final)
SELECT day, endpoint, calls, calls + others, others, records_sent, records_sent + others * 20, n < 86
FROM (
  SELECT *, greatest(1, records_sent / 100) AS calls, CASE WHEN n = 89 THEN 0 WHEN endpoint = 'v2/enrich' AND n BETWEEN 49 AND 56 THEN 45
    WHEN endpoint = 'v1/resolve' THEN n % 4 ELSE 0 END AS others
  FROM fct_cost_daily JOIN nights USING (day)) AS c;

INSERT INTO fct_usage_daily (day, endpoint, search_records_delivered, searches_created, search_parse_requests, search_records_limit, is_final)
SELECT day, 'person-search', floor(620 * wave * CASE WHEN weekday = 1 THEN 2 ELSE 1 END), 3 + n % 5,
  5 + n % 7, CASE WHEN n < 30 THEN 1000 ELSE 2000 END, n < 86
FROM nights;

CREATE TEMPORARY TABLE coverage (table_name text, column_name text, share numeric);
INSERT INTO coverage
SELECT 'person', name, share FROM unnest(
  ARRAY['full_name', 'first_name', 'last_name', 'gender', 'birth_year', 'birth_month', 'birth_day', 'marital_status', 'is_parent', 'is_homeowner',
    'estimated_income_range', 'estimated_wealth_range', 'linkedin_url', 'linkedin_title', 'linkedin_headline', 'number_of_children', 'religion',
    'party_affiliation', 'date_of_death'],
  ARRAY[1, 0.99, 0.99, 0.93, 0.81, 0.77, 0.62, 0.66, 0.58, 0.71, 0.83, 0.64, 0.57, 0.55, 0.49, 0.37, 0.28, 0.41, 0.012]::numeric[]) AS c(name, share)
UNION ALL SELECT 'person_email', name, share FROM unnest(
  ARRAY['email_address', 'email_type', 'email_last_seen_date', 'email_rank'], ARRAY[1, 0.94, 0.71, 1]::numeric[]) AS c(name, share)
UNION ALL SELECT 'person_address', name, share FROM unnest(
  ARRAY['street', 'city', 'state', 'postal_code', 'latitude', 'longitude', 'purchase_date', 'purchase_price'],
  ARRAY[0.97, 0.99, 0.99, 0.98, 0.88, 0.88, 0.34, 0.29]::numeric[]) AS c(name, share)
UNION ALL SELECT 'person_work_experience', name, share FROM unnest(
  ARRAY['company_name', 'title', 'work_start_date', 'work_end_date', 'company_domain', 'company_size'],
  ARRAY[1, 0.96, 0.83, 0.55, 0.72, 0.69]::numeric[]) AS c(name, share);

INSERT INTO fct_enrichment_coverage (table_name, column_name, rows_total, rows_known, share_known)
SELECT table_name, column_name, total, floor(total * share), round(floor(total * share) / total, 6)
FROM coverage JOIN (VALUES ('person', 124310), ('person_email', 301877), ('person_address', 288092), ('person_work_experience', 402511))
  AS t(name, total) ON name = table_name;

INSERT INTO fct_table_freshness (table_name, last_success_at, last_changed_at, safe_until, hours_since_success)
SELECT name, now() - hours * interval '1 hour', now() - (hours + 0.4) * interval '1 hour', now() - hours * interval '1 hour', hours
FROM (VALUES ('resolution', 6.2), ('email_validation', 5.6), ('enrichment', 4.9), ('person', 4.9), ('person_email', 4.9), ('person_phone', 4.9),
  ('person_address', 4.9), ('person_work_experience', 4.9), ('segment_member', 28.7), ('segment_death_signal', 4.2),
  ('person_search_usage_daily', 1.3), ('endpoint_usage_bucket', 1.2), ('audience_search_member', 51.5)) AS t(name, hours);

INSERT INTO fct_segment_membership_daily (day, segment_id, segment_name, members, added, removed)
SELECT day, id, name, size + sum(plus - minus) OVER (PARTITION BY id ORDER BY day), plus, minus
FROM (
  SELECT *, floor(rate * wave * (1 + n / 120))::integer AS plus, floor(rate * 0.6 * (2 - wave))::integer
    + CASE WHEN n = 61 AND name = 'customers' THEN 420 ELSE 0 END AS minus
  FROM nights, (VALUES ('seg_01', 'customers', 22000, 160), ('seg_02', 'newsletter', 14500, 70), ('seg_03', 'nurses', 730, 12))
    AS s(id, name, size, rate)) AS d;

INSERT INTO fct_deaths_daily (day, deaths, deaths_of_members)
SELECT day, deaths, floor(deaths * 0.93) FROM (SELECT day, greatest(0, floor(9 * wave + 4 * sin(n / 9.0)))::integer AS deaths FROM nights) AS d;

INSERT INTO fct_person_changes_daily (day, change_type, people, changes)
SELECT day, type, people, floor(people * factor)
FROM (
  SELECT day, type, factor, floor(rate * wave * (0.6 + (noise * 5003 + length(type) * 0.43) % 1))::integer AS people
  FROM nights, (VALUES ('job', 9, 1), ('address', 12, 1), ('email', 7, 1.4), ('phone', 5, 1.3)) AS c(type, rate, factor)) AS d;

INSERT INTO fct_segment_push (run_id, segment_id, segment_name, observed_at, day, sent, added, redundant, removed, unknown_pids, current_size)
SELECT 'run-' || n, 'seg_01', 'customers', (day + time '02:10') AT TIME ZONE 'UTC', day, added + redundant + unknown, added, redundant, floor(added * 0.4), unknown,
  22000 + sum(added - floor(added * 0.4)) OVER (ORDER BY day)
FROM (SELECT *, floor(160 * wave)::integer AS added, floor(35 * noise)::integer AS redundant, CASE WHEN n % 9 = 2 THEN 6 ELSE 0 END AS unknown FROM nights) AS p;

INSERT INTO fct_usage_bucket (endpoint, bucketing_size, timezone, bucket_start, bucket_start_local, bucket_end, total_requests, num_input_records,
  num_resolvable_records, num_matches, overall_match_rate, resolvable_match_rate, is_final)
SELECT endpoint, 'day', 'Europe/Berlin', day::timestamp AT TIME ZONE 'Europe/Berlin', day, (day + 1)::timestamp AT TIME ZONE 'Europe/Berlin', greatest(1, records / 100),
  records, usable, matches, round(matches / nullif(records, 0)::numeric, 4), round(matches / nullif(usable, 0)::numeric, 4), n < 86
FROM (
  SELECT *, floor(records * 0.96) AS usable, floor(records * (rate + noise * 0.04)) AS matches
  FROM (SELECT nights.*, endpoint, rate, floor(records * wave)::integer AS records
    FROM nights, (VALUES ('v1/resolve', 9000, 0.83), ('v2/enrich', 1600, 0.80), ('v2/validate_emails', 14000, 0.90)) AS e(endpoint, records, rate)) AS a) AS b;

INSERT INTO fct_plan_stated (call_id, endpoint, stated_at, records_left, allowance_records_available, overage_records_available, records_requested)
SELECT ('00000000-0000-4000-8000-0000000000' || n)::uuid, 'v2/enrich', (day + time '01:31') AT TIME ZONE 'UTC', left_of, left_of, 0, 500
FROM nights, (VALUES (31, 140), (66, 0)) AS s(night, left_of) WHERE n = night;

INSERT INTO fct_sync_run (run_id, job, shard, job_type, status, limited_by, started_at, finished_at, seconds, records_read, records_sent,
  records_matched, records_rejected, rows_written, requests, retries)
SELECT to_char(started_at AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISS"Z"') || '-' || substr(md5(n::text), 1, 8), job, '0/1', job_type, status, limited_by,
  started_at, started_at + took * interval '1 second', took, read, sent, matched, floor(read * 0.0012), floor(greatest(matched, read / 2) * factor), requests,
  CASE WHEN n % 13 = 6 THEN requests / 8 ELSE requests / 90 END
FROM (
  SELECT *, floor(sent * 0.86) AS matched, greatest(1, greatest(sent, read / 10) / 100) AS requests,
    round(read * wave / speed + 2.5, 1) AS took
  FROM (
    SELECT n, wave, job, job_type, speed, factor, least((day + time '01:15') AT TIME ZONE 'UTC' + position * interval '9 minutes', now() - (12 - position) * interval '3 minutes')
        AS started_at,
      CASE WHEN n IN (31, 66) AND job = 'enrich_customers' THEN 'failed' WHEN n = 66 AND job = 'customer_segment' THEN 'skipped'
        WHEN n % 15 = 9 AND job IN ('resolve_customers', 'enrich_customers') THEN 'limited' ELSE 'succeeded' END AS status,
      CASE WHEN n = 66 AND job = 'customer_segment' THEN 'dependency_failed'
        WHEN n % 15 = 9 AND job IN ('resolve_customers', 'enrich_customers') THEN 'budget_day' END AS limited_by,
      floor(records * wave)::integer AS read, CASE WHEN sends THEN floor(records * wave * 0.55)::integer ELSE 0 END AS sent
    FROM nights, (VALUES (0, 'resolve_customers', 'resolve', 16000, 310, 1, true), (1, 'validate_customers', 'validate_emails', 25000, 900, 1, true),
      (2, 'enrich_customers', 'enrich', 3000, 22, 29, true), (3, 'customer_segment', 'segment_push', 2400, 60, 1, true),
      (4, 'customer_members', 'segment_members', 23000, 800, 0.02, false), (5, 'customer_deaths', 'death_signals', 190, 40, 0.1, false),
      (6, 'search_usage', 'search_usage', 90, 60, 0.1, false), (7, 'endpoint_usage', 'endpoint_usage', 400, 90, 0.1, false))
      AS j(position, job, job_type, records, speed, factor, sends)) AS a) AS b;

INSERT INTO fct_rejects_daily (day, job, stage, code, rejects, open_rejects)
SELECT day, job, stage, code, rejects, CASE WHEN n > 70 THEN rejects / 2 ELSE rejects / 9 END
FROM (
  SELECT day, n, job, stage, code, floor(rate * wave * (0.4 + (noise * 6007 + length(code) * 0.61) % 1) + CASE WHEN n = 44 AND code = 'invalid_record' THEN 90 ELSE 0 END)::integer
    AS rejects
  FROM nights, (VALUES ('resolve_customers', 'input', 'not_resolvable', 34), ('resolve_customers', 'send', 'invalid_record', 9),
    ('validate_customers', 'input', 'key_too_long', 2), ('validate_customers', 'send', 'invalid_email', 15), ('enrich_customers', 'input', 'no_identifier', 12),
    ('enrich_customers', 'answer', 'missing_result', 3), ('customer_segment', 'input', 'duplicate_key', 6)) AS r(job, stage, code, rate)) AS d
WHERE rejects > 0;
