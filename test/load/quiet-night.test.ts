import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { openLocalInput } from "../../src/load/inputs/read.ts";
import { withRolePath } from "../../src/load/db/session.ts";
import type { Db } from "../../src/load/db/db.ts";
import type { InputSource } from "../../src/load/inputs/input.ts";
import { contentHash, valuesOf } from "../../src/load/lookups/content.ts";
import { sentValues } from "../../src/load/inputs/columns.ts";
import { raw } from "../../src/load/inputs/postgres.ts";
import { sql } from "kysely";
import * as fc from "../support/fast-check.ts";
import { openDefaultDb, useContext } from "./postgres-context.ts";
import { clear, columnOf } from "./suite/context.ts";
import { begin, gist, type Responder, runNight } from "./suite/nights.ts";
import { DAY_MS, enrichSpec, makePeople, people, resolveSpec } from "./suite/people.ts";
import type { LookupSpec } from "../../src/load/lookups/lookup.ts";

const context = useContext();

const resolve = resolveSpec();
const enrich = enrichSpec({ pidFrom: "resolve_people", dropsInvalidEmails: true });
const rowsOf = (keys: readonly string[]) =>
  keys.map((id) => ({ id, first_name: "Ann", last_name: `Lee ${id}`, email: `${id}@example.com` }));

/** Matches rows with an odd key. */
const everyOther: Responder = (record) => {
  const key = record.keys[0] ?? "";
  return Number(key) % 2 === 1 ? { pid: `p-${key}` } : null;
};

/** Selects without sending. */
async function select(spec: LookupSpec): Promise<void> {
  const run = await begin(context.warehouse, spec, randomUUID());
  const selection = await context.warehouse.selectLookup(spec, run);
  await selection.close();
}

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
      const sent = sentValues(parts, of);
      return session.rows<{ id: string; print: string; hash: string }>(sql`
        WITH raw_row AS (${raw(rawRows)})
        SELECT source_key AS id, encode(fingerprint, 'hex') AS print, encode(${raw(contentHash(valuesOf(parts)))}, 'hex') AS hash
        FROM (SELECT source_key, fingerprint, ${raw(sent.columns.join(", "))} FROM ${raw(sent.from)} OFFSET 0) AS u
        ORDER BY source_key::bigint`);
    }),
  );

/** Number of different texts. */
const distinct = (texts: readonly string[]) => new Set(texts).size;

