import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Client } from "pg";
import { openEmbedded } from "../src/load/embedded/open.ts";
import { silentLog } from "../src/log.ts";
import { makeServerFolder } from "./stage.ts";
import { runCounters } from "../src/schemas/ops.ts";
import { type SchemaNames, tableText } from "../src/load/db/names.ts";

/** SQL of a hash of `n`, from 0 to `below` - 1; the salt makes columns independent. */
const pick = (below: number, salt: number, n = "n") =>
  `((hashint8extended(${n}, ${salt}) & 2147483647) % ${below})::int`;
/** SQL of one of some texts; repeat a text to make it more frequent. */
const oneOf = (texts: readonly string[], salt: number, n = "n") =>
  `(ARRAY[${texts.map((text) => `'${text}'`).join(", ")}])[1 + ${pick(texts.length, salt, n)}]`;
/** SQL of a skewed rank from 0 to `below` - 1: few values are frequent, most are rare. */
const skewed = (below: number, salt: number, n = "n") =>
  `floor(${below} * power(${pick(1_000_000, salt, n)} / 1e6, 3))::int`;
/** SQL of an instant within the last `days`. */
const within = (days: number, salt: number) => `now() - ${pick(days * 86_400, salt)} * interval '1 second'`;

/** SQL of the night in which a person was last changed, in days ago: most are as the first night left them. */
const NIGHT = `CASE WHEN ${pick(10, 14)} < 7 THEN 90 ELSE ${pick(90, 15)} END`;
/** SQL of the run of a night. */
const runOf = (night: string) => `to_char(now() - ${night} * interval '1 day', 'YYYYMMDD')`;

/** PID of person `n`. */
const pid = "md5(n::text)";
/** Numbers a list of each person: between `least` and `least` + `more` items. */
const list = (least: number, more: number, salt: number) =>
  `people, LATERAL generate_series(0, ${least - 1} + ${pick(more + 1, salt)}) AS position`;
/** Different for each item of a person's list. */
const item = "(n * 100 + position)";
/** Input row `n` is person `n`, but every 50th is a duplicate of the row before. */
const pidOfRow = "md5((CASE WHEN n % 50 = 0 THEN n - 1 ELSE n END)::text)";
/** One row in eight has no match; the one that the queries ask for has one. */
const isMatch = `(n = 42 OR ${pick(8, 1)} > 0)`;

const COUNTERS = Object.keys(runCounters);
const STATES = ["CA", "CA", "TX", "TX", "FL", "NY", "PA", "IL", "OH", "GA", "NC", "MI"];
const START = `(1980 + ${pick(44, 31, item)})`;

/** Rows of one table: the columns, and a SELECT without its WITH. */
interface Filling {
  readonly table: string;
  readonly columns: string;
  readonly select: string;
}

const answers = (table: string, job: string, more: string, moreValues: string): Filling => ({
  table,
  columns: `job, source, source_key, is_match, service_pid, match_score, is_present, api_request_id, request_completed_at,
    first_matched_at, last_matched_at, last_matched_service_pid${more}`,
  select: `SELECT '${job}', 'customers', n::text, m, CASE WHEN m THEN ${pidOfRow} END, CASE WHEN m THEN 50 + ${pick(50, 2)} END,
    true, 'request-' || n / 500, now(), CASE WHEN m THEN ${within(90, 3)} END, CASE WHEN m THEN ${within(30, 4)} END,
    CASE WHEN m THEN ${pidOfRow} END${moreValues} FROM people, LATERAL (SELECT ${isMatch} AS m) AS a`,
});

