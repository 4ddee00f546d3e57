import { describe, expect, it } from "vitest";
import { listFields, scalarFields } from "../../src/config/schema/inputs.ts";
import * as template from "../../src/config/template.ts";
import { load } from "./support.ts";
import * as fc from "../support/fast-check.ts";

const answers: template.ConfigAnswers = {
  baseUrl: "https://api.example.com",
  apiKey: "${PERSON_SERVICE_API_KEY}",
  warehouseUrl: "${WAREHOUSE_URL}",
  allowInsecure: false,
  normalize: false,
  connection: null,
  input: "customers",
  rows: 5004,
  table: "crm.customers",
  key: ["tenant_id", "id"],
  fields: {
    first_name: ["first_name"],
    last_name: ["last_name"],
    emails: ["email", "work_email"],
    phones: ["phone"],
  },
};
const env = { PERSON_SERVICE_API_KEY: "k-1", WAREHOUSE_URL: "postgresql://loader:pw@localhost/warehouse" };

const renderConfig = (given: template.ConfigAnswers) =>
  template.renderConfig(given, "docs/reference/config.schema.json");

/** Names of the jobs for a configuration with these fields. */
const jobsFor = async (fields: template.ConfigAnswers["fields"]) => {
  const sandbox = {
    ...answers,
    baseUrl: "sandbox",
    apiKey: null,
    warehouseUrl: "embedded",
  };
  return (await load(renderConfig({ ...sandbox, fields }))).jobs.map((job) => job.name);
};

describe("the config.yaml that init writes", () => {
  it("is valid with every commented-out setting enabled", async () => {
    const text = renderConfig(answers).replaceAll(/^(\s*)#(?=\S)/gm, "$1");
    const config = await load(text, { env: { ...env, ALERT_WEBHOOK: "https://hooks.example.com/x" } });
    expect(config.inputs["customers"]).toMatchObject({ where: "country = 'US'" });
    expect(config.jobs.map(({ schedule }) => schedule)).toEqual(["15 1 * * *", null, null]);
    expect(config.prices?.currency).toBe("USD");
    expect(config.alerts?.staleAfterMs).toBe(36 * 3_600_000);
  });

  it("proposes budgets for the rows of the table, and for each of its e-mail addresses", async () => {
    const text = renderConfig(answers);
    expect(text).toContain("; crm.customers has about 5,004 rows, and a first full run sends all\n");
    expect(/#budgets:.*\n(?: {2}#\w+: .*\n){3}/u.exec(text)?.[0].split("\n").slice(1, 4)).toEqual([
      "  #resolve: { per_month: 6100 }",
      "  #validate_emails: { per_month: 13000 }",
      "  #enrich: { per_month: 6100 }",
    ]);
    expect(renderConfig({ ...answers, rows: null })).toContain(
      "or per_day\n  #resolve: { per_month: 12000 }",
    );
  });

  it("has only the jobs that the mapped fields allow", async () => {
    expect(await jobsFor({ linkedin_url: ["linkedin"] })).toEqual(["enrich_customers"]);
    expect(await jobsFor({ emails: ["email"] })).toEqual(["validate_customers", "enrich_customers"]);
    expect(await jobsFor({ full_name: ["name"], phones: ["phone"] })).toEqual([
      "resolve_customers",
      "enrich_customers",
    ]);
    expect(await jobsFor({ full_name: ["name"], phones: ["phone"], service_pid: ["pid"] })).toEqual([
      "enrich_customers",
    ]);
  });

  it("holds for columns of any name", async () => {
    const odd = ["true", "null", "~", "a: b", "- a", "${X}", "#c", "1", "a'b", 'a"b', "<<", "*a", "&a", "!x"];
    const column = fc
      .oneof(fc.string({ unit: "binary" }), fc.constantFrom(...odd, "0x1F", " lead", "a,b", "[x]"))
      .filter((name) => name.isWellFormed() && name.trim() !== "" && !name.includes("\0"))
      .filter((name) => Buffer.byteLength(name) <= 63);
    const several = fc.uniqueArray(column, { minLength: 1, maxLength: 3 });
    const columnsByField = Object.fromEntries<fc.Arbitrary<string[]>>([
      ...scalarFields.map((field) => [field, column.map((name) => [name])] as const),
      ...listFields.map((field) => [field, several] as const),
    ]);
    const mapped = fc
      .record(columnsByField, { requiredKeys: [] })
      .filter((fields) => Object.keys(fields).length > 0);
    const property = fc.asyncProperty(mapped, several, async (fields, key) => {
      const { customers } = (await load(renderConfig({ ...answers, key, fields }), { env })).inputs;
      expect(customers).toMatchObject({ key, fields });
    });
    await fc.assert(property, { numRuns: 20 });
  });
});