const forget = () => context.sql("UPDATE person_data_state.lookup_row SET fingerprint = NULL");

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
      { numRuns: 15 },
    );
  });

  test("of a mapping stays the same in every release, version and session", async () => {
    await context.sql(`CREATE TABLE crm.wide (id bigint, a timestamptz, b float8, c text, list text[]);
      INSERT INTO crm.wide VALUES (1, '2026-11-21 04:00:00.5+01', 0.1, 'ann@example.com', '{x,NULL,"a,b"}')`);
    await context.sql(`ALTER ROLE CURRENT_USER SET TimeZone = 'Asia/Tokyo'; ALTER ROLE CURRENT_USER SET extra_float_digits = 0;
      ALTER ROLE CURRENT_USER SET DateStyle = 'German'`);
    const other = openDefaultDb(context.url);
    try {
      const [found] = await hashesOf(input, other);
      expect(found?.print).toBe("7b4bfa52bb028958c2f509ef1837957f");
    } finally {
      await other.close();
      await context.sql("ALTER ROLE CURRENT_USER RESET ALL");
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

describe("a selection by fingerprints equals one by content hashes", () => {
  const key = fc.constantFrom("1", "2", "3", "4", "5", "6", "");
  // With it, all rows are classified.
  const resend = fc.constantFrom(false, false, true);
  const step = fc.oneof(
    fc.record({ kind: fc.constant("change" as const), key, to: fc.constantFrom("Lee", "Ray", "", " ") }),
    fc.record({ kind: fc.constant("remove" as const), key }),
    fc.record({ kind: fc.constant("add" as const), key, to: fc.constantFrom("Lee", "Ray") }),
    fc.record({ kind: fc.constant("resolve" as const), cap: fc.constantFrom(null, null, 1), resend }),
    fc.record({ kind: fc.constant("enrich" as const), cap: fc.constantFrom(null, null, 2), resend }),
    fc.record({ kind: fc.constant("expire" as const), key }),
    fc.record({ kind: fc.constant("lose" as const), key }),
  );
  type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
  const isPresent = `SELECT 'r' || source_key || is_present AS row FROM person_data.resolution
    UNION ALL SELECT 'e' || source_key || is_present FROM person_data.enrichment ORDER BY 1`;

  async function change(taken: Step): Promise<void> {
    if (taken.kind === "change") {
      await context.sql("UPDATE crm.people SET last_name = $2 WHERE id = $1", [taken.key, taken.to]);
    } else if (taken.kind === "remove") {
      await context.sql("DELETE FROM crm.people WHERE id = $1", [taken.key]);
    } else if (taken.kind === "add") {
      await context.sql(
        "INSERT INTO crm.people (id, first_name, last_name, email) VALUES ($1, 'Ann', $2, $3)",
        [taken.key, taken.to, `${taken.key}@example.com`],
      );
    } else if (taken.kind === "expire") {
      await context.sql(
        `UPDATE person_data_state.lookup_answer SET answered_at = now() - interval '2 days'
        WHERE content IN (SELECT content FROM person_data_state.lookup_row WHERE source_key = $1)`,
        [taken.key],
      );
    } else if (taken.kind === "lose") {
      await context.sql("UPDATE person_data_state.lookup_row SET fingerprint = NULL WHERE source_key = $1", [
        taken.key,
      ]);
    }
  }

  /** Selects with both jobs without sending, and reads whose answers are present then. */
  async function presentAfterSelection(): Promise<unknown> {
    for (const job of [resolve, enrich]) await select({ ...job, refreshAfterMs: DAY_MS, maxRecords: 0 });
    return columnOf(context, isPresent);
  }

  /** Runs a night; returns counts and present rows, as found by fingerprints and by content hashes. */
  async function night(taken: Extract<Step, { readonly cap: number | null }>, number: number) {
    const spec = {
      ...(taken.kind === "resolve" ? resolve : enrich),
      maxRecords: taken.cap,
      resend: taken.resend,
      refreshAfterMs: DAY_MS,
    };
    const respond: Responder = (record) => {
      const sum = number + (record.keys[0]?.length ?? 0) + record.json.length;
      if (sum % 5 === 0) return { code: "unprocessable_entity" };
      return sum % 3 === 0 ? null : { pid: `p-${sum % 4}` };
    };
    // Without fingerprints nothing is quiet, and reasons are less exact.
    const plan = async () => {
      const { counts } = await context.warehouse.previewLookup(spec, 0);
      return { ...counts, isQuiet: false, dueReasons: {} };
    };
    const byFingerprints = await plan();
    await context.sql(
      "DROP TABLE IF EXISTS crm.kept; CREATE TABLE crm.kept AS SELECT * FROM person_data_state.lookup_row",
    );
    await forget();
    const byHashes = await plan();
    await context.sql(`UPDATE person_data_state.lookup_row AS s SET fingerprint = k.fingerprint FROM crm.kept AS k
      WHERE s.job = k.job AND s.source_key = k.source_key`);
    await runNight(context, spec, respond);
    const present = await presentAfterSelection();
    await forget();
    return [
      { counts: byFingerprints, present },
      { counts: byHashes, present: await presentAfterSelection() },
    ] as const;
  }

  test("whatever happens to rows between nights", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 8 }), async (steps) => {
        await clear(context);
        await makePeople(context, rowsOf(["1", "2", "3"]));
        await runNight(context, { ...resolve, refreshAfterMs: DAY_MS }, everyOther);
        const found: unknown[] = [];
        const expected: unknown[] = [];
        for (const [number, taken] of steps.entries()) {
          if (!("cap" in taken)) {
            await change(taken);
            continue;
          }
          const [byFingerprints, byHashes] = await night(taken, number);
          found.push(byFingerprints);
          expected.push(byHashes);
        }
        expect(found).toEqual(expected);
      }),
      { numRuns: 8 },
    );
  }, 300_000);
});
