import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openForeignDatabase } from "../../src/load/open.ts";
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
