import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { recordCounters } from "../../../src/jobs/lookup/run-counters.ts";
import { unaccountedRows } from "../../../src/jobs/run-report.ts";
import { recordsOf } from "../../support/keyed-records.ts";
import * as fc from "../../support/fast-check.ts";
import { begin, commitOf, type Reply, seizeShard } from "./nights.ts";
import { enrichSpec, makePeople, validateSpec } from "./people.ts";
import { clear, type GetContext } from "./context.ts";

/** Outcome of a record. */
type Fate = "matched" | "unmatched" | "rejected" | "unanswered" | "not_sent";
const fates = fc.constantFrom<Fate>("matched", "unmatched", "rejected", "unanswered", "not_sent");

const replyOf: Readonly<Record<Fate, Reply | null | undefined>> = {
  matched: { pid: "p-1" },
  unmatched: null,
  rejected: { code: "unprocessable_entity" },
  unanswered: undefined,
  not_sent: undefined,
};

/** Tests of counters taken from the tables. */
export function describeOutcomes(getContext: GetContext): void {
  describe("the outcomes of a run", () => {
    test("account for every row read, with any outcome", async () => {
      const context = getContext();
      const { warehouse } = context;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.record({ rows: fc.integer({ min: 1, max: 3 }), fate: fates }), { maxLength: 8 }),
          fc.option(fc.nat({ max: 8 }), { nil: null }),
          async (records, maxRecords) => {
            await clear(context);
            await makePeople(
              context,
              records.flatMap(({ rows }, n) =>
                Array.from({ length: rows }, (_, i) => ({ id: `${n}-${i}`, first_name: `Name ${n}` })),
              ),
            );
            const spec = enrichSpec({ maxRecords });
            const run = await begin(warehouse, spec, randomUUID());
            const selection = await warehouse.selectLookup(spec, run);
            const selected = (await recordsOf(warehouse.db, selection)).flatMap((record) => {
              const given = records[Number(record.rows[0]?.sourceKey.split("-")[0])];
              return given ? [{ record, ...given }] : [];
            });
            const withFate = (...chosen: Fate[]) => selected.filter(({ fate }) => chosen.includes(fate));
            const rowsOf = (...chosen: Fate[]) =>
              withFate(...chosen).reduce((sum, { rows }) => sum + rows, 0);
            const answered = withFate("matched", "unmatched", "rejected");
            const replies = answered.map(({ record, fate }) => [record, replyOf[fate] ?? null] as const);
            if (replies.length > 0) {
              const commit = commitOf(warehouse, spec, run, replies);
              await warehouse.commitLookup({ ...commit, workTable: selection.workTable });
            }
            await selection.markSent(withFate("unanswered").map(({ record }) => record.recordId));

            const counted = await selection.count();
            await selection.close();
            expect(counted).toEqual({
              sent: selected.length - withFate("not_sent").length,
              matched: withFate("matched").length,
              rejected: withFate("rejected").length,
              open: withFate("unanswered", "not_sent").length,
              duplicate: rowsOf("matched", "unmatched", "rejected") - answered.length,
              suppressed: 0,
              remaining: rowsOf("unanswered", "not_sent") - withFate("unanswered").length,
              moves: expect.any(Array),
            });
            expect(
              Object.fromEntries(
                counted.moves.map(({ prior, outcome, rows }) => [`${prior} ${outcome}`, rows]),
              ),
            ).toEqual(
              Object.fromEntries(
                (["matched", "unmatched", "rejected"] as const).flatMap((fate) =>
                  rowsOf(fate) === 0 ? [] : [[`null ${fate}`, rowsOf(fate)]],
                ),
              ),
            );
            expect(unaccountedRows(recordCounters(selection.counts, counted))).toBe(0);
          },
        ),
        { numRuns: 15 },
      );
    });

    test("count every occurrence of an address", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, [
        { id: "1", email: "a@x.example" },
        { id: "2", email: "a@x.example" },
        { id: "3", email: "b@x.example" },
      ]);
      const spec = validateSpec();
      const run = await begin(warehouse, spec, randomUUID());
      const selection = await warehouse.selectLookup(spec, run);
      const [first] = await recordsOf(warehouse.db, selection);
      if (!first) throw new Error("nothing was selected");
      const commit = commitOf(warehouse, spec, run, [[first, null]]);
      await warehouse.commitLookup({ ...commit, workTable: selection.workTable });
      const counted = await selection.count();
      await selection.close();
      expect(counted.sent).toBe(1);
      expect(counted.duplicate + counted.remaining).toBe(2);
      expect(unaccountedRows(recordCounters(selection.counts, counted))).toBe(0);
    });

    test("of a run that never ended are counted by the next one", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(
        context,
        ["1", "2", "3"].map((id) => ({ id, first_name: id === "2" ? "Ann 1" : `Ann ${id}` })),
      );
      const spec = enrichSpec();
      const crashed = await begin(warehouse, spec, "crashed");
      const selection = await warehouse.selectLookup(spec, crashed);
      await warehouse.recordFound(crashed, { records_due: 3, records_read: 3 });
      const records = await recordsOf(warehouse.db, selection);
      const equal = records.filter(({ rows }) => rows.length === 2);
      const replies = equal.map((record) => [record, { pid: "p-1" }] as const);
      const commit = commitOf(warehouse, spec, crashed, replies);
      await warehouse.commitLookup({ ...commit, workTable: selection.workTable });

      await seizeShard(warehouse, { ...crashed, runId: "next" });
      const next = await begin(warehouse, spec, "next");
      await (await warehouse.selectLookup(spec, next)).close();
      expect(
        await context.sql(`SELECT status, records_read, records_sent, records_matched, records_duplicate, records_remaining
          FROM person_data_ops.sync_run WHERE run_id = 'crashed'`),
      ).toEqual([
        {
          status: "failed",
          records_read: "3",
          records_sent: "1",
          records_matched: "1",
          records_duplicate: "1",
          records_remaining: "1",
        },
      ]);
    });
  });
}
