import { describe, expect, test } from "vitest";
import { DAY_MS, enrichSpec, people, resolveSpec } from "./people.ts";
import { gist, type Reply, runNight } from "./nights.ts";
import { clear, type GetContext, type Context } from "./context.ts";
import * as fc from "../../support/fast-check.ts";
import type { DueReason } from "../../../src/load/due/lookup-counts.ts";
import type { LookupSpec } from "../../../src/load/due/lookup-spec.ts";

/** Contents of a row; the service always answers each one the same way. */
const contents = ["match a", "match b", "match c", "no match", "refused", "", " ", null] as const;
type Content = (typeof contents)[number];

function replyTo(content: Content): Reply {
  if (content === "refused") return { code: "unprocessable_entity" };
  return content?.startsWith("match") ? { pid: `p-${content.at(-1)}` } : null;
}

/** Changes of the input between two nights, and options of the night. */
interface NightPlan {
  readonly edits: readonly { readonly key: number; readonly content: Content | "gone" }[];
  /** Keys with answers that are made to expire. */
  readonly expired: readonly number[];
  readonly resend: boolean;
  readonly cap: number | null;
}

const key = fc.integer({ min: 1, max: 6 });
const night: fc.Arbitrary<NightPlan> = fc.record({
  edits: fc.array(
    fc.record({ key, content: fc.oneof(fc.constantFrom(...contents), fc.constant("gone" as const)) }),
    { maxLength: 6 },
  ),
  expired: fc.array(key, { maxLength: 3 }),
  resend: fc.boolean(),
  cap: fc.option(fc.integer({ min: 0, max: 3 }), { freq: 4 }),
});

/** Model of a row. */
interface KnownRow {
  readonly content: Content;
  readonly outcome: "matched" | "unmatched" | "rejected";
  expired: boolean;
  /** Marked by a resend and not sent again yet. */
  isMarked: boolean;
}

const has = (text: string | null) => text === "x";
const isBlank = (content: Content) => content === null || content.trim() === "";
/** Blank contents are equal: empty. */
const sameContent = (a: Content, b: Content) => (isBlank(a) && isBlank(b)) || a === b;

/** Plain model of the due rules: due rows with their reasons. */
function judge(input: ReadonlyMap<number, Content>, known: ReadonlyMap<number, KnownRow>, resend: boolean) {
  const due = new Map<number, DueReason>();
  const unusable: number[] = [];
  let unchanged = 0;
  for (const [k, content] of input) {
    const row = known.get(k);
    const isSame = row !== undefined && sameContent(row.content, content);
    const reason: DueReason | null = !row
      ? "never_answered"
      : !isSame
        ? "content_changed"
        : row.outcome === "rejected"
          ? null
          : row.expired
            ? "expired"
            : resend && row.isMarked
              ? "resend"
              : null;
    if (reason === null) unchanged += 1;
    else if (isBlank(content)) unusable.push(k);
    else due.set(k, reason);
  }
  return { due, unusable, unchanged };
}

async function applyEdits(
  context: Context,
  input: Map<number, Content>,
  known: Map<number, KnownRow>,
  plan: NightPlan,
): Promise<void> {
  for (const { key: k, content } of plan.edits) {
    await context.sql("DELETE FROM crm.people WHERE id = $1", [String(k)]);
    input.delete(k);
    if (content === "gone") continue;
    await context.sql("INSERT INTO crm.people (id, first_name) VALUES ($1, $2)", [String(k), content]);
    input.set(k, content);
  }
  for (const k of plan.expired) {
    const row = known.get(k);
    if (!row || row.outcome === "rejected") continue;
    await context.sql(
      "UPDATE person_data_state.lookup_state SET due_at = '2001-01-01' WHERE source_key = $1",
      [String(k)],
    );
    row.expired = true;
  }
}

/** Actual and expected results. */
type Comparison = readonly [found: unknown, expected: unknown];

/** Runs one night and compares it with the model. */
async function playNight(
  context: Context,
  spec: LookupSpec,
  state: { readonly input: Map<number, Content>; readonly known: Map<number, KnownRow> },
  plan: NightPlan,
  nightNumber: number,
): Promise<readonly Comparison[]> {
  const { input, known } = state;
  await applyEdits(context, input, known, plan);
  const isUnderWay = [...judge(input, known, true).due.values()].includes("resend");
  if (plan.resend && !isUnderWay) for (const row of known.values()) row.isMarked = true;
  const { due, unusable, unchanged } = judge(input, known, plan.resend);
  const fresh = new Map<string, KnownRow>();
  for (const row of known.values()) {
    if (row.outcome === "rejected" || row.expired || row.content === null) continue;
    if (plan.resend && row.isMarked) continue;
    if (!row.isMarked || !fresh.has(row.content)) fresh.set(row.content, row);
  }
  const reused = [...due].filter(
    ([k, reason]) =>
      (reason === "never_answered" || reason === "content_changed") && fresh.has(input.get(k) ?? ""),
  );
  const toSend = new Map<string, number[]>();
  for (const [k] of due) {
    if (reused.some(([other]) => other === k)) continue;
    const content = input.get(k) ?? "";
    toSend.set(content, [...(toSend.get(content) ?? []), k]);
  }
  const reasons: Partial<Record<DueReason, number>> = {};
  for (const reason of due.values()) reasons[reason] = (reasons[reason] ?? 0) + 1;

  const at = `2100-01-${String(nightNumber + 1).padStart(2, "0")}T00:00:00+00:00`;
  const ran = await runNight(
    context,
    { ...spec, resend: plan.resend, maxRecords: plan.cap },
    (record) => replyTo((JSON.parse(record.json) as { first_name: Content }).first_name),
    { at },
  );
  const { read, dueReasons, rejectedBeforeSending, waiting } = ran.counts;
  const found = { read, unchanged: ran.counts.unchanged, dueReasons, rejectedBeforeSending, waiting };
  const sent = Object.keys(ran.sent);
  const records = [...toSend.values()].map((keys) => keys.toSorted((x, y) => x - y).join(","));
  const comparisons: Comparison[] = [
    [
      found,
      {
        read: input.size,
        unchanged,
        dueReasons: reasons,
        rejectedBeforeSending: unusable.length,
        waiting: 0,
      },
    ],
    [ran.counts.reused, reused.length],
    [sent.length, Math.min(records.length, plan.cap ?? records.length)],
    [sent.filter((keys) => !records.includes(keys)), []],
  ];
  for (const k of unusable)
    known.set(k, { content: input.get(k) ?? null, outcome: "rejected", expired: false, isMarked: false });
  for (const [k] of reused) {
    const row = fresh.get(input.get(k) ?? "");
    if (row) known.set(k, { ...row });
  }
  for (const k of sent.flatMap((keys) => keys.split(",")).map(Number)) {
    const content = input.get(k) ?? null;
    const reply = replyTo(content);
    const outcome = reply === null ? "unmatched" : "code" in reply ? "rejected" : "matched";
    known.set(k, { content, outcome, expired: false, isMarked: false });
  }
  return [...comparisons, ...(await compareStored(context, known))];
}

