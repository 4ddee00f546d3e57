import { expect, it, test } from "vitest";
import { fine, fineBut, load, problemsOf } from "./support.ts";

// Mistakes don't hide each other: all are reported at once, by line.

it("each wrong setting is reported with its path, its line and a hint", async () => {
  const text = `service:
  base_url: sandbox
  baseUrl: sandbox
  concurrency: 65
  requests_per_second: "8"
  limits: { /v2/enrch: { requests_per_second: 1 }, /usage: { requests_per_second: .inf } }
warehouse:
  type: bigquery
  schema: Person Data
  ops_schema: pg_people
  state_schema: pg_people
  url:
data_dir: 7
log_level: loud
confirm_above: 100
colour: red
concurrency: 4
budget: { enrich: { per_day: 1 } }
budgets: { enrich: { per_day: 20k, per_mont: 5 }, enrich_customers: { per_day: 1 } }
publish:
  local: { type: duckdb, path: a.duckdb, tables: [person_email, persn, job_lock], every: 10 }
  other: { type: duckdb, path: a.duckdb }
  Third: { type: duckdb, path: b.duckdb }
connections:
  lake: { type: bigquery, project: x, api_endpoint: "http://a.example" }
  odd: { type: mysql }
inputs:
  customers:
    table: [crm, customers]
    key: [id, 7, id]
    on_missing: delete
    normalize: yes
    where: a = 1;
    connection: crm
    fields: { firstname: first_name, last_name: [a], emails: [], record_id: id }
  both: { table: crm.customers.x, sql: "select 1;", key: id, fields: {} }
  none: { order_by: "\${NO_SQL}" }
  text: crm.customers
  list: [crm, customers]
  named: { table: "\${TABLE}", key: "\${KEY:-id}", fields: { emails: email } }
  fine: { table: t, key: id, fields: { emails: email } }
  names: { table: t, key: id, fields: { full_name: name, phones: phone, service_pid: pid } }
jobs:
  retention: { type: validate_emails, input: fine }
  Upper: { type: validate_emails, input: fine }
  r: { type: resolv, input: fine }
  e1: { type: enrich, input: fine, refresh_after: 90, max_records_per_run: -1 }
  e2: { type: enrich, refresh_after: 0d, return_fields: full_name, match_condition_fields: [mobile_fone] }
  e3: { type: enrich, input: fine, return_fields: [age, "", age], enabled: maybe, timezone: Berlin }
  e4: { type: enrich, input: fine, schedule: "* * * * * *", timezone: "+02:00" }
  e5: { type: enrich, input: fine, schedule: "61 * * * *", refresh_after: 3m }
  v: { type: validate_emails, input: fine, return_fields: [age], schedule: "@daily" }
  push: { type: segment_push, sql: "select 1;", mode: replace, connection: crm }
  members: { type: segment_members, segments: [{ id: 7 }, { }, { id: 123e4567-e89b-12d3-a456-426614174000, job: push }] }
  a: { type: audience_search, searches: { Nurses: { query: a }, b: { query: "" }, c: { query: x }, d: { query: x }, e: { query: e, unlock: {} }, f: { query: f, unlock: always } } }
  a2: { type: audience_search, searches: 7 }
  usage: { type: endpoint_usage, bucketing_size: minute, start_date: 2026-02-30 }
alerts: { webhook: https://hooks.example.com/T0/hunter2, on: failed }
http: { bind: 0.0.0.0, port: 99999 }
prices: { currency: usd, resolve: -1, validate_emails: .nan, enrich: 0.1000001, unlock: "0.2", unlok: 3 }
`;
  expect(await problemsOf(text)).toEqual([
    "3 service.baseUrl: is not a setting of service (did you mean base_url?)",
    "4 service.concurrency: must be a whole number from 1 to 64 (found 65) (docs/configuration.md describes this setting)",
    '5 service.requests_per_second: must be a number above 0, at most 1000000 (found "8") (write only digits, without quotes, unit or separators: 20000)',
    "6 service.limits./usage.requests_per_second: must be a number above 0, at most 1000000 (found Infinity) (docs/configuration.md describes this setting)",
    "6 service.limits./v2/enrch: is not a setting of service.limits (did you mean /v2/enrich?)",
    '8 warehouse.type: must be postgres: other engines get a published copy (found "bigquery") (use Postgres as the warehouse and add the other engine under publish: (docs/publishing.md))',
    '9 warehouse.schema: must be a schema name of at most 63 lowercase letters, digits and _ (found "Person Data") (start with a letter or _; the prefix pg_ is reserved by Postgres)',
    '10 warehouse.ops_schema: must be a schema name of at most 63 lowercase letters, digits and _ (found "pg_people") (start with a letter or _; the prefix pg_ is reserved by Postgres)',
    '11 warehouse.state_schema: must be a schema name of at most 63 lowercase letters, digits and _ (found "pg_people") (start with a letter or _; the prefix pg_ is reserved by Postgres)',
    "12 warehouse.url: is empty (give it a value, indent its settings below it, or remove the line)",
    "13 data_dir: must be a folder (found 7) (put it in quotes)",
    '14 log_level: must be one of trace, debug, info, warn, error, silent (found "loud") (docs/configuration.md describes this setting)',
    "15 confirm_above: must be a mapping of keys to values (found 100) (indent its keys below it, without `- `)",
    "16 colour: is not a setting (the settings here are log_level, service, sandbox, warehouse, publish, data_dir, confirm_above, max_reject_ratio, connections, inputs, privacy, retention, history, extra_columns, alerts, http, budgets, prices, jobs; indent what belongs to one of them)",
    "17 concurrency: is not a setting (did you mean service.concurrency?)",
    "18 budget: is not a setting (did you mean budgets?)",
    '19 budgets.enrich.per_day: must be a whole number of records, 0 or more, or { amount: 500 } (found "20k") (write 100000 for records, or { amount: 500 } in the currency of `prices`)',
    "19 budgets.enrich.per_mont: is not a setting of budgets.enrich (did you mean per_month?)",
    "19 budgets.enrich_customers: is not a setting of budgets (did you mean enrich?)",
    "21 publish.local.every: must be a duration of at least 1m (found 10) (a whole number and a unit: s, m, h, d or w (45s, 15m, 12h, 90d, 2w))",
    '21 publish.local.tables[1]: is not a table that can be published (found "persn") (did you mean person?)',
    '21 publish.local.tables[2]: is not a table that can be published (found "job_lock") (see the reference of tables)',
    '21 publish.local.tables[0]: requires person, which isn\'t listed (found "person_email") (add person)',
    "22 publish.other: has the same target as local (each destination needs its own target)",
    "23 publish.Third: is not a valid name (use lowercase letters, digits and _, starting with a letter; at most 63 characters)",
    '25 connections.lake.project: must be the ID of a Google Cloud project (found "x") (docs/configuration.md describes this setting)',
    "25 connections.lake.api_endpoint: must be an https:// address without credentials; http:// only to this machine (docs/configuration.md describes this setting)",
    '26 connections.odd.type: must be one of postgres, bigquery, duckdb (found "mysql") (docs/configuration.md describes this setting)',
    "29 inputs.customers.table: must be a table such as crm.customers (schema.table or table, exactly as the database stores them; other names in double quotes: 'crm.\"Odd Name\"')",
    "30 inputs.customers.key[1]: must be the name of a column (found 7) (exactly as the database stores it, at most 63 bytes)",
    '31 inputs.customers.on_missing: must be one of keep, erase (found "delete") (docs/configuration.md describes this setting)',
    '32 inputs.customers.normalize: must be true or false (found "yes") (write true or false, without quotes; YAML 1.2 reads yes, no, on and off as text)',
    "33 inputs.customers.where: ends with a semicolon (remove it)",
    '34 inputs.customers.connection: is not a configured connection (found "crm") (known names: lake, odd)',
    "35 inputs.customers.fields.last_name: must be the name of a column (exactly as the database stores it, at most 63 bytes)",
    "35 inputs.customers.fields.emails: must be the name of a column, or a list of at least one (exactly as the database stores it, at most 63 bytes)",
    "35 inputs.customers.fields.firstname: is not a setting of inputs.customers.fields (did you mean first_name?)",
    "35 inputs.customers.fields.record_id: is not a setting of inputs.customers.fields (the settings here are service_pid, linkedin_url, first_name, middle_name, last_name, full_name, name_suffix, full_address, address_line_1, address_line_2, city, state, zipcode, emails, phones)",
    '36 inputs.both.table: has three parts, and must be a table such as crm.customers (found "crm.customers.x") (remove the first one: the connection already names the database)',
    "36 inputs.both.sql: ends with a semicolon (remove it)",
    "36 inputs.both.fields: maps no columns (for example { first_name: first_name, last_name: last_name, emails: [email] })",
    "37 inputs.none.order_by: contains ${…}, which SQL can't: the variable would become part of the statement (write the value itself, or keep it in a table or view)",
    "37 inputs.none.key: is missing (it must be the name of a column, or a list of at least one)",
    "37 inputs.none.fields: is missing (it must be a mapping of keys to values)",
    "37 inputs.none.table: is missing (add a table (schema.table), sql: SELECT …, or the job and search of an audience)",
    '38 inputs.text: must be a mapping of keys to values (found "crm.customers") (indent its keys below it, without `- `)',
    "39 inputs.list: must be a mapping of keys to values (indent its keys below it, without `- `)",
    "40 inputs.named.table: requires the environment variable TABLE, which is not set (set it in the environment of this command)",
    "40 inputs.named.key: contains an invalid reference (write ${NAME} with the name of an environment variable; $${ is an escaped ${)",
    "44 jobs.retention: is a reserved name (a command of this name records its runs under it; choose another name)",
    "45 jobs.Upper: is not a valid name (use lowercase letters, digits and _, starting with a letter; at most 63 characters)",
    '46 jobs.r.type: must be one of resolve, validate_emails, enrich, segment_members, segment_push, death_signals, search_usage, endpoint_usage, person_search, audience_search, contact_jobs (found "resolv") (did you mean resolve?)',
    "47 jobs.e1.refresh_after: must be an age such as 30d (found 90) (a whole number and a unit: d, w, mo or y (30d, 6w, 3mo, 1y))",
    "47 jobs.e1.max_records_per_run: must be a whole number, 1 or more (found -1) (docs/configuration.md describes this setting)",
    "48 jobs.e2.input: is missing (it must be the name of an input)",
    '48 jobs.e2.refresh_after: must be an age such as 30d (found "0d") (a whole number and a unit: d, w, mo or y (30d, 6w, 3mo, 1y))',
    '48 jobs.e2.return_fields: must be a list of field names (found "full_name") (write a list: [ … ])',
    '48 jobs.e2.match_condition_fields[0]: must be one of linkedin_url, gender, estimated_income_range, estimated_wealth_range, emails, personal_email, professional_email, phone, mobile_phone, home_ownership_status (found "mobile_fone") (did you mean mobile_phone?)',
    '49 jobs.e3.enabled: must be true or false (found "maybe") (write true or false, without quotes; YAML 1.2 reads yes, no, on and off as text)',
    '49 jobs.e3.timezone: is not a time zone (found "Berlin") (did you mean Europe/Berlin?)',
    "49 jobs.e3.return_fields[1]: must be the name of a field (docs/configuration.md describes this setting)",
    '50 jobs.e4.schedule: has six cron fields, and must have five (found "* * * * * *") (remove the first one, the seconds)',
    "50 jobs.e4.timezone: must be an IANA time zone (for example UTC, Europe/Berlin or America/Chicago)",
    '51 jobs.e5.schedule: has an invalid minute (found "61 * * * *") (minute, hour, day of month, month, day of week: "15 1 * * *" is every day at 01:15)',
    '51 jobs.e5.refresh_after: must be at least a day, and 3m would be 3 minutes (found "3m") (for 3 months write 3mo)',
    '52 jobs.v.schedule: must be a cron schedule of five fields (found "@daily") (write "0 0 * * *")',
    "52 jobs.v.return_fields: is not a setting of jobs.v (it belongs to type enrich)",
    "53 jobs.push.sql: ends with a semicolon (remove it)",
    '53 jobs.push.mode: must be one of append, mirror (found "replace") (docs/configuration.md describes this setting)',
    "53 jobs.push.name: is missing (name the segment, or give its segment_id)",
    '53 jobs.push.connection: is not a configured connection (found "crm") (known names: lake, odd)',
    "54 jobs.members.segments[0].id: must be a UUID (found 7) (as in 123e4567-e89b-12d3-a456-426614174000)",
    "54 jobs.members.segments[1]: must have either an id or a job ({ id: <uuid> }, { job: NAME } or { job: NAME, search: NAME })",
    "54 jobs.members.segments[2]: must have either an id or a job ({ id: <uuid> }, { job: NAME } or { job: NAME, search: NAME })",
    "55 jobs.a.searches.Nurses: is not a valid name (use lowercase letters, digits and _, starting with a letter; at most 63 characters)",
    '55 jobs.a.searches.b.query: must be a description of an audience, at most 500 characters (for example "registered nurses in Ohio with a personal email")',
    "55 jobs.a.searches.e.unlock.max_billable: is missing (it must be a whole number, 0 or more)",
    '55 jobs.a.searches.f.unlock: must be `never`, or a mapping of keys to values (found "always") (docs/configuration.md describes this setting)',
    "55 jobs.a.searches.d: is the same search as c (remove one of them)",
    "56 jobs.a2.searches: must be a mapping of keys to values (found 7) (indent its keys below it, without `- `)",
    '57 jobs.usage.bucketing_size: must be one of hour, day, week, month, quarter, year (found "minute") (docs/configuration.md describes this setting)',
    '57 jobs.usage.start_date: is a day that doesn\'t exist (found "2026-02-30") (write a day of the calendar as YYYY-MM-DD)',
    "58 alerts.webhook: must be a reference to a secret, not the secret itself (use ${NAME} for an environment variable, or file:PATH (relative to this file); revoke a key that was in this file)",
    '58 alerts.on: must be a list of statuses and changes (found "failed") (write a list: [ … ])',
    "59 http.port: must be a whole number from 0 to 65535 (found 99999) (docs/configuration.md describes this setting)",
    "59 http.token: is missing: http.bind lets other machines read the pages (${PERSON_ETL_HTTP_TOKEN} or file:PATH; or bind to 127.0.0.1)",
    '60 prices.currency: must be an ISO 4217 currency code such as USD (found "usd") (three capital letters)',
    "60 prices.resolve: must be the price of one billed record, or { amount: 0.10, per: match } (found -1) (a number from 0 to 999999999 without quotes, currency or separators)",
    "60 prices.validate_emails: must be the price of one billed record, or { amount: 0.10, per: match } (found NaN) (a number from 0 to 999999999 without quotes, currency or separators)",
    "60 prices.enrich: has too many decimals (at most six are exact: 0.000125, for example)",
    '60 prices.unlock: must be the price of one billed record, or { amount: 0.10, per: match } (found "0.2") (a number from 0 to 999999999 without quotes, currency or separators)',
    "60 prices.unlok: is not a setting of prices (did you mean unlock?)",
  ]);
});

