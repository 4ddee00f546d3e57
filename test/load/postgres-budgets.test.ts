import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { openPostgresContext, type PostgresContext } from "./postgres-context.ts";
import { reservationOf, usedOf } from "./suite/budgets.ts";
import { callOf, runOf } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { clear, valueOf } from "./suite/context.ts";
import * as fc from "../support/fast-check.ts";
import type { Attempt } from "../../src/schemas/attempt.ts";
import type { RunRef } from "../../src/load/runs/run-ref.ts";

let context: PostgresContext;
beforeAll(async () => {
  context = await openPostgresContext();
});
beforeEach(() => clear(context));
afterAll(() => context.close());

const spec = enrichSpec();

function open(): Warehouse {
  return openWarehouse({ url: context.url });
}

/** A process on another machine, from the warehouse's point of view. */
function openAnother(): Warehouse {
  const warehouse = open();
  onTestFinished(() => warehouse.close());
  return warehouse;
}

/**
 * Makes the database refuse counters above this limit until the end of the test. By trigger: a CHECK constraint also
 * checks values computed from a row that another process has changed meanwhile, which Postgres then computes again.
 */
async function forbidAbove(records: number): Promise<void> {
  await context.sql(`CREATE FUNCTION person_data_state.refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'A counter is %', NEW.records_reserved; END $$`);
  await context.sql(`CREATE TRIGGER held AFTER INSERT OR UPDATE ON person_data_state.budget_use FOR EACH ROW
    WHEN (NEW.records_reserved NOT BETWEEN 0 AND ${records}) EXECUTE FUNCTION person_data_state.refuse()`);
  onTestFinished(async () => {
    await context.sql("DROP FUNCTION person_data_state.refuse CASCADE");
  });
}

const ledgerSum = () => valueOf(context, "SELECT sum(records_reserved) FROM person_data_ops.api_call");

/** Possible outcomes of a call. */
const outcomes = {
  answered: { httpStatus: 200, recordsMatched: 1 },
  ambiguous: { httpStatus: 502, recordsMatched: null, possiblyBilled: true },
  refused: { httpStatus: 429, recordsMatched: null },
} satisfies Record<string, Partial<Attempt>>;
type Outcome = keyof typeof outcomes;

describe("a budget that several processes share", () => {
  test("is used up to the last record and never exceeded, with concurrent reservations and releases", async () => {
    await forbidAbove(2500);
    const machines = Array.from({ length: 4 }, openAnother);
    const random = fc.sample(fc.tuple(fc.integer({ min: 1, max: 90 }), fc.nat(9)), {
      numRuns: 2000,
      seed: 4,
    });
    let next = 0;
    let granted = 0;
    let givenBack = 0;
    /** One call slot of a machine: reserves until nothing is left. */
    async function spend(warehouse: Warehouse, run: RunRef): Promise<void> {
      await warehouse.beginRun(run);
      for (;;) {
        const [records, fate] = random[next++ % random.length] ?? [1, 0];
        const call = reservationOf(records, { perDay: 2500 });
        const grant = await warehouse.reserveCall(run, call);
        if (grant.granted === 0) return;
        granted += grant.granted;
        // Nine in ten of the first calls cost nothing and later ones always cost, so that the test ends.
        if (next > 200 || fate === 0) continue;
        const entry = callOf({ callId: call.callId, recordsSent: grant.granted, ...outcomes.refused });
        await warehouse.recordAttempts(run, [entry], {});
        givenBack += grant.granted;
      }
    }
    await Promise.all(
      machines.flatMap((warehouse, machine) =>
        Array.from({ length: 4 }, () => spend(warehouse, runOf(spec, `machine ${machine}`))),
      ),
    );
    // A process refused while another held a reservation may have left records for later.
    await spend(context.warehouse, runOf(spec, "last"));
    expect(granted - givenBack).toBe(2500);
    expect(givenBack).toBeGreaterThan(4_000);
    expect(await usedOf(context)).toEqual({
      "enrich day": "2500",
      "enrich month": "2500",
      "enrich_people run": "2500",
    });
    expect(await ledgerSum()).toBe("2500");
  });

  test("keeps the reservation of a process that died before it settled", async () => {
    await forbidAbove(100);
    const run = runOf(spec, "crashed");
    const dying = open();
    expect(await dying.reserveCall(run, reservationOf(60, { perRun: 100 }))).toMatchObject({ granted: 60 });
    await dying.close();
    const heir = openAnother();
    expect(await heir.runUse(run)).toEqual({ run: 60, shard: 0 });
    expect(await heir.reserveCall(run, reservationOf(60, { perRun: 100 }))).toMatchObject({ granted: 40 });
    expect(await heir.reserveCall(run, reservationOf(60, { perRun: 100 }))).toEqual({
      granted: 0,
      limitedBy: "run",
    });
    expect(
      await valueOf(
        context,
        "SELECT count(*) FROM person_data_ops.api_call WHERE settled_at IS NULL AND possibly_billed",
      ),
    ).toBe("2");
  });

  test("holds no counter while it waits for one that another process creates", async () => {
    const run = runOf(spec, "run-1");
    await context.warehouse.reserveCall(runOf(spec, "run-0"), reservationOf(1));
    await context.client.query(`BEGIN; INSERT INTO person_data_state.budget_use
      (budget, period, period_key, records_reserved, _synced_at, _run_id)
      VALUES ('${run.job}', 'run', 'run-1', 0, now(), 'run-1')`);
    const pending = context.warehouse.reserveCall(run, reservationOf(10));
    const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    while ((await valueOf(context, waiting)) === "0");
    // Otherwise each would wait for the other.
    await context.client.query(
      "SELECT FROM person_data_state.budget_use WHERE period = 'day' FOR UPDATE NOWAIT; COMMIT",
    );
    expect(await pending).toEqual({ granted: 10, limitedBy: null });
    expect(await usedOf(context)).toMatchObject({ "enrich day": "11" });
  });

  test("counts nothing for a transaction that ended before its COMMIT", async () => {
    const run = runOf(spec, "run-1");
    await context.warehouse.reserveCall(run, reservationOf(1));
    // Holds the row, so that the reservation waits; then terminates its backend once.
    await context.client.query("BEGIN; SELECT FROM person_data_state.budget_use FOR UPDATE");
    const pending = context.warehouse.reserveCall(run, reservationOf(10, { perDay: 11 }));
    let ended = "0";
    while (ended === "0") {
      ended =
        (await valueOf(
          context,
          `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
            AND pid <> pg_backend_pid() AND wait_event_type = 'Lock'`,
        )) ?? "0";
    }
    await context.client.query("COMMIT");
    // Retried on another connection, and counted once.
    expect(await pending).toEqual({ granted: 10, limitedBy: null });
    expect(await usedOf(context)).toMatchObject({ "enrich day": "11" });
    expect(await ledgerSum()).toBe("11");
  });

  test("counts a call that is reserved repeatedly once", async () => {
    const run = runOf(spec, "run-1");
    const call = reservationOf(10, { perDay: 15 });
    await context.warehouse.reserveCall(run, call);
    await expect(openAnother().reserveCall(run, call)).resolves.toEqual({ granted: 10, limitedBy: null });
    expect(await usedOf(context)).toMatchObject({ "enrich day": "10" });
  });
});

