import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { open } from "./bare-database.ts";
import { useContext } from "./postgres-context.ts";
import { callOf, holdShard, reservationOf, runOf } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { clear, untilWaiting, valueOf } from "./suite/context.ts";
import * as fc from "../support/fast-check.ts";
import type { SendingLimits } from "../../src/load/ledger/reserve.ts";
import type { Attempt } from "../../src/schemas/ledger.ts";

const context = useContext();

const spec = enrichSpec();

/** Reserved records of each counter. */
async function usedOf(): Promise<Readonly<Record<string, string | null>>> {
  const rows = await context.sql(`SELECT budget || ' ' || period AS name, sum(records_reserved) AS records
    FROM person_data_state.budget_use GROUP BY 1 ORDER BY 1`);
  return Object.fromEntries(rows.map((row) => [row["name"], row["records"] ?? null]));
}

/** The same number of records in each counter of a run. */
const allUsed = (records: number) => ({
  "enrich day": String(records),
  "enrich month": String(records),
  "enrich_people run": String(records),
});

/** Possible outcomes of a call. */
const outcomes = {
  answered: { httpStatus: 200, recordsMatched: 1 },
  ambiguous: { httpStatus: 502, recordsMatched: null, possiblyBilled: true },
  refused: { httpStatus: 429, recordsMatched: null },
} satisfies Record<string, Partial<Attempt>>;
type Outcome = keyof typeof outcomes;

describe("a budget that several processes share", () => {
  test("holds no counter while it waits for one that another process creates", async () => {
    const run = runOf(spec, "run-1");
    await context.warehouse.reserveCall(runOf(spec, "run-0"), reservationOf(1));
    await context.client.query(`BEGIN; INSERT INTO person_data_state.budget_use
      (budget, period, period_key, records_reserved, _synced_at, _run_id)
      VALUES ('${run.job}', 'run', 'run-1', 0, now(), 'run-1')`);
    const pending = context.warehouse.reserveCall(run, reservationOf(10));
    await untilWaiting(context);
    // Otherwise each would wait for the other.
    await context.client.query(
      "SELECT FROM person_data_state.budget_use WHERE period = 'day' FOR UPDATE NOWAIT; COMMIT",
    );
    expect(await pending).toEqual({ granted: 10, limitedBy: null });
    expect(await usedOf()).toMatchObject({ "enrich day": "11" });
  });

  test("counts a call that is reserved repeatedly once", async () => {
    const run = runOf(spec, "run-1");
    const call = reservationOf(10, { perDay: 15 });
    await context.warehouse.reserveCall(run, call);
    await expect(open(context.url).reserveCall(run, call)).resolves.toMatchObject({
      granted: 10,
      limitedBy: null,
    });
    expect(await usedOf()).toMatchObject({ "enrich day": "10" });
  });
});

const reserve = (records: number, limits: Partial<SendingLimits>, owner = runOf(spec, "run-1")) =>
  context.warehouse.reserveCall(owner, reservationOf(records, limits));

const reserveFor = async (index: number, count: number, records: number, perShard: number) => {
  const shard = runOf({ ...spec, shard: { index, count } }, "run-1");
  await holdShard(context.warehouse, shard);
  const held = runOf({ ...spec, shard: { index, count } }, "run-1");
  return reserve(records, { perRun: 20, perShard }, held);
};

