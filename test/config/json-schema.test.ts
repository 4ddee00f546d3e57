import { readFile } from "node:fs/promises";
import { Ajv } from "ajv";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { fine, fineBut, load } from "./support.ts";

const file = "docs/reference/config.schema.json";
const validate = new Ajv({ allErrors: true, strictTypes: false, useDefaults: false }).compile(
  JSON.parse(await readFile(file, "utf8")),
);

/** Paths that an editor underlines in a text. */
function underlined(text: string): readonly string[] {
  validate(parse(text, { merge: true }));
  const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== "oneOf" && keyword !== "anyOf");
  return errors.map(({ instancePath, params }) =>
    [instancePath, params["additionalProperty"] ?? params["missingProperty"] ?? ""].join("/"),
  );
}

/** A text with every commented-out setting enabled (# without a space after it). */
const uncommented = (text: string) => text.replaceAll(/^(\s*)#(?=\S)/gm, "$1");

const inResolve = (setting: string) => fineBut("type: resolve,", `type: resolve, ${setting},`);

describe("the JSON Schema for editors", () => {
  it("accepts config.example.yaml, as it is and with every setting", async () => {
    const text = await readFile("config.example.yaml", "utf8");
    expect(text.startsWith(`# yaml-language-server: $schema=${file}\n`)).toBe(true);
    expect(underlined(text)).toEqual([]);
    expect(underlined(uncommented(text))).toEqual([]);
  });

  it("accepts references wherever the program does", async () => {
    const text = `log_level: \${LEVEL}
service: { base_url: "\${URL}", api_key: "\${KEY}" }
warehouse: { url: "postgresql://loader:\${PASSWORD}@localhost/crm", schema: "\${SCHEMA}" }
inputs:
  customers:
    table: \${TABLE}
    where: note <> '$\${literal}'
    key: ["\${COLUMN}"]
    on_missing: \${ON_MISSING}
    fields: { emails: "\${COLUMN}" }
jobs:
  validate_customers: { type: validate_emails, input: customers, schedule: "\${CRON}", refresh_after: "\${AGE}" }
`;
    const env = {
      LEVEL: "warn",
      URL: "https://api.example.com",
      KEY: "key-1",
      PASSWORD: "secret",
      SCHEMA: "people",
      WAIT: "1m",
      TABLE: "crm.customers",
      COLUMN: "email",
      ON_MISSING: "erase",
      CRON: "15 1 * * *",
      AGE: "30d",
    };
    const { inputs } = await load(text, { env });
    expect(inputs["customers"]).toMatchObject({ key: ["email"], onMissing: "erase" });
    expect(underlined(text)).toEqual([]);
  });

  it.each([
    [`${fine}budget: {}\n`, "/budget"],
    [fineBut("base_url: sandbox", "base_url: sandbox\n  concurency: 4"), "/service/concurency"],
    [fineBut("base_url: sandbox", "base_url: sandbox\n  concurrency: 65"), "/service/concurrency/"],
    [fineBut("base_url: sandbox", "base_url: sandbox\n  api_key: sk-live-1"), "/service/api_key/"],
    [fineBut("url: embedded", "url: $WAREHOUSE_URL"), "/warehouse/url/"],
    [fineBut("type: postgres", "type: snowflake"), "/warehouse/type/"],
    [fineBut("warehouse:\n  type: postgres\n  url: embedded\n", ""), "/warehouse"],
    [fineBut("first_name: first_name", "firstname: first_name"), "/inputs/customers/fields/firstname"],
    [fineBut("last_name: last_name", "last_name: [last_name]"), "/inputs/customers/fields/last_name/"],
    [fineBut("key: id", "key: id\n    where: country = '${COUNTRY}'"), "/inputs/customers/where/"],
    [fineBut("resolve_customers: {", "Resolve: {"), "/jobs/"],
    [inResolve("refresh_after: 30 days"), "/jobs/resolve_customers/refresh_after/"],
    [inResolve('schedule: "0 15 1 * * *"'), "/jobs/resolve_customers/schedule/"],
    [inResolve("return_fields: [emails]"), "/jobs/resolve_customers/return_fields"],
    [inResolve("enabled: maybe"), "/jobs/resolve_customers/enabled/"],
    [fineBut("type: resolve,", "type: resolves,"), "/jobs/resolve_customers/type/"],
  ])("underlines what the program refuses: %#", async (text, place) => {
    expect(underlined(fine)).toEqual([]);
    expect(underlined(text)).toContain(place);
    await expect(load(text)).rejects.toThrow(/problem/u);
  });
});
