import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { openInputDatabase } from "../../src/load/open.ts";
import { profileFindings } from "../../src/cli/commands/check-inputs.ts";
import { profileOf } from "../../src/load/inputs/profile.ts";
import type { Identifiers } from "../../src/load/inputs/input.ts";
import { startRecordingProxy } from "../jobs/lookup/recording-proxy.ts";
import { describeForeignInputs, withForeignInputs } from "../load/foreign-context.ts";
import { openPostgresContext } from "../load/postgres-context.ts";
import { clear } from "../load/suite/context.ts";
import { gist, matchAll, runNight } from "../load/suite/nights.ts";
import { enrichSpec, makePeople, people } from "../load/suite/people.ts";
import { type InputMirror, openInputMirror } from "./input-mirror.ts";

describeForeignInputs("BigQuery", openInputMirror);

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
    const database = openInputDatabase(there.connection);
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
    const keyOf = (isCast: boolean, ...only: readonly string[]) =>
      database.read({ ...input(), fields: {} }, { type: "enrich", ranked: false, only, isCast }, (rows) =>
        text(rows.copyText()),
      );
    const stored = '["7", "\\\\\\\\x00ff"]\n';
    expect(await keyOf(false, "007", "\\x00ff")).toBe(stored);
    expect(await keyOf(false, "008", "\\x00ff")).toBe("");
    expect(await keyOf(true, "008", "\\x0A")).toBe(stored.replace("7", "8").replace("00ff", "0a"));
    await database.close();
  });

  test("is profiled, and the proposed query fixes what is wrong", async () => {
    await there.sql(`CREATE TABLE crm.ugly (id bigint, zip bigint, numbers jsonb, town bytea, mail text, updated_at timestamptz,
        contacts jsonb, home jsonb);
      INSERT INTO crm.ugly VALUES (1, 7030, '["212-555-0142", {"id": 7, "no": 2125550143, "at": "2026-01-02T03:04:05Z"}]', 'Austin',
          'a@example.com;b@example.com', '2999-01-01', '[{"type": "work", "id": 7, "address": "a@b.example"}, {"x@y": " é@b.example"}]', '{"city": "Austin"}'),
        (1, 94110, NULL, 'Dallas', 'C@example.com', NULL, '[["d@b.example"]]', NULL), (NULL, NULL, NULL, NULL, 'c@example.com', NULL, NULL, NULL)`);
    await there.flush?.();
    const database = openInputDatabase(there.connection);
    const ugly = {
      ...input(),
      relation: { table: ["crm", "ugly"] },
      key: ["id"],
      fields: {
        zipcode: ["zip"],
        phones: ["numbers"],
        city: ["town"],
        emails: ["mail", "contacts"],
        state: ["home"],
      },
    };
    const sample = await database.sampleInput(ugly);
    expect(sample).toMatchObject({
      keys: { rows: 3, withoutKey: 1, duplicates: 1 },
      sampledRows: 3,
    });
    const findings = profileFindings("ugly", ugly, profileOf(sample, false));
    expect(findings.map(({ message }) => message)).toEqual([
      expect.stringContaining("non-empty in a sample of 3 rows"),
      expect.stringContaining("key: 1 of 3 rows"),
      expect.stringContaining("key: NULL in 1 of 3 rows"),
      "town: BYTES, sent in hexadecimal",
      "mail: 33.3% of its values hold several addresses",
      "contacts: JSON, sent as JSON text",
      "numbers: JSON, sent as JSON text",
      "home: JSON, sent as JSON text",
      "zip: INT64, so leading zeros are lost",
      "table: to convert 5 columns, use a query instead:",
    ]);
    const { sql } = parse(findings.at(-1)?.hint ?? "") as { readonly sql: string };
    const fixed = {
      ...ugly,
      relation: { sql },
      fields: {
        zipcode: ["zip_zipcode"],
        phones: ["numbers_phones"],
        city: ["town_city"],
        emails: ["mail_emails", "contacts_emails"],
      },
    };
    const { columns } = await database.sampleInput(fixed);
    expect(columns.map(({ column, values }) => [column, values.flat().toSorted()])).toEqual([
      ["town_city", ["Austin", "Dallas"]],
      ["mail_emails", ["C@example.com", "a@example.com", "b@example.com", "c@example.com"]],
      ["contacts_emails", ["a@b.example", "d@b.example", "é@b.example"]],
      ["numbers_phones", ["212-555-0142", "2125550143"]],
      ["zip_zipcode", ["07030", "94110"]],
    ]);
    await database.close();
  });

  test("is checked for its columns without reading a row", async () => {
    const database = openInputDatabase(there.connection);
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

test("rows that haven't changed travel as keys and fingerprints", async () => {
  const postgres = await openPostgresContext();
  const there = await openInputMirror();
  const proxy = await startRecordingProxy(there.connection.apiEndpoint ?? "");
  const connection = { ...there.connection, apiEndpoint: proxy.url };
  const context = withForeignInputs(postgres, { ...there, connection });
  const wide = "wide".repeat(250);
  /** Runs a night; returns its counts, and for its plan and its run on average the rows read whole and the bytes read a row. */
  const night = async () => {
    const earlier = proxy.answers.length;
    const { counts } = await runNight(context, enrichSpec(), matchAll);
    const read = proxy.answers
      .slice(earlier)
      .map(({ response }) => response)
      .join("");
    return { counts: gist(counts), whole: (read.split(wide).length - 1) / 2, bytes: read.length / 600 };
  };
  try {
    await clear(context);
    const rows = Array.from({ length: 300 }, (_, i) => ({
      id: `row-${i}`,
      first_name: wide,
      last_name: `Lee ${i}`,
    }));
    await makePeople(context, rows);
    const first = await night();
    expect(first).toMatchObject({ counts: { toSend: 300 }, whole: 300 });
    const second = await night();
    expect(second).toMatchObject({ counts: { read: 300, unchanged: 300 }, whole: 0 });
    expect(second.bytes).toBeLessThan(100);
    await context.sql("UPDATE crm.people SET last_name = 'Ray' WHERE id = 'row-7'");
    const third = await night();
    expect(third).toMatchObject({ counts: { unchanged: 299, toSend: 1 }, whole: 1 });
    expect(third.bytes).toBeLessThan(110);
  } finally {
    await postgres.close();
    await there.close();
  }
});