describe("a reservation", () => {
  test("writes the call into the ledger as pending, before it is made", async () => {
    const call = reservationOf(40, {}, { attempt: 2 });
    await context.warehouse.reserveCall(runOf(spec, "run-1"), call);
    const ledger = `SELECT call_id, attempt, http_status, records_sent, possibly_billed, settled_at, records_reserved
      FROM person_data_ops.api_call`;
    expect(await context.sql(ledger)).toEqual([
      {
        call_id: call.callId,
        attempt: "2",
        http_status: null,
        records_sent: "40",
        possibly_billed: "true",
        settled_at: null,
        records_reserved: "40",
      },
    ]);
    expect(await usedOf()).toEqual(allUsed(40));
  });

  test("gets what is left of the tightest limit, then nothing, with the limit's name", async () => {
    const limits = { perDay: 100, perMonth: 250, perRun: 70 };
    const next = runOf(spec, "run-2");
    expect(await reserve(50, limits)).toEqual({ granted: 50, limitedBy: null });
    expect(await reserve(50, limits)).toEqual({ granted: 20, limitedBy: null });
    expect(await reserve(50, limits)).toEqual({ granted: 0, limitedBy: "run" });
    expect(await reserve(50, limits, next)).toEqual({ granted: 30, limitedBy: null });
    expect(await reserve(1, limits, next)).toEqual({ granted: 0, limitedBy: "day" });
    expect(await reserve(500, { perMonth: 250 }, next)).toEqual({ granted: 150, limitedBy: null });
    expect(await reserve(1, { perMonth: 250 }, next)).toEqual({ granted: 0, limitedBy: "month" });
    expect(await reserve(1, { perDay: 5 }, next)).toEqual({ granted: 0, limitedBy: "day" });
    expect(await usedOf()).toEqual(allUsed(250));
  });

  test("of a shard is bounded by its part, and with what shards of any division have by the whole cap", async () => {
    expect(await reserveFor(0, 2, 50, 10)).toEqual({ granted: 10, limitedBy: null });
    expect(await reserveFor(0, 2, 1, 10)).toEqual({ granted: 0, limitedBy: "shard" });
    expect(await reserveFor(0, 3, 50, 7)).toEqual({ granted: 7, limitedBy: null });
    expect(await reserveFor(1, 2, 50, 10)).toEqual({ granted: 3, limitedBy: null });
    expect(await reserveFor(1, 2, 1, 10)).toEqual({ granted: 0, limitedBy: "run" });
    expect(await reserveFor(0, 1, 1, 20)).toEqual({ granted: 0, limitedBy: "run" });
    expect(await usedOf()).toEqual({ ...allUsed(20), "enrich_people shard": "20" });
  });

  test.each([
    ["an answer", { httpStatus: 200, recordsMatched: 3 }, 10, 0],
    ["a timeout", { httpStatus: null, recordsMatched: null, possiblyBilled: true }, 10, 10],
    ["a 429", { httpStatus: 429, recordsMatched: null }, 0, 0],
    ["no connection", { httpStatus: null, recordsMatched: null, recordsSent: 0 }, 0, 0],
  ])(
    "that ends in %s keeps what may have been charged, and releases the rest, once",
    async (_, outcome, used, inDoubt) => {
      const run = runOf(spec, "run-1");
      const call = reservationOf(10);
      await context.warehouse.reserveCall(run, call);
      const entry = callOf({ callId: call.callId, recordsSent: 10, ...outcome });
      // Settled twice, as after a COMMIT with a lost reply.
      for (let i = 0; i < 2; i++) await context.warehouse.recordAttempts(run, [entry], {});
      expect(await usedOf()).toEqual(allUsed(used));
      const ledger = `SELECT records_in_doubt - records_possibly_billed_twice AS in_doubt, records_reserved, settled_at IS NOT NULL AS is_settled
      FROM person_data_ops.api_call`;
      expect(await context.sql(ledger)).toEqual([
        { in_doubt: String(inDoubt), records_reserved: String(used), is_settled: "true" },
      ]);
    },
  );

  test("is released to its original day", async () => {
    const run = runOf(spec, "run-1");
    const call = reservationOf(1);
    await context.warehouse.reserveCall(run, call);
    await context.sql(`UPDATE person_data_ops.api_call SET reserved_at = '2025-01-31 23:59:59.999999+00';
      UPDATE person_data_state.budget_use SET period_key = CASE period WHEN 'day' THEN '2025-01-31' ELSE '2025-01' END
      WHERE period <> 'run'`);
    await reserve(4, {});
    const refusal = callOf({ callId: call.callId, httpStatus: 503, recordsMatched: null });
    await context.warehouse.recordAttempts(run, [refusal], {});
    const old =
      "SELECT sum(records_reserved) FROM person_data_state.budget_use WHERE period_key LIKE '2025%'";
    expect(await valueOf(context, old)).toBe("0");
    expect(await usedOf()).toEqual(allUsed(4));
  });
});

