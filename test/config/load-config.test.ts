import { isLookupJob } from "../../src/jobs/lookup/lookup-types.ts";
import { dirname, resolve } from "node:path";
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { fine, fineBut, load } from "./support.ts";

const price = (amount: string) => ({ tiers: [{ from: 0, amount }], per: null, currency: "USD" });

describe("a fine configuration", () => {
  it("has the settings of the file in the terms of the program", async () => {
    const config = await load(
      `
service: { base_url: https://api.example.com/people/, api_key: "\${KEY}" }
warehouse: { url: embedded }
connections:
  crm: { type: postgres, url: "postgresql://reader@crm.internal/crm" }
inputs:
  by_table:
    table: '"Sales Data"."Odd ""Name"""'
    connection: crm
    where: region = 'EU' and note <> '$\${x}'
    key: [tenant_id, id]
    fields: { full_name: name, emails: [email, work_email], phones: phone, service_pid: pid }
  by_sql: { sql: select * from people, key: id, fields: { full_name: Full Name, phones: phone, emails: email } }
jobs:
  v: { type: validate_emails, input: by_sql, refresh_after: 2w }
  r:
    type: resolve
    input: by_sql
    valid_emails_from: v
    after: [v]
    enabled: false
    timezone: europe/BERLIN
    refresh_after: 3mo
    refresh_unmatched_after: 1y
  e: { type: enrich, input: by_table, after: v, return_fields: [full_name, phones] }
`,
      { env: { KEY: "k-1" } },
    );
    expect(config.service.baseUrl).toBe("https://api.example.com/people");
    expect(config.inputs).toMatchObject({
      by_table: {
        source: { kind: "table", schema: "Sales Data", table: 'Odd "Name"' },
        connection: config.connections["crm"],
        where: "region = 'EU' and note <> '${x}'",
        key: ["tenant_id", "id"],
        fields: { full_name: ["name"], emails: ["email", "work_email"], phones: ["phone"] },
      },
      by_sql: { source: { kind: "sql", sql: "select * from people" }, fields: { full_name: ["Full Name"] } },
    });
    const day = 86_400_000;
    expect(config.jobs).toMatchObject([
      { refreshAfterMs: 14 * day, refreshUnmatchedAfterMs: 14 * day, schedule: null, timezone: "UTC" },
      {
        validEmailsFrom: "v",
        after: ["v"],
        enabled: false,
        timezone: "Europe/Berlin",
        refreshAfterMs: 90 * day,
        refreshUnmatchedAfterMs: 365 * day,
      },
      { after: ["v"], returnFields: ["full_name", "phones"], includePremiumFields: false },
    ]);
  });

  it("may name an input `constructor`", async () => {
    const config = await load(
      fine.replaceAll("customers:\n", "constructor:\n").replaceAll("input: customers", "input: constructor"),
    );
    expect(config.jobs.filter(isLookupJob)[0]?.input.name).toBe("constructor");
  });

  it("may be printed: no secret is in it", async () => {
    const config = await load(fineBut("sandbox", "https://api.example.com\n  api_key: ${KEY}"), {
      env: { KEY: "k-very-secret" },
    });
    await expect(config.service.apiKey?.read()).resolves.toBe("k-very-secret");
    for (const printed of [JSON.stringify(config), inspect(config, { depth: 20, showHidden: true })]) {
      expect(printed).not.toContain("k-very-secret");
    }
    expect(config.service.apiKey?.origin).toBe("environment variable KEY");
  });

  it("warns of a job that uses the answers of a disabled one, and of a column mapped twice", async () => {
    const text = fineBut("type: resolve,", "type: resolve, enabled: false,");
    const config = await load(text.replace("last_name: last_name", "last_name: first_name"));
    expect(config.warnings.map(({ line, path, message }) => `${line} ${path} ${message}`)).toEqual([
      "10 inputs.customers.fields.last_name has the same column as first_name",
      "14 jobs.enrich_customers.pid_from is a disabled job: its responses are not updated",
    ]);
  });

  it("warns of a requested field that the service doesn't document, unless it is declared", async () => {
    const fields = "return_fields: [full_name, personal_emails, vehicles, genderr, shoe_size] }";
    const text = fineBut("pid_from: resolve_customers }", `pid_from: resolve_customers, ${fields}`);
    const config = await load(`${text}extra_columns: { person: { vehicles: integer } }\n`);
    expect(config.warnings).toEqual([
      {
        path: "jobs.enrich_customers.return_fields[3]",
        line: 14,
        message: 'is not a field that the service documents (found "genderr")',
        hint: "did you mean gender?",
      },
      {
        path: "jobs.enrich_customers.return_fields[4]",
        line: 14,
        message: 'is not a field that the service documents (found "shoe_size")',
        hint: "remove it unless the service names it; then declare it under extra_columns.person",
      },
    ]);
  });

  it("warns once of an emulator in place of BigQuery, unless an address is configured", async () => {
    const text = `${fineBut("", "")}
publish:
  local: { type: duckdb, path: copies/people.duckdb }
  analytics: { type: bigquery, project: my-project, credentials: file:key.json }
  own: { type: bigquery, project: my-project, dataset: own, api_endpoint: "https://bigquery.example.com" }
connections: { lake: { type: bigquery, project: my-lake } }
`;
    const warningsWith = async (env: Record<string, string>) =>
      (await load(text, { env })).warnings.map(({ path, message, hint }) => `${path} ${message}; ${hint}`);
    expect(await warningsWith({})).toEqual([]);
    expect(await warningsWith({ BIGQUERY_EMULATOR_HOST: "" })).toEqual([]);
    expect(await warningsWith({ BIGQUERY_EMULATOR_HOST: "bigquery:9050" })).toEqual([
      "connections.lake uses the emulator in BIGQUERY_EMULATOR_HOST instead of Google's service, and so does publish.analytics: " +
        "without credentials, and unencrypted unless its address begins with https://; unset the variable to use Google's service",
    ]);
  });

  it("has absolute paths, starting at the folder of the file", async () => {
    const config = await load(`${fineBut("    key: id", "    connection: lake\n    key: id")}
publish:
  local: { type: duckdb, path: copies/people.duckdb }
  analytics: { type: bigquery, project: my-project }
connections: { lake: { type: bigquery, project: my-lake, credentials: file:lake.json } }
`);
    const folder = dirname(config.file);
    expect(config.publish).toMatchObject([
      { name: "local", path: resolve(folder, "copies/people.duckdb"), tables: null },
      { name: "analytics", credentialsFile: null },
    ]);
    expect(config.inputs["customers"]?.connection).toMatchObject({
      name: "lake",
      credentialsFile: resolve(folder, "lake.json"),
    });
  });

  it("keeps budgets in money with their price, and separates limits in records from them", async () => {
    const { budgets, prices } = await load(`${fine}
prices: { currency: USD, resolve: 0, validate_emails: 0.003, enrich: 0.10 }
budgets: { resolve: { per_day: { amount: 5 } }, validate_emails: { per_day: { amount: 0.1 }, per_month: 7 }, enrich: { per_month: { amount: 500 } } }
`);
    expect(prices).toEqual({
      currency: "USD",
      byBudget: { resolve: price("0"), validate_emails: price("0.003"), enrich: price("0.1") },
    });
    const none = { perDay: null, perMonth: null };
    expect(budgets).toEqual({
      resolve: { ...none, money: { price: price("0"), day: "5", month: null } },
      validate_emails: {
        perDay: null,
        perMonth: 7,
        money: { price: price("0.003"), day: "0.1", month: null },
      },
      enrich: { ...none, money: { price: price("0.1"), day: null, month: "500" } },
    });
    expect((await load(fine)).prices).toBeNull();
  });

  it.each([
    [
      "{ amount: 0.10, per: match, included_per_month: 50000, tiers: [{ from: 100000, amount: 0.08 }] }",
      ["0: 0", "50000: 0.1", "100000: 0.08"],
      "match",
    ],
    ["{ amount: 0.10, per: record }", ["0: 0.1"], "record"],
    ["{ amount: 0.10, included_per_month: 5, overage: 0.2 }", ["0: 0", "5: 0.2"], null],
    ["{ overage: 0.2, included_per_month: 5, tiers: [{ from: 5, amount: 0.1 }] }", ["0: 0", "5: 0.1"], null],
  ])("reads the price %s as a contract bills it", async (text, tiers, per) => {
    const { prices } = await load(`${fine}\nprices: { currency: USD, enrich: ${text} }`);
    const read = prices?.byBudget["enrich"];
    expect(read?.tiers.map(({ from, amount }) => `${from}: ${amount}`)).toEqual(tiers);
    expect(read).toMatchObject({ per, currency: "USD" });
  });

  it("reads the members of an audience by their PID, after its search, which is never unlocked by default", async () => {
    const config =
      await load(`${fine.replace("inputs:", "inputs:\n  nurses: { job: audiences, search: nurses }")}
  people: { type: enrich, input: nurses }
  segment: { type: segment_members, segments: [{ job: audiences, search: nurses }] }
  audiences: { type: audience_search, searches: { nurses: { query: nurses in Ohio } } }
  prospects: { type: person_search, searches: { cfos: { query: CFOs } } }
`);
    expect(config.inputs["nurses"]).toMatchObject({
      key: ["service_pid"],
      fields: { service_pid: ["service_pid"] },
      source: { kind: "members", schema: "person_data", query: "nurses in Ohio" },
    });
    const [people, segment, audiences, prospects] = config.jobs.slice(3);
    expect(people?.after).toEqual(["audiences"]);
    expect(segment).toMatchObject({
      after: ["audiences"],
      segments: [{ kind: "search", job: "audiences", search: "nurses", name: null }],
    });
    expect(audiences).toMatchObject({
      searches: { nurses: { query: "nurses in Ohio", unlock: null } },
      refreshAfterMs: null,
      deadlineMs: 900_000,
    });
    expect(prospects).toMatchObject({ searches: { cfos: { query: "CFOs", size: 100 } } });
  });
});
