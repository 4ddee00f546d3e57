import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EnrichJobConfig, LookupJobConfig } from "../../../src/jobs/lookup/lookup-types.ts";
import { lookupSpecOf, plainRequest } from "../../../src/jobs/lookup/lookup-spec.ts";
import { openPostgresContext } from "../../load/postgres-context.ts";
import { type Night, type Responder, runNight } from "../../load/suite/nights.ts";
import { clear, type Context } from "../../load/suite/context.ts";
import { customers, enrichJob, resolveJob, validateJob } from "../support.ts";
import * as fc from "../../support/fast-check.ts";
import type { LookupCounts } from "../../../src/load/lookups/counts.ts";
import type { LookupSpec } from "../../../src/load/lookups/lookup.ts";

let context: Context;
beforeAll(async () => {
  context = await openPostgresContext();
});
afterAll(() => context.close());

/** A key type, and the spelling of its n-th key. */
interface KeyKind {
  readonly columns: Readonly<Record<string, string>>;
  readonly valueOf: (n: number) => readonly string[];
}

const keyKinds: Readonly<Record<string, KeyKind>> = {
  bigint: { columns: { id: "bigint" }, valueOf: (n) => [String(n * 7 - 3)] },
  text: { columns: { id: "text" }, valueOf: (n) => [`ключ ${"x".repeat(n % 5)} ${n}`] },
  uuid: {
    columns: { id: "uuid" },
    valueOf: (n) => [`00000000-0000-4000-8000-${String(n).padStart(12, "0")}`],
  },
  composite: {
    columns: { tenant: "int", id: "text" },
    valueOf: (n) => [String(n % 3), `${Math.floor(n / 3)}`],
  },
  timestamptz: {
    columns: { id: "timestamptz" },
    valueOf: (n) => [`2026-01-01 00:00:00.${String(n).padStart(6, "0")}+02`],
  },
  numeric: { columns: { id: "numeric" }, valueOf: (n) => [n % 2 === 0 ? `${n}.10` : `${n}.1`] },
};

/** One row of the input; contents are few, so that many rows are equal. */
interface Row {
  /** Rows with the same number have the same key; null for none. */
  readonly key: number | null;
  readonly first: string | null;
  readonly email: string | null;
  readonly work: string | null;
  readonly town: string | null;
}

const row: fc.Arbitrary<Row> = fc
  .record({
    key: fc.option(fc.integer({ min: 0, max: 40 }), { nil: null, freq: 12 }),
    first: fc.constantFrom("Ann", "Bob", " ", "", null),
    email: fc.constantFrom("a@example.com", "b@example.com", "bad@example.com", null),
    work: fc.constantFrom("bad@example.com", "c@example.com", " ", null),
    town: fc.constantFrom("Rome", "", null),
  })
  // Rows with only addresses that differ in an invalid one may be sent by two shards.
  .map((r) => ([r.email, r.work].includes("bad@example.com") ? { ...r, town: r.town || "Oslo" } : r));

const input = {
  ...customers,
  fields: { first_name: ["first"], full_name: ["first"], emails: ["email", "work"], city: ["town"] },
};

async function makeInput(kind: KeyKind, rows: readonly Row[]): Promise<void> {
  const keys = Object.entries(kind.columns);
  const columns = [
    ...keys.map(([name, type]) => `${name} ${type}`),
    "first text, email text, work text, town text",
  ];
  await context.sql(`CREATE TABLE crm.customers (${columns.join(", ")})`);
  const lines = rows.map(({ key, first, email, work, town }) => {
    const cells = [...(key === null ? keys.map(() => null) : kind.valueOf(key)), first, email, work, town];
    return Object.fromEntries(
      [...keys.map(([name]) => name), "first", "email", "work", "town"].map((name, i) => [name, cells[i]]),
    );
  });
  await context.sql(
    "INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, $1)",
    [JSON.stringify(lines)],
  );
}

/** Specs of all shards of a job. */
async function shardsOf(job: LookupJobConfig, kind: KeyKind, count: number): Promise<readonly LookupSpec[]> {
  const ofTable = { ...job, input: { ...input, key: Object.keys(kind.columns) } };
  return Promise.all(
    Array.from({ length: count }, (_, index) =>
      lookupSpecOf(ofTable, { ...plainRequest, shard: { index, count } }),
    ),
  );
}

/**
 * Figures that must be equal, summed over shards. Rows with a record that another one sends are due in one run, and have an answer
 * in the second of two shards.
 */