it("a DuckDB destination is a file: addresses are refused, and not repeated", async () => {
  const text = `service: { base_url: sandbox }
warehouse: { url: embedded }
publish:
  cloud: { type: duckdb, path: "md:people?motherduck_token=hunter2" }
  memory: { type: duckdb, path: ":memory:" }
  drive: { type: duckdb, path: 'C:\\people.duckdb' }
  colon: { type: duckdb, path: ./md:people }
`;
  const why =
    "must be the path of a file on this machine, not an address (publish to a file; MotherDuck loads it by CREATE OR REPLACE DATABASE people FROM 'people.duckdb'; a name with a colon needs ./ before it)";
  const found = await problemsOf(text);
  expect(found.filter((problem) => problem.includes("publish."))).toEqual([
    `4 publish.cloud.path: ${why}`,
    `5 publish.memory.path: ${why}`,
  ]);
});

it("each wrong reference to another part is reported with its path, its line and a hint", async () => {
  const text = `service: { base_url: sandbox }
warehouse: { url: embedded }
inputs:
  customers: { table: t, key: id, fields: { first_name: f, last_name: l, emails: e } }
  others: { table: t, key: id, connection: crm, fields: { full_name: n, phones: p } }
  pids: { table: t, key: id, fields: { service_pid: pid, emails: e } }
  a: { job: audiences }
  b: { search: nurses }
  c: { job: audiences, search: nurse }
  d: { job: r, search: nurses }
  e: { job: audiences, search: nurses, table: x, key: id }
jobs:
  r: { type: resolve, input: customers }
  v: { type: validate_emails, input: customers }
  audiences: { type: audience_search, searches: { nurses: { query: nurses } } }
  r2: { type: resolve, input: others }
  e1: { type: enrich, input: custmers, pid_from: resolv }
  e2: { type: enrich, input: customers, pid_from: v, valid_emails_from: r }
  e3: { type: enrich, input: customers, pid_from: r2, after: [r, nothing, resolve] }
  v2: { type: validate_emails, input: others }
  r3: { type: resolve, input: pids }
  e4: { type: enrich, input: pids, pid_from: r }
  e5: { type: enrich, input: customers, after: e5 }
  e6: { type: enrich, input: customers, after: e7 }
  e7: { type: enrich, input: customers, after: e6 }
  p: { type: segment_push, name: VIP, sql: select 1, after: [m] }
  p2: { type: segment_push, name: VIP, sql: select 1 }
  m: { type: segment_members, segments: [{ job: p }, { job: psh }, { job: audiences }, { job: audiences, search: x }, { job: r }, { job: p2, search: nurses }] }
budgets: { enrich: { per_day: { amount: 5 } } }
`;
  expect(await problemsOf(text)).toEqual([
    '5 inputs.others.connection: is not a configured connection (found "crm") (there is no such connection)',
    "7 inputs.a.search: is missing (the searches of audiences are nurses)",
    "8 inputs.b.job: is missing (add the audience_search job that has this search)",
    '8 inputs.b.search: is not a configured search of the job (found "nurses") (there is no such search)',
    '9 inputs.c.search: is not a configured search of the job (found "nurse") (did you mean nurses?)',
    '10 inputs.d.search: is not a configured search of the job (found "nurses") (there is no such search)',
    "10 inputs.d.job: must be a job of type audience_search, not resolve (did you mean audiences?)",
    '11 inputs.e.table: conflicts with job (found "x") (the members of an audience are read by their PID; remove the line)',
    '11 inputs.e.key: conflicts with job (found "id") (the members of an audience are read by their PID; remove the line)',
    '17 jobs.e1.input: is not a configured input (found "custmers") (did you mean customers?)',
    '17 jobs.e1.pid_from: is not a configured resolve job (found "resolv") (there is no such job)',
    "18 jobs.e2.pid_from: must be a job of type resolve, not validate_emails (did you mean r?)",
    "18 jobs.e2.valid_emails_from: must be a job of type validate_emails, not resolve (did you mean v?)",
    '19 jobs.e3.after[1]: is not a configured job (found "nothing") (known names: r, v, audiences, r2, e1, e2, e3, v2, r3, e4, e5, e6, e7, p, p2, m)',
    '19 jobs.e3.after[2]: is not a configured job (found "resolve") (known names: r, v, audiences, r2, e1, e2, e3, v2, r3, e4, e5, e6, e7, p, p2, m)',
    "19 jobs.e3.pid_from: is a job with a different input (did you mean r?)",
    "20 jobs.v2.input: the input maps no emails (add emails to the fields of the input)",
    "21 jobs.r3.input: the input has no mapping for fields that resolve requires: a name, and emails or phones (map first_name and last_name (or full_name), and emails or phones, in the fields of the input)",
    "22 jobs.e4.pid_from: conflicts with the mapped field service_pid (remove pid_from, or service_pid from the fields of the input)",
    "23 jobs.e5: depends on itself: e5 → e5 (remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input)",
    "24 jobs.e6: depends on itself: e6 → e7 → e6 (remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input)",
    "26 jobs.p: depends on itself: p → m → p (remove one of these from `after`, `pid_from`, `valid_emails_from`, `segments` or the `job` of an input)",
    "27 jobs.p2.name: is also the name of jobs.p: the service allows only one segment per name (choose another name, or give one of the two a segment_id)",
    '28 jobs.m.segments[3].search: is not a configured search of the job (found "x") (did you mean nurses?)',
    '28 jobs.m.segments[5].search: is not a configured search of the job (found "nurses") (there is no such search)',
    '28 jobs.m.segments[1].job: is not a configured segment_push or audience_search job (found "psh") (known names: audiences, p, p2)',
    "28 jobs.m.segments[2].search: is missing (the searches of audiences are nurses)",
    "28 jobs.m.segments[4].job: must be a job of type segment_push or audience_search, not resolve (known names: audiences, p, p2)",
    "29 budgets.enrich.per_day.amount: needs prices.enrich, the price of one billed record (add prices: { currency: USD, enrich: 0.10 }, or write the number of records)",
  ]);
});