describe("a budget in money", () => {
  /** Ten records included in the month, further ones at 1. */
  const price = {
    tiers: [
      { from: 0, amount: "0" },
      { from: 10, amount: "1" },
    ],
    per: "match",
    currency: "USD",
  } as const;
  const limits = (month: string) => ({ money: { price, day: null, month } });

  test("is granted to the record to processes that reserve at once, with the prices in the ledger", async () => {
    const machines = [context.warehouse, open(context.url), open(context.url)];
    const grants = await Promise.all(
      [...machines, ...machines].map((machine) =>
        machine.reserveCall(runOf(spec, "run-1"), reservationOf(5, limits("7"), { price })),
      ),
    );
    expect(grants.reduce((sum, { granted }) => sum + granted, 0)).toBe(17);
    expect(grants.filter(({ limitedBy }) => limitedBy === "month")).toHaveLength(2);
    expect(
      await context.sql(`SELECT records_from, records_to, amount, (SELECT count(*) FROM person_data_ops.api_call AS c
        WHERE c.price_tiers = t.price_tiers AND price IS NULL AND billed_per = 'match') AS calls
        FROM person_data_ops.price_tier AS t ORDER BY 1`),
    ).toEqual([
      { records_from: "0", records_to: "10", amount: "0", calls: "4" },
      { records_from: "10", records_to: null, amount: "1", calls: "4" },
    ]);
  });

  test("gets back what answers show not to be billed, and nothing that is in doubt", async () => {
    const run = runOf(spec, "run-1");
    const settle = async (records: number, outcome: Partial<Attempt>) => {
      const call = reservationOf(records, limits("10"), { price });
      const { granted } = await context.warehouse.reserveCall(run, call);
      const entry = callOf({ callId: call.callId, recordsSent: granted, ...outcome });
      await context.warehouse.recordAttempts(run, [entry], {});
      return granted;
    };
    expect(await settle(12, { recordsMatched: 3 })).toBe(12);
    expect(await settle(30, { httpStatus: 502, recordsMatched: null, possiblyBilled: true })).toBe(17);
    expect(await settle(1, {})).toBe(0);
  });
});

/** A concurrent disturbance by one of three machines: a reservation, or the outcome of one of the open calls. */
const step = fc.oneof(
  fc.record({ by: fc.nat(2), records: fc.integer({ min: 1, max: 40 }) }),
  fc.record({
    by: fc.nat(2),
    which: fc.nat(),
    outcome: fc.constantFrom<Outcome>("answered", "ambiguous", "refused"),
  }),
);
const rounds = fc.array(fc.array(step, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 });

test("under any interleaving a budget counts what was granted and not released, and grants all that fits", async () => {
  const machines = Array.from({ length: 3 }, () => open(context.url));
  const property = fc.asyncProperty(rounds, fc.integer({ min: 0, max: 150 }), async (rounds, perDay) => {
    await clear(context);
    const run = runOf(spec, randomUUID());
    await context.warehouse.beginRun(run);
    /** Granted records of calls that are not settled, by ID. */
    const inFlight = new Map<string, number>();
    let used = 0;
    for (const round of rounds) {
      let [asked, got, released] = [0, 0, 0];
      const work = round.map(async (happening) => {
        const machine = machines[happening.by];
        if ("records" in happening) {
          const call = reservationOf(happening.records, { perDay });
          asked += happening.records;
          const { granted = 0 } = (await machine?.reserveCall(run, call)) ?? {};
          got += granted;
          if (granted > 0) inFlight.set(call.callId, granted);
          return;
        }
        const [callId, granted] = [...inFlight][happening.which % Math.max(1, inFlight.size)] ?? [];
        if (callId === undefined || granted === undefined) return;
        inFlight.delete(callId);
        if (happening.outcome === "refused") released += granted;
        const entry = callOf({ callId, recordsSent: granted, ...outcomes[happening.outcome] });
        // Settled by any process, as a later one does with an answer from disk.
        await machine?.recordAttempts(run, [entry], {});
      });
      await Promise.all(work);
      const left = perDay - used;
      used += got - released;
      expect(used).toBeLessThanOrEqual(perDay);
      expect(got).toBeLessThanOrEqual(asked);
      // No reservation is refused while records are available.
      expect(got).toBeGreaterThanOrEqual(Math.min(asked, left));
      expect(Number((await usedOf())["enrich day"] ?? 0)).toBe(used);
      const ledger = "SELECT sum(records_reserved) FROM person_data_ops.api_call";
      expect(Number((await valueOf(context, ledger)) ?? 0)).toBe(used);
    }
  });
  await fc.assert(property, { numRuns: 12 });
});
