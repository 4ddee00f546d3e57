import { describe, expect, test } from "vitest";
import { type Cap, limitsOf, tightestCap, type Used, usedOf } from "../../../src/jobs/lookup/lookup-spec.ts";
import { type Shard, wholeInput } from "../../../src/jobs/services.ts";
import { enrichJob } from "../support.ts";

const none = { perDay: null, perMonth: null };

interface Given {
  readonly perDay?: number;
  readonly perMonth?: number;
  readonly perRun?: number;
  readonly command?: number;
  readonly shard?: Shard;
}

/** Tightest limit of an enrich job at a given use. */
function capOf(given: Given, used: Partial<Used> = {}) {
  const { perDay = null, perMonth = null, perRun = null, command = null, shard = wholeInput } = given;
  const budgets = { resolve: none, validate_emails: none, enrich: { perDay, perMonth } };
  const limits = limitsOf({ budgets }, { ...enrichJob, maxRecordsPerRun: perRun }, command, shard);
  return tightestCap(limits, { day: 0, month: 0, run: 0, shard: 0, ...used });
}

const cap = (records: number, limitedBy: Cap["limitedBy"]): Cap => ({ records, limitedBy });

describe("the tightest limit", () => {
  test("is none where none is set", () => {
    expect(capOf({})).toBeNull();
  });

  test("of the two caps of a run is the smaller one, the command's where they are equal", () => {
    expect(capOf({ command: 5 })).toEqual(cap(5, "max_records"));
    expect(capOf({ perRun: 7 })).toEqual(cap(7, "max_records_per_run"));
    expect(capOf({ command: 5, perRun: 7 })).toEqual(cap(5, "max_records"));
    expect(capOf({ command: 9, perRun: 7 })).toEqual(cap(7, "max_records_per_run"));
    expect(capOf({ command: 7, perRun: 7 })).toEqual(cap(7, "max_records"));
    expect(capOf({ command: 0, perRun: 7 })).toEqual(cap(0, "max_records"));
  });

  test("is the one that leaves least, not the one that is smallest", () => {
    const given = { perDay: 100, perMonth: 1000, perRun: 80 };
    expect(capOf(given)).toEqual(cap(80, "max_records_per_run"));
    expect(capOf(given, { day: 30, month: 30 })).toEqual(cap(70, "budget_day"));
    expect(capOf(given, { day: 30, month: 960 })).toEqual(cap(40, "budget_month"));
    expect(capOf(given, { day: 30, month: 960, run: 50 })).toEqual(cap(30, "max_records_per_run"));
  });

  test("is the longest lasting of several that leave the same", () => {
    expect(capOf({ perDay: 10, perMonth: 10, perRun: 10 })).toEqual(cap(10, "budget_month"));
    expect(capOf({ perDay: 10, perRun: 10 })).toEqual(cap(10, "budget_day"));
  });

  test("of a shard is its part of a cap, or what other divisions leave of the whole", () => {
    const shares = [0, 1, 2, 3].map((index) => capOf({ perRun: 10, shard: { index, count: 4 } })?.records);
    expect(shares).toEqual([3, 3, 2, 2]);
    const first = { index: 0, count: 4 };
    expect(capOf({ command: 10, perRun: 11, shard: first })).toEqual(cap(3, "max_records"));
    expect(capOf({ perRun: 10, shard: first }, { run: 4, shard: 1 })).toEqual(cap(2, "max_records_per_run"));
    expect(capOf({ perRun: 10, shard: first }, { run: 9, shard: 0 })).toEqual(cap(1, "max_records_per_run"));
  });

  test("that was lowered below what is used leaves nothing", () => {
    expect(capOf({ perDay: 10 }, { day: 12 })).toEqual(cap(0, "budget_day"));
  });
});

test("use is counted by type, and zero where nothing was sent", () => {
  const uses = [
    { budget: "resolve", period: "day", periodKey: "2026-11-21", records: 1 },
    { budget: "enrich", period: "day", periodKey: "2026-11-21", records: 2 },
    { budget: "enrich", period: "month", periodKey: "2026-11", records: 3 },
  ] as const;
  expect(usedOf(uses, "enrich", { run: 4, shard: 1 })).toEqual({ day: 2, month: 3, run: 4, shard: 1 });
  expect(usedOf(uses, "resolve", { run: 0, shard: 0 })).toEqual({ day: 1, month: 0, run: 0, shard: 0 });
});