const jobs = (text: string) => `${fine.slice(0, fine.indexOf("jobs:"))}jobs:${text}`;

it.each([
  [jobs(" {}\n"), "11 jobs: has no job (see config.example.yaml, or create one with `person-etl init`)"],
  [
    fineBut("key: id", "key: 7"),
    "9 inputs.customers.key: must be the name of a column, or a list of at least one (found 7) (exactly as the database stores it, at most 63 bytes)",
  ],
  [
    `${fine}prices: { currency: USD, enrich: 1 }\nbudgets: { enrich: { per_day: { amount: 5, records: 100 } } }\n`,
    "16 budgets.enrich.per_day.records: is not a setting of budgets.enrich.per_day (write 100000 for records, or { amount: 500 } in the currency of `prices`)",
  ],
  [fineBut("key: id", "key: [id, id]"), '9 inputs.customers.key[1]: is a duplicate (found "id") (remove it)'],
  [
    fineBut("key: id", "key: id\n    sql: select 1"),
    "10 inputs.customers.sql: conflicts with table (keep only one)",
  ],
  [
    `${fine}prices: { currency: XXQ }\n`,
    '15 prices.currency: must be an ISO 4217 currency code such as USD (found "XXQ") (three capital letters)',
  ],
  [
    `${fine}prices: { currency: USD, resolve: 1 }\nbudgets: { enrich: { per_day: { amount: 5 } } }\n`,
    "16 budgets.enrich.per_day.amount: needs prices.enrich, the price of one billed record (add enrich: 0.10 to `prices`, or write the number of records)",
  ],
])("one mistake causes one problem: %#", async (text, problem) => {
  expect(await problemsOf(text)).toEqual([problem]);
});