function sumOf(all: readonly LookupCounts[]): readonly number[] {
  const figures: readonly ((counts: LookupCounts) => number)[] = [
    ({ read }) => read,
    ({ unchanged, duplicate }) => unchanged + duplicate,
    ({ waiting }) => waiting,
    ({ suppressed }) => suppressed,
    ({ rejectedBeforeSending }) => rejectedBeforeSending,
    ({ unusableKeys }) => unusableKeys,
    ({ remaining }) => remaining,
    ({ toSend }) => toSend,
  ];
  return figures.map((figureOf) => all.reduce((sum, counts) => sum + figureOf(counts), 0));
}

/** Refuses some records, finds no match for others, and answers the rest by their content. */
const respond: Responder = ({ address, json }) => {
  if (address !== undefined) return { pid: "", status: address.startsWith("bad") ? "invalid" : "valid" };
  if (json.includes("Bob") && json.includes("Rome")) return { code: "unprocessable_entity" };
  return json.includes("Bob") ? null : { pid: `p-${json.length}` };
};

/** Contents of our tables about the input, without times and ids of calls and runs. */
async function contents(): Promise<Readonly<Record<string, unknown>>> {
  const queries = {
    rows: "SELECT job, source_key, encode(content, 'hex') FROM person_data_state.lookup_row",
    answers:
      "SELECT kind, encode(content, 'hex'), outcome, sent_service_pid FROM person_data_state.lookup_answer",
    open: "SELECT job, source_key, code FROM person_data.reject WHERE resolved_at IS NULL",
    emails: "SELECT source_key, position, email_address FROM person_data.input_email",
    resolution: "SELECT job, source_key, service_pid FROM person_data.resolution",
    enrichment: "SELECT job, source_key, service_pid FROM person_data.enrichment",
  };
  const found: Record<string, unknown> = {};
  for (const [name, query] of Object.entries(queries)) {
    found[name] = (await context.sql(query)).map((line) => JSON.stringify(Object.values(line))).toSorted();
  }
  return found;
}

const chain: EnrichJobConfig = {
  ...enrichJob,
  pidFrom: resolveJob.name,
  validEmailsFrom: validateJob.name,
};
const jobs: readonly LookupJobConfig[] = [
  resolveJob,
  validateJob,
  chain,
  { ...enrichJob, name: "enrich_alone" },
];

/** Runs every job with this number of shards, one job after the other; returns the summed counts of each. */
async function runAll(kind: KeyKind, count: number) {
  const found = [];
  for (const job of jobs) {
    const nights: Night[] = [];
    for (const spec of await shardsOf(job, kind, count)) nights.push(await runNight(context, spec, respond));
    const records = nights.flatMap((night) => night.records);
    found.push({
      job: job.name,
      counts: sumOf(nights.map((night) => night.counts)),
      sent: records.map(({ json }) => json).toSorted(),
    });
  }
  return found;
}

const given = fc.record({
  rows: fc.array(row, { minLength: 1, maxLength: 40 }),
  count: fc.integer({ min: 2, max: 5 }),
  /** Number of shards of the next runs. */
  nextCount: fc.integer({ min: 1, max: 6 }),
  kind: fc.constantFrom(...Object.values(keyKinds)),
});

describe("shards, for any number of them, any type of key and any content,", () => {
  test("are disjoint and complete, and leave behind what one run would", async () => {
    await fc.assert(
      fc.asyncProperty(given, async ({ rows, count, nextCount, kind }) => {
        await clear(context);
        await makeInput(kind, rows);
        const whole = await runAll(kind, 1);
        const kept = await contents();

        await clear(context);
        await makeInput(kind, rows);
        expect(await runAll(kind, count)).toEqual(whole);
        expect(await contents()).toEqual(kept);

        // Any later run, with the same, another or no division, finds nothing left and changes nothing.
        const again = await runAll(kind, nextCount);
        expect(again.map(({ sent }) => sent)).toEqual(jobs.map(() => []));
        expect(await contents()).toEqual(kept);
      }),
      { numRuns: 3 },
    );
  }, 300_000);

  test("a shard enriches what it resolved, without waiting for the others", async () => {
    await fc.assert(
      fc.asyncProperty(given, async ({ rows, count, kind }) => {
        await clear(context);
        await makeInput(kind, rows);
        const resolves = await shardsOf(resolveJob, kind, count);
        const enriches = await shardsOf(chain, kind, count);
        const waiting: number[] = [];
        for (const [i, resolve] of resolves.entries()) {
          await runNight(context, resolve, respond);
          waiting.push((await runNight(context, enriches[i] ?? resolve, respond)).counts.waiting);
        }
        expect(waiting).toEqual(resolves.map(() => 0));
      }),
      { numRuns: 4 },
    );
  }, 300_000);
});
