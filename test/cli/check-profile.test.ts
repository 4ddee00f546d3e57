import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runHere } from "./support/in-process.ts";
import { makeSetting } from "./support/setting.ts";

/** Customers as people enter them; every value of a cell is easy to find in an output. */
const UGLY = `CREATE SCHEMA crm; CREATE TABLE crm.customers (tenant int, nr text, first_name text, last_name text, email text,
    phones jsonb, zip integer, state text, middle text, updated_at timestamptz, PRIMARY KEY (tenant, nr));
  INSERT INTO crm.customers SELECT i % 3, 'K-' || i,
    CASE WHEN i % 10 = 0 THEN ' Zacharias' || i ELSE 'Zacharias' || i END, CASE WHEN i % 20 = 0 THEN 'n/a' ELSE 'Quimby' || i END,
    CASE i % 10 WHEN 0 THEN 'quimby' || i || '.example.com' WHEN 1 THEN 'QUIMBY' || i + 1 || '@example.com' WHEN 3 THEN 'test@test.com'
      ELSE 'quimby' || i || '@example.com' END,
    jsonb_build_object('home', '+1224303' || 6000 + i), CASE WHEN i % 2 = 0 THEN 7030 ELSE 94110 END, 'TX', NULL,
    CASE WHEN i = 5 THEN '2999-01-01' ELSE '2026-01-01'::timestamptz + i * interval '1 minute' END
  FROM generate_series(1, 500) AS i;`;

const CONFIG = `service: { base_url: sandbox }
sandbox: { people: 5000, input_rows: 400 }
warehouse: { type: postgres, url: "\${WAREHOUSE_URL}" }
inputs:
  customers:
    table: crm.customers
    key: tenant
    fields: { first_name: first_name, last_name: last_name, middle_name: middle, emails: email, phones: phones, state: state,
      zipcode: zip }
jobs:
  resolve_customers: { type: resolve, input: customers }
`;

test("check profiles an ugly table: one line each, with what fixes it, and no value", async () => {
  const setting = await makeSetting();
  await setting.query(UGLY);
  await writeFile(join(setting.cwd, "config.yaml"), CONFIG);
  const { code, stdout } = await runHere(["check"], setting);
  const lines = stdout
    .split("\n")
    .map((line) => line.replace(/^. input customers {2,}/u, (lead) => `${lead.charAt(0)} `).trim());
  const first = lines.findIndex((line) => line.startsWith("✓ can be read"));
  expect(
    lines.slice(
      first,
      lines.findIndex((line) => line.startsWith("✓ service")),
    ),
  ).toEqual([
    "✓ can be read with 8 columns",
    "✓ filled in 500 sampled rows: email 100 %, first_name 100 %, last_name 100 %, middle 0 %, phones 100 %, state 100 %, zip 100 %",
    "✗ key: 497 of 500 rows (99.4 %) repeat the key of another row and would be rejected",
    "→ `key: [tenant, nr]`, which an index makes unique",
    "! email: 10.0 % placeholders, 10.0 % without @, 10.0 % with capitals",
    "! first_name: 10.0 % with blanks around them",
    "! last_name: 5.0 % placeholders",
    "! middle: empty in all sampled rows",
    "→ remove middle from `middle_name`",
    "! phones: jsonb, sent as JSON text",
    "→ `phones: phones_phones`, with the query below",
    "! zip: integer, so leading zeros are lost",
    "→ `zipcode: zip_zipcode`, with the query below",
    "! table: to convert 2 columns, use a query instead:",
    String.raw`→ sql: select *, array(select v#>>'{}' from jsonb_path_query(to_jsonb("phones"), 'strict $.**') as v where jsonb_typeof(v) in ('string', 'number') and v#>>'{}' ~ '^(?!\d{4}-\d\d-\d\d)([^0-9[:alpha:]]*[0-9]){7}') as "phones_phones", lpad("zip"::bigint::text, 5, '0') as "zip_zipcode" from "crm"."customers"`,
    "! 11.3 % of the sampled values can be cleaned",
    "→ `normalize: true` leaves out 125 of 2,000 sampled values and saves sending 101 of 451 addresses",
  ]);
  expect(code).toBe(2);
  expect(stdout).not.toMatch(/quimby|zacharias|1224303|7030|94110|K-\d|2999|n\/a|test@/iu);
});