it("an invalid name is not proposed", async () => {
  const text = fineBut("validate_emails, input: customers", "validate_emails, input: Custom-er").replace(
    "inputs:",
    "inputs:\n  Custom-ers: { table: t, key: id, fields: { emails: e } }",
  );
  expect(await problemsOf(text)).toEqual([
    expect.stringMatching(/^7 inputs\.Custom-ers: is not a valid name/u),
    '14 jobs.validate_customers.input: is not a configured input (found "Custom-er") (did you mean customers?)',
  ]);
});

/** Two pushes with the same name and different settings. */
const pushes = (one: string, other: string) =>
  load(`${fine}  vips: { type: segment_push, name: VIP, sql: select 1${one} }
  vips_again: { type: segment_push, name: VIP, sql: select 2${other} }
`);

it("pushes may share a name where one segment at most is made", async () => {
  await pushes(", enabled: false", "");
  await pushes("", ", segment_id: 11111111-1111-4111-8111-111111111111");
  await expect(pushes("", "")).rejects.toThrow("1 problem");
});

it("a variable in SQL is refused, and its value isn't repeated", async () => {
  const env = { SKIP: "'x'); COMMIT; CREATE TABLE public.pwned AS SELECT now(); COMMIT; BEGIN; SELECT (1" };
  const text = fineBut("    key: id", "    where: id <> ${SKIP}\n    key: id");
  expect(await problemsOf(text, { env })).toEqual([
    "9 inputs.customers.where: contains ${…}, which SQL can't: the variable would become part of the statement (write the value itself, or keep it in a table or view)",
  ]);
});

