import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { callOf, commitOf, holdShard, runOf } from "./nights.ts";
import { looseRecord, readRows } from "./person-updates.ts";
import { enrichSpec, resolveSpec } from "./people.ts";
import { type GetContext, type Context, valueOf } from "./context.ts";
import type { SendingLimits } from "../../../src/load/ledger/budget-rows.ts";
import type { CallGrant, CallReservation } from "../../../src/load/ledger/reserve-call.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";

const spec = enrichSpec();
const run = runOf(spec, "run-1");

/** Records of unanswered calls that were not sent again. */
export const IN_DOUBT =
  "SELECT sum(records_in_doubt - records_possibly_billed_twice) FROM person_data_ops.api_call";

const noLimits: SendingLimits = { perDay: null, perMonth: null, perRun: null, perShard: null };

/** A call with this number of records and these limits. */
export function reservationOf(
  records: number,
  limits: Partial<SendingLimits> = {},
  changes: Partial<CallReservation> = {},
): CallReservation {
  return {
    callId: randomUUID(),
    endpoint: "POST /v2/enrich",
    attempt: 1,
    startedAt: "2026-11-21T04:00:00.000Z",
    records,
    limits: { ...noLimits, ...limits },
    ...changes,
  };
}

/** Reserved records of each counter. */
export async function usedOf(context: Context): Promise<Readonly<Record<string, string | null>>> {
  const rows = await context.sql(`SELECT budget || ' ' || period AS name, sum(records_reserved) AS records
    FROM person_data_state.budget_use GROUP BY 1 ORDER BY 1`);
  return Object.fromEntries(rows.map((row) => [row["name"], row["records"] ?? null]));
}

/** Reserves records and returns the granted number. */
async function grantOf(
  { warehouse }: Context,
  records: number,
  limits: Partial<SendingLimits>,
  owner: RunRef = run,
): Promise<CallGrant> {
  return warehouse.reserveCall(owner, reservationOf(records, limits));
}

