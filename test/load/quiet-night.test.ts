import { describe, expect, test } from "vitest";
import { openLocalInput } from "../../src/load/inputs/read.ts";
import { withRolePath } from "../../src/load/db/session.ts";
import type { Db } from "../../src/load/db/db.ts";
import type { InputSource } from "../../src/load/inputs/input.ts";
import { contentHash } from "../../src/load/lookups/content.ts";
import { sentColumns } from "../../src/load/inputs/columns.ts";
import { sql } from "kysely";
import * as fc from "../support/fast-check.ts";
import { openDefaultDb, useContext } from "./postgres-context.ts";
import { gist, type Responder, runNight } from "./suite/nights.ts";
import { makePeople, people, resolveSpec } from "./suite/people.ts";

const context = useContext();

const resolve = resolveSpec();
const rowsOf = (keys: readonly string[]) =>
  keys.map((id) => ({ id, first_name: "Ann", last_name: `Lee ${id}`, email: `${id}@example.com` }));

/** Matches rows with an odd key. */
const everyOther: Responder = (record) => {
  const key = record.keys[0] ?? "";
  return Number(key) % 2 === 1 ? { pid: `p-${key}` } : null;
};

/** Fingerprint and content hash of each row of an input, hex. */
const hashesOf = (of: InputSource, within: Db = context.warehouse.db) =>
  within.preview((session) =>
    withRolePath(session, async () => {
      const reading = {
        type: "enrich",
        ranked: false,
        hasFingerprint: true,
      } as const;
      const { parts, rawRows } = await openLocalInput(session, of, reading);
      const sent = sentColumns(parts, of);
      return session.rows<{ id: string; print: string; hash: string }>(sql`
        WITH raw_row AS (${sql.raw(rawRows)})
        SELECT source_key AS id, encode(fingerprint, 'hex') AS print, encode(${sql.raw(contentHash(parts))}, 'hex') AS hash
        FROM (SELECT source_key, fingerprint, ${sql.raw(sent.columns.join(", "))} FROM ${sql.raw(sent.from)} OFFSET 0) AS u
        ORDER BY source_key::bigint`);
    }),
  );

/** Number of different texts. */
const distinct = (texts: readonly string[]) => new Set(texts).size;

describe("a fingerprint", () => {
  const input: InputSource = {
    ...people,
    relation: { table: ["crm", "wide"] },
    fields: { first_name: ["a"], last_name: ["b"], emails: ["c", "list"] },
  };

  const signs = [
    "a",
    "b",
    "1",
    ":",
    ";",
    "=",
    "a;",
    ",",
    '"',
    "\\",
    "{",
    "}",
    "é",
    "\u{1F600}",
    "\n",
    "NULL",
  ];
  const piece = fc.constantFrom(...signs);
  const value = fc.oneof(
    { weight: 1, arbitrary: fc.constant(null) },
    {
      weight: 4,
      arbitrary: fc.array(piece, { minLength: 1, maxLength: 4 }).map((pieces) => `x${pieces.join("")}`),
    },
  );
  const row = fc.tuple(value, value, value, fc.option(fc.array(value, { minLength: 1, maxLength: 3 })));

  test("is equal exactly if the content hash is, whatever the values", async () => {
    await context.sql("CREATE TABLE crm.wide (id bigint, a text, b text, c text, list text[])");
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 40, maxLength: 40 }), async (rows) => {
        // Values swapped between columns and moved across their border are the likeliest to be mixed up.
        const all = rows.flatMap(([a, b, c, list]) => [
          [a, b, c, null],
          [b, a, c, null],
          [a, c, b, null],
          [a === null ? a : a + (b ?? ""), null, c, null],
          [a, b, null, list === null ? null : list.filter((text) => text !== null)],
        ]);
        await context.sql("TRUNCATE crm.wide");
        await context.sql(
          `INSERT INTO crm.wide SELECT o, v ->> 0, v ->> 1, v ->> 2,
            CASE WHEN json_typeof(v -> 3) = 'array' AND json_array_length(v -> 3) > 0
              THEN ARRAY(SELECT json_array_elements_text(v -> 3)) END
          FROM json_array_elements($1::json) WITH ORDINALITY AS u(v, o)`,
          [JSON.stringify(all)],
        );
        const listed = await hashesOf(input);
        expect(distinct(listed.map(({ print }) => print))).toBe(
          distinct(listed.map((one) => one.print + one.hash)),
        );
        const scalar = await hashesOf({ ...input, fields: { ...input.fields, emails: ["c"] } });
        expect(distinct(scalar.map(({ print }) => print))).toBe(
          distinct(scalar.map((one) => one.print + one.hash)),
        );
        expect(distinct(scalar.map(({ hash }) => hash))).toBe(
          distinct(scalar.map((one) => one.print + one.hash)),
        );
      }),
      { numRuns: 8 },
    );
  });

  test("of a mapping stays the same in every release, version and session", async () => {
    await context.sql(`CREATE TABLE crm.wide (id bigint, a timestamptz, b float8, c text, list text[]);
      INSERT INTO crm.wide VALUES (1, '2026-11-21 04:00:00.5+01', 0.1, 'ann@example.com', '{x,NULL,"a,b"}')`);
    // In this database only: other files use the role at the same time.
    const role = `ALTER ROLE CURRENT_USER IN DATABASE ${new URL(context.url).pathname.slice(1)}`;
    await context.sql(`${role} SET TimeZone = 'Asia/Tokyo'; ${role} SET extra_float_digits = 0;
      ${role} SET DateStyle = 'German'`);
    const other = openDefaultDb(context.url);
    try {
      const [found] = await hashesOf(input, other);
      expect(found?.print).toBe("7b4bfa52bb028958c2f509ef1837957f");
    } finally {
      await other.close();
      await context.sql(`${role} RESET ALL`);
    }
  });

  test("differs under another mapping of the same columns, and with normalize", async () => {
    await context.sql(`CREATE TABLE crm.wide (id bigint, a text, b text, c text, list text[]);
      INSERT INTO crm.wide VALUES (1, 'same', 'same', NULL, NULL)`);
    const others: readonly InputSource[] = [
      input,
      { ...input, normalize: true },
      { ...input, fields: { first_name: ["b"], last_name: ["a"], emails: ["c", "list"] } },
      { ...input, fields: { full_name: ["a"], last_name: ["b"], emails: ["c", "list"] } },
      { ...input, fields: { first_name: ["a"], last_name: ["b"], emails: ["list", "c"] } },
    ];
    const found = await Promise.all(others.map(async (other) => (await hashesOf(other))[0]?.print));
    expect(new Set(found).size).toBe(5);
  });
});

test("a night after a changed formula compares the content hashes once, and sends nothing", async () => {
  await makePeople(context, rowsOf(["1", "2", "3", "4", "5"]));
  await runNight(context, resolve, everyOther);
  const prints = () =>
    context.sql("SELECT fingerprint FROM person_data_state.lookup_row ORDER BY source_key");
  const before = await prints();
  await context.sql(
    "UPDATE person_data_state.lookup_row SET fingerprint = CASE source_key WHEN '3' THEN NULL ELSE '\\x00'::bytea END WHERE source_key < '4'",
  );
  expect(gist((await runNight(context, resolve)).counts)).toEqual({ read: 5, unchanged: 5 });
  expect(await prints()).toEqual(before);
});