test("terms of a contract that leave a record without one price are problems", async () => {
  const text = `service: { base_url: sandbox }
warehouse: { url: embedded }
inputs: { c: { table: c, key: id, fields: { full_name: name } } }
jobs: { e: { type: enrich, input: c } }
prices:
  currency: USD
  resolve: { per: match }
  validate_emails: { amount: 1, overage: 2, per: address }
  enrich: { amount: 1, included_per_month: 10, tiers: [{ from: 9, amount: 1 }, { from: 9, amount: 2 }, { from: 20, amount: 0.0000001 }] }
  unlock: { amount: 1, per: record }
`;
  const all = "count every billed record of the month, included ones too; lowest tier first";
  expect(await problemsOf(text)).toEqual([
    "7 prices.resolve.amount: is missing (the price of one billed record: 0.10)",
    '8 prices.validate_emails.per: must be one of record, match (found "address") (which records the invoice counts)',
    "8 prices.validate_emails.included_per_month: is missing: overage begins after it (the number of records that the plan covers each month)",
    "9 prices.enrich.tiers[2].amount: has too many decimals (found 1e-7) (at most six are exact: 0.000125, for example)",
    `9 prices.enrich.tiers[0].from: is within included_per_month (found 9) (${all})`,
    `9 prices.enrich.tiers[1].from: is not above the tier before (found 9) (${all})`,
    '10 prices.unlock.per: doesn\'t apply to unlocks (found "record") (remove it: the service states what each unlock bills)',
  ]);
});

