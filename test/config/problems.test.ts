import { describe, expect, it } from "vitest";
import { fineBut, problemsOf } from "./support.ts";

const inInput = (setting: string) => fineBut("key: id\n", `key: id\n    ${setting}\n`);
const inEnrich = (setting: string) => fineBut("pid_from: resolve_customers }", `${setting} }`);
const inService = (setting: string) => fineBut("base_url: sandbox\n", `base_url: sandbox\n  ${setting}\n`);

const DURATION =
  "must be a duration such as 30d (a whole number and a unit: s, m, h, d or w (45s, 15m, 12h, 30d, 2w))";
const CRON =
  'must be a cron schedule of five fields (minute, hour, day of month, month, day of week: "15 1 * * *" is every day at 01:15)';
const DOCS = "(docs/configuration.md describes this setting)";

describe("each wrong setting is reported with its path, its line and a hint", () => {
  it.each([
    // Names of settings
    [fineBut("service:", "sevice:"), "1 sevice: is not a setting (did you mean service?)"],
    [
      fineBut("base_url", "baseUrl"),
      "2 service.baseUrl: is not a setting of service (did you mean base_url?)",
    ],
    [
      `${fineBut("", "")}concurrency: 4\n`,
      "15 concurrency: is not a setting (did you mean service.concurrency?)",
    ],
    [
      `${fineBut("", "")}colour: red\n`,
      "15 colour: is not a setting (the settings here are log_level, service, sandbox, warehouse, publish, data_dir, confirm_above, connections, inputs, privacy, retention, alerts, http, budgets, prices, jobs)",
    ],
    [
      fineBut("type: resolve,", "type: resolve, return_fields: [],"),
      "12 jobs.resolve_customers.return_fields: is not a setting of jobs.resolve_customers (it belongs to type enrich)",
    ],
    [
      fineBut("first_name: first_name", "firstname: first_name"),
      "10 inputs.customers.fields.firstname: is not a setting of inputs.customers.fields (did you mean first_name?)",
    ],
    [
      inService("limits: { /v2/enrch: { requests_per_second: 1 } }"),
      "3 service.limits./v2/enrch: is not a setting of service.limits (did you mean /v2/enrich?)",
    ],
    // Missing
    [
      fineBut("  url: embedded\n", ""),
      "3 warehouse.url: is missing (it must be `embedded`, or the postgres:// address of a database, preferably as a reference)",
    ],
    [
      fineBut("    key: id\n", ""),
      "7 inputs.customers.key: is missing (it must be the name of a column, or a list of at least one)",
    ],
    [
      fineBut("type: enrich, input: customers,", "type: enrich,"),
      "14 jobs.enrich_customers.input: is missing (it must be the name of an input)",
    ],
    [
      fineBut("    table: crm.customers\n", ""),
      "7 inputs.customers.table: is missing (add a table (schema.table), sql: SELECT …, or the job and search of an audience)",
    ],
    // Kinds
    [inService("concurrency: 0"), `3 service.concurrency: must be a whole number from 1 to 64 ${DOCS}`],
    [inService("concurrency: 65"), `3 service.concurrency: must be a whole number from 1 to 64 ${DOCS}`],
    [inService("concurrency: 1.5"), `3 service.concurrency: must be a whole number from 1 to 64 ${DOCS}`],
    [
      inService('concurrency: "8"'),
      "3 service.concurrency: must be a whole number from 1 to 64 (write the number without quotes)",
    ],
    [
      inService("requests_per_second: 0"),
      `3 service.requests_per_second: must be a number above 0, at most 1000000 ${DOCS}`,
    ],
    [
      inService("requests_per_second: .inf"),
      `3 service.requests_per_second: must be a number above 0, at most 1000000 ${DOCS}`,
    ],
    [
      fineBut("key: id", "key: []"),
      `9 inputs.customers.key: must be the name of a column, or a list of at least one (exactly as the database stores it, at most 63 bytes)`,
    ],
    [
      fineBut("key: id", "key: [id, 7]"),
      "9 inputs.customers.key[1]: must be the name of a column (exactly as the database stores it, at most 63 bytes)",
    ],
    [fineBut("key: id", "key: [id, id]"), "9 inputs.customers.key[1]: is a duplicate (remove it)"],
    [
      fineBut("key: id", `key: ${"k".repeat(64)}`),
      "9 inputs.customers.key: must be the name of a column, or a list of at least one (exactly as the database stores it, at most 63 bytes)",
    ],
    [
      fineBut("table: crm.customers", "table: [crm, customers]"),
      "8 inputs.customers.table: must be a table such as crm.customers (write one value instead of a list)",
    ],
    [
      fineBut("table: crm.customers", "table: crm.customers; drop"),
      "8 inputs.customers.table: must be a table such as crm.customers (schema.table or table, exactly as the database stores them; other names in double quotes: 'crm.\"Odd Name\"')",
    ],
    [
      fineBut("  customers:\n", "  customers: crm.customers\n  other:\n"),
      "7 inputs.customers: must be a mapping of keys to values (indent its keys below it)",
    ],
    [
      fineBut("  customers:\n", "  customers: [crm, customers]\n  other:\n"),
      "7 inputs.customers: must be a mapping of keys to values (indent its keys below it)",
    ],
    [
      fineBut("fields: { first_name: first_name, last_name: last_name, emails: [email] }", "fields: [email]"),
      "10 inputs.customers.fields: must be a mapping of keys to values (indent its keys below it)",
    ],
    [inInput("where: a = 1;"), "10 inputs.customers.where: ends with a semicolon (remove it)"],
    [inInput("on_missing: delete"), `10 inputs.customers.on_missing: must be one of keep, erase ${DOCS}`],
    [inEnrich("refresh_after: 90"), `14 jobs.enrich_customers.refresh_after: ${DURATION}`],
    [inEnrich("refresh_after: 0d"), `14 jobs.enrich_customers.refresh_after: ${DURATION}`],
    [inEnrich("refresh_after: 99999999w"), `14 jobs.enrich_customers.refresh_after: ${DURATION}`],
    [
      inEnrich("enabled: yes"),
      "14 jobs.enrich_customers.enabled: must be true or false (YAML 1.2 reads yes and no as text: write true or false)",
    ],
    [
      inEnrich("max_records_per_run: -1"),
      `14 jobs.enrich_customers.max_records_per_run: must be a whole number, 1 or more ${DOCS}`,
    ],
    [
      inEnrich("max_reject_ratio: 20"),
      "14 jobs.enrich_customers.max_reject_ratio: must be a number from 0 to 1 (0.2 means 20 percent)",
    ],
    [
      inEnrich('schedule: "* * * * * *"'),
      "14 jobs.enrich_customers.schedule: has six cron fields, and must have five (remove the first one, the seconds)",
    ],
    [
      inEnrich('schedule: "61 * * * *"'),
      '14 jobs.enrich_customers.schedule: has an invalid minute (minute, hour, day of month, month, day of week: "15 1 * * *" is every day at 01:15)',
    ],
    [inEnrich('schedule: "@daily"'), `14 jobs.enrich_customers.schedule: ${CRON}`],
    [
      inEnrich("timezone: Berlin"),
      "14 jobs.enrich_customers.timezone: is not a time zone (did you mean Europe/Berlin?)",
    ],
    [
      inEnrich('timezone: "+02:00"'),
      "14 jobs.enrich_customers.timezone: must be an IANA time zone (for example UTC, Europe/Berlin or America/Chicago)",
    ],
    [
      inEnrich("return_fields: full_name"),
      `14 jobs.enrich_customers.return_fields: must be a list of field names (write a list: [ … ])`,
    ],
    [
      inEnrich('return_fields: [full_name, ""]'),
      `14 jobs.enrich_customers.return_fields[1]: must be the name of a field ${DOCS}`,
    ],
    [
      inEnrich("return_fields: [age, gender, age]"),
      "14 jobs.enrich_customers.return_fields[2]: is a duplicate (remove it)",
    ],
    [
      inEnrich("match_condition_fields: [mobile_fone]"),
      "14 jobs.enrich_customers.match_condition_fields[0]: must be one of linkedin_url, gender, estimated_income_range, estimated_wealth_range, emails, personal_email, professional_email, phone, mobile_phone, home_ownership_status (did you mean mobile_phone?)",
    ],
    [
      fineBut("type: resolve,", "type: resolv,"),
      "12 jobs.resolve_customers.type: is not a known type (did you mean resolve?)",
    ],
    [
      fineBut("url: embedded", "url: embedded\n  schema: Person Data"),
      "6 warehouse.schema: must be a schema name of at most 63 lower-case letters, digits and _ (start with a letter or _; the prefix pg_ is reserved by Postgres)",
    ],
    [
      fineBut("url: embedded", "url: embedded\n  schema: pg_people"),
      "6 warehouse.schema: must be a schema name of at most 63 lower-case letters, digits and _ (start with a letter or _; the prefix pg_ is reserved by Postgres)",
    ],
    [
      `${fineBut("", "")}log_level: loud\n`,
      `15 log_level: must be one of trace, debug, info, warn, error, silent ${DOCS}`,
    ],
    [
      `${fineBut("", "")}confirm_above: 100\n`,
      "15 confirm_above: must be a mapping of keys to values (its settings are records, ratio)",
    ],
    [`${fineBut("", "")}data_dir: 7\n`, "15 data_dir: must be a folder (put it in quotes)"],
    // References in settings that are no secrets
    [
      fineBut("table: crm.customers", "table: ${TABLE}"),
      "8 inputs.customers.table: requires the environment variable TABLE, which is not set (set it in the environment of this command)",
    ],
    [
      fineBut("table: crm.customers", "table: ${TABLE:-customers}"),
      "8 inputs.customers.table: contains an invalid reference (write ${NAME} with the name of an environment variable; $${ is an escaped ${)",
    ],
  ])("%#", async (text, problem) => {
    expect(await problemsOf(text)).toContain(problem);
  });

  it("all of them at once, by line", async () => {
    const text = `service:
  base_url: http://api.example.com
  api_key: sk-live-7f3a
  concurrency: 99
warehouse:
  type: postgres
  url: \${WAREHOUSE_URL}
  ops_schema: person_data
inputs:
  customers:
    table: crm.customers
    key:
    fields: { emails: email }
jobs:
  enrich_customers: { type: enrich, input: custmers, refresh_after: 90 }
  vips: { type: segment_members, segments: [{ id: 7 }] }
budgets: { enrich: { per_day: none }, unlock: { per_month: 1 } }
`;
    expect(await problemsOf(text)).toEqual([
      "2 service.base_url: would send the key and people's data over the network unencrypted (use https://, or set service.allow_insecure: true)",
      "3 service.api_key: must be a reference to a secret, not the secret itself (use ${NAME} for an environment variable, or file:PATH (relative to this file); revoke a key that was in this file)",
      `4 service.concurrency: must be a whole number from 1 to 64 ${DOCS}`,
      "7 warehouse.url: requires the environment variable WAREHOUSE_URL, which is not set (set it in the environment of this command)",
      "8 warehouse.ops_schema: must differ from warehouse.schema (use different names, such as person_data, person_data_ops and person_data_state: each has other readers)",
      "12 inputs.customers.key: is empty (give it a value, or remove the line)",
      "15 jobs.enrich_customers.input: is not a configured input (did you mean customers?)",
      `15 jobs.enrich_customers.refresh_after: ${DURATION}`,
      "16 jobs.vips.segments[0].id: must be a UUID (as in 123e4567-e89b-12d3-a456-426614174000)",
      "17 budgets.enrich.per_day: must be a whole number of records, 0 or more, or { amount: 500 } (an amount is in the currency of `prices`)",
    ]);
  });
});

it.each([
  ["where", "    where: id <> ${SKIP}"],
  ["order_by", "    order_by: name = '${SKIP}'"],
])("refuses a variable of the environment in `%s`, and doesn't repeat its value", async (key, line) => {
  const skip = "'x'); COMMIT; CREATE TABLE public.pwned AS SELECT now(); COMMIT; BEGIN; SELECT (1";
  const problems = await problemsOf(fineBut("    key: id", `${line}\n    key: id`), { env: { SKIP: skip } });
  expect(problems).toEqual([
    `9 inputs.customers.${key}: contains \${…}, which SQL can't: the variable would become part of the statement (write the value itself, or keep it in a table or view)`,
  ]);
});
