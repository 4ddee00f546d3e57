import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openForeignDatabase } from "../../src/load/open.ts";
import { profileFindings } from "../../src/cli/input-profile.ts";
import { profileOf } from "../../src/load/inputs/profile-input.ts";
import type { Identifiers } from "../../src/load/erasure/people.ts";
import { withForeignInputs } from "../load/foreign-context.ts";
import { openPostgresContext } from "../load/postgres-context.ts";
import { describeCursor } from "../load/suite/cursor.ts";
import { describeInputs } from "../load/suite/inputs.ts";
import { describeMissingRows } from "../load/suite/missing-rows.ts";
import { describeNormalize } from "../load/suite/normalize.ts";
import { people } from "../load/suite/people.ts";
import { describeWarehouse } from "../load/warehouse-suite.ts";
import { type InputMirror, openInputMirror } from "./input-mirror.ts";

describeWarehouse("inputs in BigQuery", async () => {
  const context = await openPostgresContext();
  const there = await openInputMirror();
  return {
    ...withForeignInputs(context, there),
    async close() {
      await context.close();
      await there.close();
    },
  };
}, [describeInputs, describeNormalize, describeCursor, describeMissingRows]);

describe("a table in BigQuery", () => {
  let there: InputMirror;
  beforeAll(async () => {
    there = await openInputMirror();
    await there.sql(
      "CREATE SCHEMA crm; CREATE TABLE crm.typed (a bigint, b bytea, mails text[], name text, seen_at timestamptz)",
    );
    await there.sql(
      `INSERT INTO crm.typed VALUES (7, '\\x00ff', ARRAY['b,"c"\\@example.com', NULL, ' ', E'tab\\t@example.com'],
        E'é\\n\\\\n', '2026-01-02 03:04:05.5+00')`,
    );
    await there.flush?.();
  });
  afterAll(() => there.close());

  const input = () => ({
    ...people,
    connection: there.connection,
    relation: { table: ["typed"] },
    key: ["a", "b"],
    fields: { emails: ["mails"], first_name: ["name"], city: ["seen_at"] },
  });

  test("is searched for people by key, address and PID", async () => {
    const database = openForeignDatabase(there.connection);
    const row = {
      sourceKey: '["7", "\\\\x00ff"]',
      emails: ['b,"c"\\@example.com', "tab\t@example.com"],
      pids: [],
    };
    const find = (wanted: Partial<Identifiers>) =>
      database.findRows(input(), { pids: [], emails: [], rows: [], ...wanted });
    expect(await find({ emails: ["nobody@example.com", "tab\t@example.com"] })).toEqual([row]);
    expect(await find({ rows: [{ source: "people", sourceKey: row.sourceKey }] })).toEqual([row]);
    expect(await find({ rows: [{ source: "others", sourceKey: row.sourceKey }] })).toEqual([]);
    expect(await find({ emails: ["nobody@example.com"], pids: ["p"] })).toEqual([]);
    await database.close();
  });

  test("is profiled, and the proposed query fixes what is wrong", async () => {
    await there.sql(`CREATE TABLE crm.ugly (id bigint, zip bigint, numbers jsonb, town bytea, mail text, updated_at timestamptz);
      INSERT INTO crm.ugly VALUES (1, 7030, '["212-555-0142"]', 'Austin', 'a@example.com;b@example.com', '2999-01-01'),
        (1, 94110, NULL, 'Dallas', 'C@example.com', NULL), (NULL, NULL, NULL, NULL, 'c@example.com', NULL)`);
    await there.flush?.();
    const database = openForeignDatabase(there.connection);
    const ugly = {
      ...input(),
      relation: { table: ["crm", "ugly"] },
      key: ["id"],
      cursor: { column: "updated_at", overlapMs: 0 },
      fields: { zipcode: ["zip"], phones: ["numbers"], city: ["town"], emails: ["mail"] },
    };
    const sample = await database.sampleInput(ugly);
    expect(sample).toMatchObject({
      keys: { rows: 3, withoutKey: 1, duplicates: 1 },
      cursor: { missing: 2, ahead: 1 },
      sampledRows: 3,
    });
    const findings = profileFindings(ugly, profileOf(sample, false));
    expect(findings.map(({ message }) => message)).toEqual([
      expect.stringContaining("filled in 3 sampled rows"),
      expect.stringContaining("key: 1 of 3 rows"),
      expect.stringContaining("key: NULL in 1 of 3 rows"),
      expect.stringContaining("cursor: updated_at is in the future"),
      expect.stringContaining("cursor: updated_at is NULL"),
      "town: BYTES, sent in hexadecimal",
      "mail: 33.3 % of its values hold several addresses",
      "numbers: JSON, sent as JSON text",
      "zip: INT64, so leading zeros are lost",
      "table: to convert 4 columns, use a query instead:",
    ]);
    const sql = (findings.at(-1)?.hint ?? "").replace("sql: ", "");
    const fixed = {
      ...ugly,
      relation: { sql },
      fields: { zipcode: ["zip_text"], phones: ["numbers_list"], city: ["town_text"], emails: ["mail_list"] },
    };
    const { columns } = await database.sampleInput(fixed);
    expect(Object.fromEntries(columns.map(({ field, values }) => [field, values.flat().toSorted()]))).toEqual(
      {
        zipcode: ["07030", "94110"],
        phones: ["212-555-0142"],
        city: ["Austin", "Dallas"],
        emails: ["C@example.com", "a@example.com", "b@example.com", "c@example.com"],
      },
    );
    await database.close();
  });

  test("is checked for its columns without reading a row", async () => {
    const database = openForeignDatabase(there.connection);
    expect(await database.checkInput(input())).toEqual([]);
    const problems = await database.checkInput({ ...input(), key: ["nobody"] });
    expect(problems.map(({ path }) => path)).toEqual(["inputs.people.key"]);
    const missing = await database.checkInput({ ...input(), relation: { table: ["crm", "gone"] } });
    expect(missing).toMatchObject([
      { path: "inputs.people.table", hint: expect.stringContaining("Create the table") },
    ]);
    const wrong = await database.checkInput({ ...input(), relation: { sql: "SELECT 1 AS at" } });
    expect(wrong).toMatchObject([
      { path: "inputs.people.sql", message: expect.stringContaining("Unexpected keyword AT") },
    ]);
  });
});