const SENTINELS = [
  "sk_live_abcdef",
  "correct horse battery",
  "123-45-6789",
  "555-1234",
  "4111111111111111",
  "4111 1111 1111 1111",
  "41 11 11 11 11 11",
  "ann@example.com",
  "Zm9vYmFyYmF6cXV4",
  "deadbeef4242cafe",
  "my_password_is_x",
  "+1 415 555 0100",
];

it.each(SENTINELS)("a value that may be a secret or personal data isn't repeated: %s", async (sentinel) => {
  const text = `${fineBut("key: id", `key: id\n    on_missing: "${sentinel}"\n    normalize: "${sentinel}"`)
    .replace("input: customers", `input: "${sentinel}"`)
    .replace(
      "jobs:",
      `jobs:\n  e: { type: enrich, input: customers, schedule: "${sentinel}", timezone: "${sentinel}", refresh_after: "${sentinel}" }`,
    )}
log_level: "${sentinel}"
`.replace("base_url: sandbox", `base_url: sandbox\n  concurrency: "${sentinel}"`);
  const problems = await problemsOf(text);
  expect(problems.length).toBeGreaterThan(5);
  expect(problems.join("\n")).not.toContain(sentinel);
});

it.each([12345678, 4111111111111111])("a long number isn't repeated: %i", async (number) => {
  const problems = await problemsOf(fineBut("key: id", `key: ${number}`));
  expect(problems).toEqual([expect.not.stringContaining(String(number))]);
});

it("a value of the environment isn't repeated", async () => {
  const env = { FILE: "hidden_value", PERSON_ETL_LOG_LEVEL: "hidden_level" };
  const text = fineBut("table: ", 'connection: files\n    table: "${FILE}" #').replace(
    "inputs:",
    "connections: { files: { type: duckdb } }\ninputs:",
  );
  const problems = await problemsOf(text, { env });
  expect(problems.join("\n")).toContain("is not a file that can be read");
  expect(problems.join("\n")).not.toContain("hidden");
});