/** Tests of reservations and their release. */
export function describeBudgets(getContext: GetContext): void {
  describe("a reservation", () => {
    test("writes the call into the ledger as pending, and counts its records", async () => {
      const context = getContext();
      const call = reservationOf(40, {}, { attempt: 2 });
      expect(await context.warehouse.reserveCall(run, call)).toEqual({ granted: 40, limitedBy: null });
      expect(
        await context.sql(`SELECT call_id, run_id, job, endpoint, started_at, attempt, http_status, records_sent,
          records_matched, possibly_billed, settled_at, budget, records_reserved, reserved_at IS NOT NULL AS is_reserved
          FROM person_data_ops.api_call`),
      ).toEqual([
        {
          call_id: call.callId,
          run_id: "run-1",
          job: "enrich_people",
          endpoint: "POST /v2/enrich",
          started_at: "2026-11-21 04:00:00+00",
          attempt: "2",
          http_status: null,
          records_sent: "40",
          records_matched: null,
          possibly_billed: "true",
          settled_at: null,
          budget: "enrich",
          records_reserved: "40",
          is_reserved: "true",
        },
      ]);
      expect(await usedOf(context)).toEqual({
        "enrich day": "40",
        "enrich month": "40",
        "enrich_people run": "40",
      });
    });

    test("gets what is left of the tightest limit, then nothing, with the limit's name", async () => {
      const context = getContext();
      const limits = { perDay: 100, perMonth: 250, perRun: 70 };
      expect(await grantOf(context, 50, limits)).toEqual({ granted: 50, limitedBy: null });
      expect(await grantOf(context, 50, limits)).toEqual({ granted: 20, limitedBy: null });
      expect(await grantOf(context, 50, limits)).toEqual({ granted: 0, limitedBy: "run" });
      const next = runOf(spec, "run-2");
      expect(await grantOf(context, 50, limits, next)).toEqual({ granted: 30, limitedBy: null });
      expect(await grantOf(context, 1, limits, next)).toEqual({ granted: 0, limitedBy: "day" });
      expect(await grantOf(context, 500, { perMonth: 250 }, next)).toEqual({ granted: 150, limitedBy: null });
      expect(await grantOf(context, 1, { perMonth: 250 }, next)).toEqual({ granted: 0, limitedBy: "month" });
      expect(await usedOf(context)).toEqual({
        "enrich day": "250",
        "enrich month": "250",
        "enrich_people run": "250",
      });
      expect(await valueOf(context, "SELECT count(*) FROM person_data_ops.api_call")).toBe("4");
    });

    test("of a limit of zero gets nothing, and one beyond a lowered limit releases nothing", async () => {
      const context = getContext();
      expect(await grantOf(context, 10, { perDay: 0 })).toEqual({ granted: 0, limitedBy: "day" });
      await grantOf(context, 10, {});
      expect(await grantOf(context, 1, { perDay: 5 })).toEqual({ granted: 0, limitedBy: "day" });
      expect(await usedOf(context)).toMatchObject({ "enrich day": "10" });
    });

    test("counts by type of job, and in a run by job and shard", async () => {
      const context = getContext();
      const { warehouse } = context;
      await grantOf(context, 10, {});
      await grantOf(context, 5, {}, runOf(resolveSpec(), "run-1"));
      await holdShard(warehouse, { ...run, shard: "1/4" });
      await grantOf(context, 3, {}, { ...run, shard: "1/4" });
      expect(
        await context.sql(`SELECT budget, period, records_reserved FROM person_data_state.budget_use
          WHERE period IN ('day', 'month') ORDER BY 1, 2`),
      ).toEqual([
        { budget: "enrich", period: "day", records_reserved: "13" },
        { budget: "enrich", period: "month", records_reserved: "13" },
        { budget: "resolve", period: "day", records_reserved: "5" },
        { budget: "resolve", period: "month", records_reserved: "5" },
      ]);
      expect(await warehouse.runUse(run)).toEqual({ run: 13, shard: 0 });
      expect(await warehouse.runUse({ ...run, shard: "1/4" })).toEqual({ run: 13, shard: 3 });
      expect(await warehouse.runUse({ ...run, shard: "1/3" })).toEqual({ run: 13, shard: 0 });
      expect(await warehouse.runUse(runOf(resolveSpec(), "run-1"))).toEqual({ run: 5, shard: 0 });
      expect(await warehouse.runUse(runOf(spec, "run-2"))).toEqual({ run: 0, shard: 0 });
    });

    test("of a shard is bounded by its part, and with what shards of any division have by the whole cap", async () => {
      const context = getContext();
      const grantTo = async (index: number, count: number, records: number, perShard: number) => {
        const part = { ...spec, shard: { index, count } };
        await holdShard(context.warehouse, runOf(part, "run-1"));
        const limits = { perRun: 20, perShard: perShard };
        return grantOf(context, records, limits, runOf(part, "run-1"));
      };
      expect(await grantTo(0, 2, 50, 10)).toEqual({ granted: 10, limitedBy: null });
      expect(await grantTo(0, 2, 1, 10)).toEqual({ granted: 0, limitedBy: "shard" });
      expect(await grantTo(0, 3, 50, 7)).toEqual({ granted: 7, limitedBy: null });
      expect(await grantTo(1, 2, 50, 10)).toEqual({ granted: 3, limitedBy: null });
      expect(await grantTo(1, 2, 1, 10)).toEqual({ granted: 0, limitedBy: "run" });
      expect(await grantTo(0, 1, 1, 20)).toEqual({ granted: 0, limitedBy: "run" });
      expect(await usedOf(context)).toEqual({
        "enrich day": "20",
        "enrich month": "20",
        "enrich_people run": "20",
        "enrich_people shard": "20",
      });
    });

    test("of a shard is released to its part and to the run", async () => {
      const context = getContext();
      const shard = { ...run, shard: "1/2" };
      await holdShard(context.warehouse, shard);
      const call = reservationOf(10, { perRun: 20, perShard: 10 });
      await context.warehouse.reserveCall(shard, call);
      const refusal = callOf({ callId: call.callId, httpStatus: 429, recordsMatched: null });
      await context.warehouse.recordAttempts(shard, [refusal], {});
      expect(await context.warehouse.runUse(shard)).toEqual({ run: 0, shard: 0 });
    });

    test("is reported with the day and month that it counts in, by the warehouse's clock and in UTC", async () => {
      const context = getContext();
      await grantOf(context, 7, {});
      const [now] = await context.sql(
        "SELECT to_char(now(), 'YYYY-MM-DD') AS day, to_char(now(), 'YYYY-MM') AS month",
      );
      expect(await context.warehouse.budgetUse()).toEqual([
        { budget: "enrich", period: "day", periodKey: now?.["day"], records: 7 },
        { budget: "enrich", period: "month", periodKey: now?.["month"], records: 7 },
      ]);
    });

    test("of another day or month doesn't count in this one", async () => {
      const context = getContext();
      await grantOf(context, 10, {});
      await context.sql(
        `UPDATE person_data_state.budget_use SET period_key = '2025-01-31' WHERE period = 'day'`,
      );
      expect(await grantOf(context, 10, { perDay: 10, perMonth: 20 })).toEqual({
        granted: 10,
        limitedBy: null,
      });
      await context.sql(
        `UPDATE person_data_state.budget_use SET period_key = '2025-01' WHERE period = 'month'`,
      );
      expect(await grantOf(context, 10, { perDay: 20, perMonth: 10 })).toEqual({
        granted: 10,
        limitedBy: null,
      });
    });
  });

  describe("the outcome of a call", () => {
    test.each([
      ["an answer", { httpStatus: 200, recordsMatched: 3 }, "10", "0"],
      ["an answer without a match", { httpStatus: 200, recordsMatched: 0 }, "10", "0"],
      ["a timeout", { httpStatus: null, recordsMatched: null, possiblyBilled: true }, "10", "10"],
      ["a 500", { httpStatus: 500, recordsMatched: null, possiblyBilled: true }, "10", "10"],
      ["a 429", { httpStatus: 429, recordsMatched: null }, "0", "0"],
      ["a 422", { httpStatus: 422, recordsMatched: null }, "0", "0"],
      ["no connection", { httpStatus: null, recordsMatched: null, recordsSent: 0 }, "0", "0"],
    ])("%s keeps what may have been charged, and releases what wasn't", async (_, outcome, used, inDoubt) => {
      const context = getContext();
      const { warehouse } = context;
      const call = reservationOf(10);
      await warehouse.reserveCall(run, call);
      expect(await valueOf(context, IN_DOUBT)).toBe("10");
      const entry = callOf({ callId: call.callId, recordsSent: 10, ...outcome });
      // Settled twice, as after a COMMIT with a lost reply.
      for (let i = 0; i < 2; i++) await warehouse.recordAttempts(run, [entry], { requests: 1 });
      expect(await usedOf(context)).toEqual({
        "enrich day": used,
        "enrich month": used,
        "enrich_people run": used,
      });
      expect(await valueOf(context, IN_DOUBT)).toBe(inDoubt);
      expect(
        await context.sql(`SELECT settled_at IS NOT NULL AS is_settled, possibly_billed, records_reserved
          FROM person_data_ops.api_call`),
      ).toEqual([
        { is_settled: "true", possibly_billed: String(entry.possiblyBilled), records_reserved: used },
      ]);
    });

    test("completes the call in the transaction of its rows, once", async () => {
      const context = getContext();
      const { warehouse } = context;
      const reserved = reservationOf(1);
      await warehouse.reserveCall(run, reserved);
      const call = callOf({ callId: reserved.callId });
      await readRows(context, spec, run, ["1"]);
      const commit = commitOf(warehouse, spec, run, [[looseRecord("1"), { pid: "p-1" }]], { call });
      expect((await warehouse.commitLookup(commit)).rowsWritten).toBeGreaterThan(0);
      expect(await warehouse.commitLookup(commit)).toMatchObject({ rowsWritten: 0, notLoadable: [] });
      expect(await usedOf(context)).toMatchObject({ "enrich day": "1" });
      expect(
        await context.sql(`SELECT http_status, possibly_billed, records_matched, settled_at IS NOT NULL AS is_settled
          FROM person_data_ops.api_call`),
      ).toEqual([{ http_status: "200", possibly_billed: "false", records_matched: "1", is_settled: "true" }]);
    });

    test("that is settled with others releases only its own", async () => {
      const context = getContext();
      const { warehouse } = context;
      const [answered, refused] = [reservationOf(1), reservationOf(100)];
      for (const call of [answered, refused]) await warehouse.reserveCall(run, call);
      const commit = commitOf(warehouse, spec, run, [[looseRecord("1"), null]], {
        call: callOf({ callId: answered.callId }),
      });
      const refusal = callOf({ callId: refused.callId, httpStatus: 429, recordsMatched: null });
      await warehouse.commitLookup({ ...commit, ledger: [...commit.ledger, refusal] });
      expect(await usedOf(context)).toMatchObject({ "enrich day": "1", "enrich month": "1" });
    });

    test("is released to its original day", async () => {
      const context = getContext();
      const call = reservationOf(1);
      await context.warehouse.reserveCall(run, call);
      await context.sql(`UPDATE person_data_ops.api_call SET reserved_at = '2025-01-31 23:59:59.999999+00';
        UPDATE person_data_state.budget_use SET period_key = CASE period WHEN 'day' THEN '2025-01-31' ELSE '2025-01' END
        WHERE period <> 'run'`);
      await grantOf(context, 4, {});
      await context.warehouse.recordAttempts(
        run,
        [callOf({ callId: call.callId, httpStatus: 503, recordsMatched: null })],
        {},
      );
      expect(
        await context.sql(
          `SELECT period, records_reserved FROM person_data_state.budget_use ORDER BY period_key LIMIT 2`,
        ),
      ).toEqual([
        { period: "month", records_reserved: "0" },
        { period: "day", records_reserved: "0" },
      ]);
      expect(await usedOf(context)).toEqual({
        "enrich day": "4",
        "enrich month": "4",
        "enrich_people run": "4",
      });
    });
  });
}