/** Stored states, answers, open rejects and history, next to those of the model. */
async function compareStored(
  context: Context,
  known: ReadonlyMap<number, KnownRow>,
): Promise<readonly Comparison[]> {
  const keyed = async (columns: string, rest: string, schema = "person_data") =>
    (await context.sql(`SELECT source_key, ${columns} AS value FROM ${schema}.${rest}`))
      .map((row) => `${row["source_key"]}: ${row["value"]}`)
      .toSorted();
  const rows = [...known];
  const answered = rows.filter(([, row]) => row.outcome !== "rejected");
  const pids = answered.map(
    ([k, row]) => `${k}: ${row.outcome === "matched" ? `p-${row.content?.at(-1)}` : null}`,
  );
  const isAnswered = `source_key IN (${["''", ...answered.map(([k]) => `'${k}'`)].join(", ")})`;
  return [
    [
      await keyed("outcome", "lookup_state", "person_data_state"),
      rows.map(([k, row]) => `${k}: ${row.outcome}`).toSorted(),
    ],
    [await keyed("service_pid", `enrichment WHERE ${isAnswered}`), pids.toSorted()],
    [await keyed("service_pid", `match_history WHERE valid_to IS NULL AND ${isAnswered}`), pids.toSorted()],
    [
      await keyed("1", "reject WHERE resolved_at IS NULL"),
      rows
        .filter(([, row]) => row.outcome === "rejected")
        .map(([k]) => `${k}: 1`)
        .toSorted(),
    ],
    [
      await context.sql(`SELECT a.source_key FROM person_data.match_history AS a
        JOIN person_data.match_history AS b ON a.job = b.job AND a.source_key = b.source_key AND a.valid_from < b.valid_from
        WHERE a.valid_to IS NULL OR a.valid_to > b.valid_from`),
      [],
    ],
    [await context.sql("SELECT * FROM person_data.match_history WHERE valid_to <= valid_from"), []],
  ];
}

/** Tests random inputs and nights against a plain model; `runs` is even. */
export function describeHistories(getContext: GetContext, runs = 20): void {
  describe("any history of nights", () => {
    test("sends and keeps the same records as a plain model", async () => {
      const context = getContext();
      const spec = enrichSpec({
        input: { ...people, fields: { first_name: ["first_name"] } },
        refreshAfterMs: 1000 * DAY_MS,
      });
      await fc.assert(
        fc.asyncProperty(fc.array(night, { minLength: 2, maxLength: 6 }), async (nights) => {
          await clear(context);
          await context.sql("CREATE TABLE crm.people (id text, first_name text)");
          const state = { input: new Map<number, Content>(), known: new Map<number, KnownRow>() };
          for (const [i, plan] of nights.entries()) {
            for (const [found, expected] of await playNight(context, spec, state, plan, i)) {
              expect(found).toEqual(expected);
            }
          }
        }),
        { numRuns: runs },
      );
    }, 180_000);

    test("resolve: rows that it can't use never reach the service", async () => {
      const context = getContext();
      const spec = resolveSpec();
      const value = fc.constantFrom(null, "", " ", "x");
      const row = fc.record({ first: value, last: value, email: value, phone: value });
      await fc.assert(
        fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 8 }), async (rows) => {
          await clear(context);
          await context.sql(
            `CREATE TABLE crm.people (id text, first_name text, last_name text, email text, phone text)`,
          );
          for (const [i, r] of rows.entries()) {
            const cells = [String(i), r.first, r.last, r.email, r.phone];
            await context.sql("INSERT INTO crm.people VALUES ($1, $2, $3, $4, $5)", cells);
          }
          const usable = rows.filter((r) => has(r.first) && has(r.last) && (has(r.email) || has(r.phone)));
          const { counts } = await runNight(context, spec);
          expect(counts.rejectedBeforeSending).toBe(rows.length - usable.length);
          expect(counts.due).toBe(usable.length);
          expect(gist((await runNight(context, spec)).counts)).toEqual({
            read: rows.length,
            unchanged: rows.length,
          });
        }),
        { numRuns: runs / 2 },
      );
    });
  });
}