/** A concurrent disturbance. */
type Step =
  | { readonly kind: "reserve"; readonly by: number; readonly records: number }
  | { readonly kind: "settle"; readonly which: number; readonly by: number; readonly outcome: Outcome };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant("reserve" as const),
    by: fc.nat(2),
    records: fc.integer({ min: 1, max: 40 }),
  }),
  fc.record({
    kind: fc.constant("settle" as const),
    by: fc.nat(2),
    which: fc.nat(),
    outcome: fc.constantFrom<Outcome>("answered", "ambiguous", "refused"),
  }),
);

test("under any interleaving a budget counts what was granted and not released, and grants all that fits", async () => {
  const machines = Array.from({ length: 3 }, openAnother);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 0, max: 150 }),
      async (rounds, perDay) => {
        await clear(context);
        const runs = machines.map((_, i) => runOf(spec, `run-${i}-${randomUUID()}`));
        for (const [i, run] of runs.entries()) await machines[i]?.beginRun(run);
        /** Granted calls that are not settled, by id. */
        const open = new Map<string, { readonly by: number; readonly granted: number }>();
        let used = 0;
        for (const round of rounds) {
          const before = used;
          let asked = 0;
          let got = 0;
          let givenBack = 0;
          const settling = new Set<string>();
          await Promise.all(
            round.map(async (happening) => {
              const machine = machines[happening.by];
              const run = runs[happening.by];
              if (!machine || !run) return;
              if (happening.kind === "reserve") {
                const call = reservationOf(happening.records, { perDay });
                asked += happening.records;
                const { granted } = await machine.reserveCall(run, call);
                got += granted;
                if (granted > 0) open.set(call.callId, { by: happening.by, granted });
                return;
              }
              const ids = [...open.keys()].filter((id) => !settling.has(id));
              const callId = ids[happening.which % Math.max(1, ids.length)];
              const call = callId === undefined ? undefined : open.get(callId);
              if (callId === undefined || !call) return;
              settling.add(callId);
              const owner = runs[call.by];
              if (!owner) return;
              if (happening.outcome === "refused") givenBack += call.granted;
              const entry = callOf({ callId, recordsSent: call.granted, ...outcomes[happening.outcome] });
              // Settled by any process, as a later one does with an answer from disk.
              await machine.recordAttempts(owner, [entry], {});
              open.delete(callId);
            }),
          );
          used = before + got - givenBack;
          expect(used).toBeLessThanOrEqual(perDay);
          expect(got).toBeLessThanOrEqual(asked);
          // No reservation is refused while records are available.
          expect(got).toBeGreaterThanOrEqual(Math.min(asked, perDay - before));
          expect(
            Number(
              await valueOf(
                context,
                "SELECT coalesce(sum(records_reserved), 0) FROM person_data_state.budget_use WHERE period = 'day'",
              ),
            ),
          ).toBe(used);
          expect(Number((await ledgerSum()) ?? 0)).toBe(used);
        }
      },
    ),
    { numRuns: 25 },
  );
});