/** Rows after 90 nights: about 30 a person, with few large employers and many small ones. */
const fillings: readonly Filling[] = [
  answers("resolution", "resolve_customers", ", is_resolvable_record", ", true"),
  answers("enrichment", "enrich_customers", "", ""),
  {
    table: "match_history",
    columns: "job, source, source_key, valid_from, is_match, service_pid, match_score, _run_id",
    select: `SELECT job, 'customers', n::text, now() - ${NIGHT} * interval '1 day', ${isMatch}, CASE WHEN ${isMatch} THEN ${pidOfRow} END, 80, ${runOf(NIGHT)}
      FROM people, (VALUES ('resolve_customers'), ('enrich_customers')) AS jobs(job)`,
  },
  {
    table: "person",
    columns: `service_pid, full_name, first_name, last_name, gender, dob, age, marital_status, estimated_income_range,
      estimated_income_min, estimated_income_max, home_ownership_status,
      linkedin_url, linkedin_title, linkedin_industry, _synced_at, _record_synced_at, _run_id`,
    select: `SELECT ${pid}, 'First' || n % 5000 || ' Last' || n, 'First' || n % 5000, 'Last' || n, ${oneOf(["female", "male"], 5)},
      date '1940-01-01' + ${pick(25_000, 6)}, 20 + ${pick(60, 7)}, ${oneOf(["single", "married", "married"], 8)},
      ${oneOf(["$25,000-$49,999", "$50,000-$74,999", "$75,000-$99,999", "$100,000-$149,999"], 9)},
      ${oneOf(["25000", "50000", "75000", "100000"], 9)}::numeric, ${oneOf(["49999", "74999", "99999", "149999"], 9)}::numeric, ${oneOf(["owner", "owner", "renter"], 10)},
      CASE WHEN ${pick(3, 11)} > 0 THEN 'https://linkedin.example/in/' || n END, 'Title ' || ${skewed(3000, 12)}, 'Industry ' || ${skewed(150, 13)},
      synced_at, synced_at, ${runOf(NIGHT)} FROM people, LATERAL (SELECT now() - ${NIGHT} * interval '1 day' - interval '1 hour' AS synced_at) AS s`,
  },
  {
    table: "person_email",
    columns: "service_pid, email_type, position, email_rank, email_address",
    select: `SELECT ${pid}, email_type, position, position + 1, CASE WHEN n = 42 AND email_type = 'personal' AND position = 0
        THEN 'ada@example.com' ELSE left(email_type, 3) || n || '.' || position || '@example' || n % 900 || '.com' END
      FROM people, (VALUES ('personal', 15), ('professional', 16)) AS types(email_type, salt),
        LATERAL generate_series(0, (hashint8extended(n, salt) & 3)::int) AS position`,
  },
  {
    table: "person_phone",
    columns: "service_pid, position, phone_rank, phone_type, phone_number",
    select: `SELECT ${pid}, position, position + 1, ${oneOf(["mobile", "mobile", "landline"], 17, item)}, '+1' || (2000000000 + ${item}) FROM ${list(1, 3, 18)}`,
  },
  {
    table: "person_relative",
    columns:
      "service_pid, position, relative_service_pid, relative_first_name, relative_last_name, relationship_label",
    select: `SELECT ${pid}, position, md5((n + position + 1)::text), 'First' || (n + position + 1) % 5000, 'Last' || n + position + 1,
      ${oneOf(["parent", "child", "sibling", "spouse"], 19, item)} FROM ${list(1, 8, 20)}`,
  },
  {
    table: "person_address",
    columns: `service_pid, position, address_rank, address_line_1, address_city, address_state, address_zipcode, ownership_status,
      is_current_owner, purchase_date, purchase_on, purchase_precision, estimated_current_value, first_seen_date, first_seen_on, first_seen_precision,
      last_seen_date, last_seen_on, last_seen_precision`,
    select: `SELECT ${pid}, position, position + 1, ${item} || ' Main Street', 'City ' || ${skewed(4000, 21, item)}, ${oneOf(STATES, 22, item)},
      lpad((${item} % 99999)::text, 5, '0'), ${oneOf(["owned", "rented"], 23, item)}, position = 0, (1990 + ${pick(35, 24, item)})::text, make_date(1990 + ${pick(35, 24, item)}, 1, 1), 'year',
      100000 + ${pick(900_000, 25, item)}, (1990 + ${pick(30, 26, item)}) || '-04',
      make_date(1990 + ${pick(30, 26, item)}, 4, 1), 'month', '2024-0' || 1 + position, make_date(2024, 1 + position, 1), 'month' FROM ${list(1, 6, 27)}`,
  },
  {
    table: "person_work_experience",
    columns: `service_pid, position, experience_rank, work_company_name, work_company_industry, work_title, standard_work_title,
      work_seniority_level, work_status, work_start_date, work_start_on, work_start_precision, work_end_date, work_end_on,
      work_end_precision, work_city, work_state, work_country`,
    select: `SELECT ${pid}, position, position + 1, 'Company ' || ${skewed(200_000, 28, item)}, 'Industry ' || ${skewed(150, 29, item)},
      'Title ' || ${skewed(3000, 30, item)}, 'title', 'senior', CASE WHEN position = 0 THEN 'current' ELSE 'previous' END,
      ${START} || '-04', make_date(${START}, 4, 1), 'month', CASE WHEN position > 0 THEN (${START} + 2)::text END,
      CASE WHEN position > 0 THEN make_date(${START} + 2, 1, 1) END, CASE WHEN position > 0 THEN 'year' END, 'City', 'CA', 'United States' FROM ${list(1, 7, 32)}`,
  },
  {
    table: "person_education_experience",
    columns: `service_pid, position, experience_rank, institution_name, education_level, education_start_date, education_start_on, education_start_precision,
      education_end_date, education_end_on, education_end_precision,
      education_majors, education_minors`,
    select: `SELECT ${pid}, position, position + 1, 'University ' || ${skewed(3000, 33, item)}, 'bachelor', '2001', date '2001-01-01', 'year', '2005-06', date '2005-06-01', 'month',
      ARRAY['Subject ' || ${skewed(200, 34, item)}], '{}' FROM ${list(0, 3, 35)}`,
  },
  {
    table: "email_validation",
    columns: "email_address, is_match, email_validation_status, request_completed_at",
    select: `SELECT 'per' || n || '.0@example' || n % 900 || '.com', true, ${oneOf(["valid", "valid", "valid", "risky", "invalid"], 36)}, now() FROM people`,
  },
  {
    table: "input_email",
    columns: "source, source_key, position, email_address",
    select: `SELECT 'customers', n::text, 0, 'per' || n || '.0@example' || n % 900 || '.com' FROM people`,
  },
  {
    table: "segment",
    columns: "segment_id, name, current_size",
    select: "SELECT 'segment-' || n, 'Segment ' || n, 0 FROM generate_series(1, 5) AS n",
  },
  {
    table: "segment_member",
    columns: "segment_id, service_pid, first_added_at, is_member, first_seen_at, removed_seen_at",
    select: `SELECT 'segment-' || s, ${pid}, ${within(90, 37)}, ${pick(20, 38)} > 0, now() - interval '90 days',
      CASE WHEN ${pick(20, 38)} = 0 THEN now() END FROM people, generate_series(1, 5) AS s WHERE n % (s * s) = 0`,
  },
  {
    table: "segment_membership_history",
    columns: "segment_id, service_pid, valid_from, valid_to, valid_from_basis",
    select: `SELECT 'segment-' || s, ${pid}, ${within(90, 37)}, CASE WHEN ${pick(20, 38)} = 0 THEN now() END, 'vendor'
      FROM people, generate_series(1, 5) AS s WHERE n % (s * s) = 0`,
  },
  {
    table: "segment_sync",
    columns: "segment_id, run_id, observed_at, current_size, known_members, added, removed, removals_pending",
    select: `SELECT 'segment-' || s, ${runOf("day")}, now() - day * interval '1 day', 1000, 1000 - day, 1, 0, 0
      FROM generate_series(0, 90) AS day, generate_series(1, 5) AS s`,
  },
  {
    table: "death_signal",
    columns: "obituary_id, service_pid, date_of_death, first_observed_at, signal_source, signal_metadata",
    select: `SELECT 'obituary-' || n, ${pid}, current_date - ${pick(700, 39)}, ${within(700, 39)}, 'obituary_database', '{}' FROM people WHERE n % 100 = 7`,
  },
  {
    table: "segment_death_signal",
    columns: "segment_id, obituary_id, service_pid, first_seen_at, is_present",
    select: `SELECT 'segment-1', 'obituary-' || n, ${pid}, now(), true FROM people WHERE n % 100 = 7`,
  },
  {
    table: "reject",
    columns: "reject_id, run_id, job, source, source_key, stage, code, message, created_at, resolved_at",
    select: `SELECT gen_random_uuid(), ${runOf(pick(90, 40))}, 'resolve_customers', 'customers', n::text, 'input',
      ${oneOf(["no_identifier", "not_resolvable", "missing_key"], 41)}, 'The row has no identifier.', ${within(90, 42)},
      CASE WHEN ${pick(2, 43)} = 0 THEN now() END FROM people WHERE n % 20 = 3`,
  },
  {
    table: "sync_run",
    columns: `run_id, job, shard, job_type, status, started_at, finished_at, records_due, ${COUNTERS.join(", ")}`,
    select: `SELECT ${runOf("day")}, job || '_customers', '0/1', job, 'succeeded', started_at, started_at + interval '1 hour', 100, ${COUNTERS.map(() => 100).join(", ")}
      FROM generate_series(0, 90) AS day, unnest(ARRAY['resolve', 'validate_emails', 'enrich', 'segment_push', 'segment_members',
        'death_signals', 'search_usage', 'endpoint_usage']) AS job, LATERAL (SELECT now() - day * interval '1 day' - interval '2 hours' AS started_at) AS s`,
  },
  {
    table: "table_load",
    columns: "table_name, job, last_success_at, last_changed_at",
    select:
      "SELECT name, 'enrich_customers', now(), now() FROM unnest(ARRAY['person', 'person_email', 'resolution', 'enrichment']) AS name",
  },
  {
    table: "api_call",
    columns: `call_id, run_id, job, call_number, endpoint, started_at, request_completed_at, milliseconds, http_status, attempt, records_sent,
      records_matched, response_bytes, possibly_billed, settled_at, budget, reserved_at, records_reserved, records_in_doubt,
      records_possibly_billed_twice, is_sent, price, currency`,
    select: `SELECT gen_random_uuid(), ${runOf("day")}, job || '_customers', n, endpoint, t, t, 900, 200, 1, 500, 430, 1000000, false, t, job, t,
        500, 0, 0, true, 0.01, 'USD'
      FROM people, (VALUES ('resolve', 'POST /v1/resolve'), ('validate_emails', 'POST /v2/validate_emails'), ('enrich', 'POST /v2/enrich'))
          AS jobs(job, endpoint), LATERAL (SELECT ${pick(90, 44)} AS day) AS d, LATERAL (SELECT now() - day * interval '1 day' AS t) AS i
      WHERE n % 250 = 0`,
  },
  {
    table: "endpoint_usage_bucket",
    columns: `endpoint, bucketing_size, timezone, bucket_start, bucket_start_local, bucket_end, total_requests, num_input_records,
      num_resolvable_records, num_matches, observed_at, is_final`,
    select: `SELECT endpoint, 'day', 'UTC', day, day AT TIME ZONE 'UTC', day + interval '1 day', 50, 25000, 24000, 21000, now(), true
      FROM generate_series(0, 400) AS n, unnest(ARRAY['v1/resolve', 'v2/validate_emails', 'v2/enrich']) AS endpoint,
        LATERAL (SELECT (date_trunc('day', now() AT TIME ZONE 'UTC') - n * interval '1 day') AT TIME ZONE 'UTC' AS day) AS d`,
  },
  {
    table: "person_search_usage_daily",
    columns: "org_id, period_start, records_delivered, searches_created, parse_requests, is_final",
    select: `SELECT 'org', current_date - n, 100, 3, 5, true FROM generate_series(0, 400) AS n`,
  },
];

