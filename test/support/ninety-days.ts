/** From 0 to 1, fixed for a name and a day. */
const noise = (name: string, day = "n") =>
  `(abs(hashtext('${name}' || ${day}::text)::bigint) % 1000 / 1000.0)`;

/** Share of the newest night that an earlier one sent: more on Mondays, rising over the months. */
const share = `(0.35 + 0.3 * ${noise("share")} + 0.25 * (extract(isodow FROM now() - n * interval '1 day') = 1)::integer) * (1 - n / 200.0)`;

/** Copy of a row with other values in some columns. */
const copyOf = (table: string, row: string, columns: string) =>
  `(jsonb_populate_record(NULL::${table}, to_jsonb(${row}) || jsonb_build_object(${columns}))).*`;

/** SQL that gives a warehouse, after one night, the operations history of the ninety nights before it. */
export const ninetyDays = `
SET search_path = person_data_ops, person_data;
CREATE TEMP TABLE newest AS SELECT run_id FROM sync_run GROUP BY run_id ORDER BY sum(records_sent) DESC LIMIT 1;

INSERT INTO sync_run SELECT ${copyOf(
  "sync_run",
  "r",
  `'run_id', to_char(r.started_at - n * interval '1 day', 'YYYYMMDD"T013000Z-"') || substr(md5(n::text), 1, 8),
   'started_at', r.started_at - n * interval '1 day',
   'finished_at', r.finished_at - n * interval '1 day' + ${noise("took")} * interval '90 seconds',
   'records_unchanged', r.records_read - round(r.records_due * ${share}),
   'records_due', round(r.records_due * ${share}), 'records_sent', round(r.records_sent * ${share}),
   'records_matched', round(r.records_matched * ${share}), 'records_rejected', round(r.records_rejected * ${share} * 0.1),
   'records_received', round(r.records_received * ${share}), 'rows_written', round(r.rows_written * ${share}),
   'requests', greatest(1, round(r.requests * ${share})), 'retries', round(3 * ${noise("retries")} ^ 4),
   'status', CASE WHEN n = 3 AND r.job LIKE 'enrich%' THEN 'limited' ELSE 'succeeded' END,
   'limited_by', CASE WHEN n = 3 AND r.job LIKE 'enrich%' THEN 'budget_day' END`,
)} FROM sync_run AS r JOIN newest USING (run_id), generate_series(1, 90) AS n;

INSERT INTO api_call SELECT ${copyOf(
  "api_call",
  "c",
  `'call_id', gen_random_uuid(), 'run_id', 'night ' || n, 'reserved_at', c.reserved_at - n * interval '1 day',
   'started_at', c.started_at - n * interval '1 day', 'records_sent', round(s.sent * ${share}),
   'records_reserved', round(s.sent * ${share}),
   'records_matched', round(s.matched * ${share} * (0.96 + 0.04 * ${noise("rate", "c.job || n")})), 'records_in_doubt', 0`,
)} FROM (
  SELECT DISTINCT ON (job) * FROM api_call WHERE run_id = (SELECT run_id FROM newest) AND http_status = 200
    AND budget IS NOT NULL AND budget <> 'unlock' ORDER BY job, reserved_at) AS c
JOIN (SELECT job, sum(records_sent) AS sent, sum(records_matched) AS matched FROM api_call WHERE http_status = 200 GROUP BY job) AS s
  USING (job), generate_series(1, 90) AS n;

INSERT INTO person_data_state.budget_use (budget, period, period_key, records_reserved, _synced_at, _run_id)
SELECT budget, 'month', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'), sum(records_reserved), now(), 'night' FROM api_call
WHERE budget IS NOT NULL AND reserved_at >= date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' GROUP BY budget
ON CONFLICT (budget, period, period_key) DO UPDATE SET records_reserved = excluded.records_reserved;

UPDATE endpoint_usage_bucket AS b SET total_requests = 2 + n % 5, num_input_records = round(u.sent * ${share}),
  num_resolvable_records = round(u.sent * ${share}), num_matches = round(u.sent * ${share} * 0.87)
FROM (VALUES ('v1/resolve', 2800), ('v2/validate_emails', 3400), ('v2/enrich', 2900)) AS u(endpoint, sent), generate_series(1, 90) AS n
WHERE b.endpoint = u.endpoint AND b.bucket_start::date = now()::date - n::integer;

UPDATE person_search_usage_daily SET records_delivered = round(100 + 1200 * ${noise("search", "period_start")} ^ 2), searches_created = 4
WHERE period_start < now()::date AND extract(isodow FROM period_start) < 6;

INSERT INTO segment_sync SELECT ${copyOf(
  "segment_sync",
  "y",
  `'run_id', 'night ' || n, 'observed_at', y.observed_at - n * interval '1 day',
   'known_members', round(y.known_members * (1 - n / 240.0 - 0.005 * ${noise("size")})),
   'current_size', round(y.known_members * (1 - n / 240.0)), 'added', round(y.known_members / 160.0 * ${noise("added")}),
   'removed', round(y.known_members / 900.0 * ${noise("removed")})`,
)} FROM (SELECT DISTINCT ON (segment_id) * FROM segment_sync ORDER BY segment_id, observed_at DESC) AS y, generate_series(1, 90) AS n;
UPDATE segment_sync AS y SET added = round(known_members / 150.0) WHERE run_id = (SELECT run_id FROM newest);

UPDATE death_signal SET first_observed_at = now() - ${noise("death", "obituary_id")} * interval '180 days';

INSERT INTO schema_drift (endpoint, path, kind, observed_type, occurrences, first_seen_at, last_seen_at, _synced_at, _run_id) VALUES
  ('POST /v2/enrich', 'phones[].is_connected', 'unknown_field', 'boolean', 3120, now() - interval '19 days', now() - interval '1 hour', now(), 'night'),
  ('POST /v2/enrich', 'address_history[].num_baths', 'unexpected_type', 'string', 14, now() - interval '44 days', now() - interval '8 days', now(), 'night')
ON CONFLICT DO NOTHING;
`;
