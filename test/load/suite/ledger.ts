import { recordsOf } from "../../support/keyed-records.ts";
import { describe, expect, test } from "vitest";
import { callOf, commitOf, rejectOf, runOf } from "./nights.ts";
import { looseRecord, readRows } from "./person-updates.ts";
import { enrichSpec, makePeople, resolveSpec } from "./people.ts";
import { columnOf, type GetContext, type Context, valueOf } from "./context.ts";
import type { Attempt } from "../../../src/schemas/attempt.ts";
import { billedByJob } from "../../../src/load/ledger/costs.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";
import { IN_DOUBT, reservationOf, usedOf } from "./budgets.ts";

const spec = enrichSpec();
const run = runOf(spec, "run-1");

/** Starts a run that crashes after reserving calls of these sizes, in record order. */
async function crash(context: Context, sizes: readonly number[]): Promise<void> {
  const { warehouse } = context;
  const crashed = runOf(spec, "crashed");
  await warehouse.beginRun(crashed);
  const selection = await warehouse.selectLookup(spec, crashed);
  for (const size of sizes) await warehouse.reserveCall(crashed, reservationOf(size));
  await selection.close();
}

/** Tests of the call ledger. */
export function describeLedger(getContext: GetContext): void {
  test("every validated address and every match of a run was billed, and what unlocks were charged", async () => {
    const context = getContext();
    const { warehouse } = context;
    const jobs = { enrich: "enrich_people", validate_emails: "validate_people", unlock: "another" };
    const settle = async (budget: keyof typeof jobs, outcome: Partial<Attempt>) => {
      const call = reservationOf(10);
      await warehouse.reserveCall(run, call);
      await warehouse.recordAttempts(run, [callOf({ callId: call.callId, recordsSent: 10, ...outcome })], {});
      await context.sql("UPDATE person_data_ops.api_call SET budget = $2, job = $3 WHERE call_id = $1", [
        call.callId,
        budget,
        jobs[budget],
      ]);
    };
    const billed = async (runId: string) =>
      Object.fromEntries(billedByJob(await warehouse.billedInRun(runId)));
    for (const job of Object.values(jobs)) await warehouse.beginRun({ ...run, job });
    await settle("enrich", { recordsMatched: 7 });
    await settle("enrich", { recordsMatched: 1 });
    await settle("validate_emails", { recordsMatched: 7 });
    await settle("validate_emails", { httpStatus: 429, recordsMatched: null });
    await settle("unlock", { recordsMatched: 733 });
    expect(await billed(run.runId)).toEqual({ enrich_people: 8, validate_people: 10, another: 733 });
    expect(await billed("another")).toEqual({});

    // A job that is started again under the same run ID counts from its last start.
    await warehouse.beginRun(run);
    await settle("enrich", { recordsMatched: 3 });
    expect(await billed(run.runId)).toEqual({ enrich_people: 3, validate_people: 10, another: 733 });
  });

  describe("the last days of the ledger", () => {
    test("report what each job sent, and its outcome", async () => {
      const context = getContext();
      const { warehouse } = context;
      const other = runOf(resolveSpec(), "run-1");
      const settle = async (owner: RunRef, records: number, outcome: Partial<Attempt>) => {
        const call = reservationOf(records);
        await warehouse.reserveCall(owner, call);
        const entry = callOf({ callId: call.callId, recordsSent: records, ...outcome });
        await warehouse.recordAttempts(owner, [entry], {});
        return call.callId;
      };
      await settle(run, 10, { recordsMatched: 7 });
      await settle(run, 10, { httpStatus: 429, recordsMatched: null });
      await settle(run, 5, { httpStatus: 502, recordsMatched: null, possiblyBilled: true });
      await settle(run, 5, { recordsMatched: 4, possiblyBilledTwice: 5 });
      await warehouse.reserveCall(run, reservationOf(2));
      await readRows(context, spec, run, ["refused"]);
      await warehouse.commitLookup({
        ...commitOf(warehouse, spec, run, []),
        ledger: [],
        rejects: [rejectOf(looseRecord("refused"), "unprocessable_entity")],
      });
      const old = await settle(other, 3, { recordsMatched: 3 });
      await settle(other, 4, { recordsMatched: 1 });
      await context.sql(
        "UPDATE person_data_ops.api_call SET reserved_at = date_trunc('day', now()) - interval '1 second' WHERE call_id = $1",
        [old],
      );
      const [dates] = await context.sql(`SELECT to_char(now(), 'YYYY-MM-DD') AS today,
        to_char(now() - interval '1 day', 'YYYY-MM-DD') AS yesterday`);
      const zeros = { recordsRejected: 0, possiblyBilled: 0, possiblyBilledTwice: 0 };
      const today = [
        {
          day: dates?.["today"],
          job: "enrich_people",
          calls: 5,
          recordsSent: 22,
          recordsMatched: 11,
          recordsRejected: 1,
          possiblyBilled: 7,
          possiblyBilledTwice: 5,
        },
        {
          day: dates?.["today"],
          job: "resolve_people",
          calls: 1,
          recordsSent: 4,
          recordsMatched: 1,
          ...zeros,
        },
      ];
      expect(await warehouse.ledgerDays(2)).toEqual([
        ...today,
        {
          ...zeros,
          day: dates?.["yesterday"],
          job: "resolve_people",
          calls: 1,
          recordsSent: 3,
          recordsMatched: 3,
        },
      ]);
      expect(await warehouse.ledgerDays(1)).toEqual(today);
    });
  });

  describe("records of an unsettled call", () => {
    const people = ["1", "2", "3"].map((id) => ({ id, first_name: `Ann ${id}` }));

    test("count as possibly billed twice when as many records are sent again, once", async () => {
      const context = getContext();
      await makePeople(context, people);
      await crash(context, [2]);
      const { warehouse } = context;
      const next = runOf(spec, "next");
      await warehouse.beginRun(next);
      const selection = await warehouse.selectLookup(spec, next);
      const records = await recordsOf(warehouse.db, spec, selection);
      expect(records.map((record) => record.mayBeBilled ?? false)).toEqual([true, true, false]);
      const reserved = reservationOf(2);
      await warehouse.reserveCall(next, reserved);
      const call = callOf({ callId: reserved.callId, recordsSent: 2, possiblyBilledTwice: 1 });
      const replies = records.slice(1).map((record) => [record, null] as const);
      await warehouse.commitLookup(commitOf(warehouse, spec, next, replies, { call }));
      await selection.close();
      expect(await valueOf(context, IN_DOUBT)).toBe("1");
      expect(
        await columnOf(
          context,
          "SELECT records_possibly_billed_twice FROM person_data_ops.api_call ORDER BY 1",
        ),
      ).toEqual(["0", "1"]);
    });

    test("of several calls add up, and are settled by the records sent again", async () => {
      const context = getContext();
      await makePeople(context, people);
      await crash(context, [1, 1]);
      const { warehouse } = context;
      const selection = await warehouse.selectLookup(spec, run);
      const records = await recordsOf(warehouse.db, spec, selection);
      await selection.close();
      const call = callOf({ recordsSent: 3, possiblyBilledTwice: 2 });
      const replies = records.map((record) => [record, null] as const);
      await warehouse.commitLookup(commitOf(warehouse, spec, run, replies, { call }));
      expect(await valueOf(context, IN_DOUBT)).toBe("0");
      expect(await usedOf(context)).toMatchObject({ "enrich day": "2" });
    });
  });
}