/** Fills a migrated, empty warehouse with `people` people; builds the indexes at the end. Returns the number of rows. */
export async function fillPeople(client: Client, names: SchemaNames, people: number): Promise<number> {
  await client.query(
    "SET synchronous_commit = off; SET person_etl.run_id = 'bench'; SET maintenance_work_mem = '512MB'",
  );
  let rows = 0;
  for (const { table, columns, select } of fillings) {
    const name = tableText(names, table);
    const rebuild = await dropIndexes(client, name);
    const { rowCount } = await client.query(
      `WITH people AS (SELECT n FROM generate_series(1::bigint, ${people}) AS n) INSERT INTO ${name} (${columns}) ${select}`,
    );
    rows += rowCount ?? 0;
    for (const statement of rebuild) await client.query(statement);
    await client.query(`VACUUM (ANALYZE) ${name}`);
  }
  return rows;
}

/** Opens the Postgres of PERSON_ETL_BENCH_POSTGRES_URL, or an embedded one in a folder that `close` removes. */
export async function openServer() {
  const given = process.env["PERSON_ETL_BENCH_POSTGRES_URL"];
  const folder = makeServerFolder();
  const embedded = given ? null : await openEmbedded({ dataDir: folder, log: silentLog });
  return {
    folder,
    url: given ?? embedded?.connectionString ?? "",
    async close() {
      await embedded?.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Writes the configuration of a filled warehouse at `BENCH_URL`, with more sections; returns its path. */
export function writeFilledConfig(folder: string, names: SchemaNames, more = ""): string {
  const file = join(folder, "config.yaml");
  writeFileSync(
    file,
    `service: { base_url: sandbox }
warehouse: { type: postgres, url: "\${BENCH_URL}", schema: ${names.data}, ops_schema: ${names.ops}, state_schema: ${names.state} }
data_dir: ${join(folder, "data")}
inputs:
  customers: { table: crm.customers, key: id, fields: { full_name: name, emails: [email] } }
jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_emails_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers }
${more}`,
  );
  return file;
}

/** Drops the primary key and the indexes of a table; returns the statements that create them again. */
async function dropIndexes(client: Client, name: string): Promise<readonly string[]> {
  const { rows: keys } = await client.query<{ name: string; definition: string }>(
    `SELECT conname AS name, pg_get_constraintdef(oid) AS definition FROM pg_constraint
    WHERE conrelid = $1::text::regclass AND contype = 'p'`,
    [name],
  );
  const { rows: indexes } = await client.query<{ name: string; definition: string }>(
    `SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
    WHERE indrelid = $1::text::regclass AND NOT indisprimary`,
    [name],
  );
  // With the foreign keys to it, which no query needs.
  for (const key of keys) await client.query(`ALTER TABLE ${name} DROP CONSTRAINT ${key.name} CASCADE`);
  for (const index of indexes) await client.query(`DROP INDEX ${index.name}`);
  return [
    ...keys.map((key) => `ALTER TABLE ${name} ADD CONSTRAINT ${key.name} ${key.definition}`),
    ...indexes.map(({ definition }) => definition),
  ];
}
