import { describe, expect, test } from "vitest";
import { countSettled, createTally, findLeak, type Settled } from "../../../src/jobs/lookup/tally.ts";
import type { KeyedRecord } from "../../support/keyed-records.ts";
import type { Outcome, RowMove } from "../../../src/load/lookup.ts";
import { countsOf, recordOf } from "../support.ts";
import * as fc from "../../support/fast-check.ts";

const outcomes = fc.constantFrom<Outcome | null>(null, "matched", "unmatched", "rejected");

/** What becomes of one record of a run. */
type Fate = "matched" | "unmatched" | "rejected" | "set_aside" | "open" | "not_sent";
const fates = fc.constantFrom<Fate>("matched", "unmatched", "rejected", "set_aside", "open", "not_sent");

interface Case {
  readonly records: {
    readonly priors: (Outcome | null)[];
    readonly fate: Fate;
    readonly isToldTwice: boolean;
  }[];
  readonly unchanged: number;
  readonly reused: number;
  readonly waiting: number;
  readonly rejectedBeforeSending: number;
  readonly remaining: number;
}

const few = fc.nat({ max: 20 });
const cases: fc.Arbitrary<Case> = fc.record({
  records: fc.array(
    fc.record({
      priors: fc.array(outcomes, { minLength: 1, maxLength: 4 }),
      fate: fates,
      isToldTwice: fc.boolean(),
    }),
    { maxLength: 30 },
  ),
  unchanged: few,
  reused: few,
  waiting: few,
  rejectedBeforeSending: few,
  remaining: few,
});

/** The rows behind records of a case, as a commit reports them. */
function movesOf({ answers, rejects }: Settled): readonly RowMove[] {
  const settled = [
    ...answers.map(({ record, outcome }) => ({ record, outcome })),
    ...rejects.map(({ record }) => ({ record, outcome: "rejected" as const })),
  ];
  return settled.flatMap(({ record, outcome }) =>
    // Records of a case are keyed.
    (record as KeyedRecord).rows.map((row) => ({
      prior: row.priorOutcome,
      outcome,
      rows: 1,
      occurrences: 1,
    })),
  );
}

/** Plays a run, and adds up the rows on its own. */
function play(given: Case) {
  const records = given.records.map(({ priors, fate, isToldTwice }, i) => ({
    record: recordOf(String(i), ...priors),
    fate,
    isToldTwice,
  }));
  const rowsToSend = records.reduce((sum, { record }) => sum + record.rows.length, 0);
  const read =
    given.unchanged +
    given.reused +
    given.waiting +
    given.rejectedBeforeSending +
    given.remaining +
    rowsToSend;
  const prior = (outcome: Outcome) =>
    records.flatMap(({ record }) => record.rows).filter((row) => row.priorOutcome === outcome).length;
  const counts = countsOf({
    ...given,
    read,
    due: rowsToSend + given.remaining + given.reused,
    duplicate: given.reused + rowsToSend - records.length,
    toSend: records.length,
    states: {
      rows: read,
      matched: prior("matched"),
      unmatched: prior("unmatched"),
      rejected: prior("rejected"),
      due: rowsToSend + given.remaining,
    },
  });
  const tally = createTally(counts);
  const of = (fate: Fate) => records.filter((r) => r.fate === fate);
  for (const { record, fate, isToldTwice } of records) {
    if (fate === "not_sent") continue;
    tally.send([record]);
    if (isToldTwice) tally.send([record]);
  }
  const settled: readonly Partial<Settled>[] = [
    { answers: of("matched").map(({ record }) => ({ record, outcome: "matched" })) },
    { answers: of("unmatched").map(({ record }) => ({ record, outcome: "unmatched" })) },
    { rejects: of("rejected") },
    { setAside: of("set_aside").map(({ record }) => record), setAsideBecause: "no answer" },
  ];
  const nothing: Settled = { answers: [], rejects: [], setAside: [], setAsideBecause: null };
  const deltas = settled
    .map((part) => ({ ...nothing, ...part }))
    .map((part) => {
      tally.settle(part);
      tally.move(movesOf(part));
      return countSettled(part);
    });
  const rowsOf = (...chosen: Fate[]) =>
    records
      .filter(({ fate }) => chosen.includes(fate))
      .reduce((sum, { record }) => sum + record.rows.length, 0);
  return { counts, tally, of, rowsOf, deltas };
}

describe("the law: every row read ends in exactly one way", () => {
  test("whatever becomes of the records", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const { counts, tally, of, rowsOf } = play(given);
        const counters = tally.counters();
        expect(findLeak(counters, counts)).toBe(null);
        const sent = counts.toSend - of("not_sent").length;
        expect(counters).toMatchObject({
          records_read: counts.read,
          records_sent: sent,
          records_matched: of("matched").length,
          records_rejected: given.rejectedBeforeSending + of("rejected").length,
          records_remaining:
            given.remaining +
            rowsOf("not_sent", "set_aside", "open") -
            of("set_aside").length -
            of("open").length,
          records_duplicate:
            given.reused +
            rowsOf("matched", "unmatched", "rejected") -
            (sent - of("set_aside").length - of("open").length),
        });
        expect(tally.open).toBe(of("open").length);
        expect(tally.unanswered?.records ?? 0).toBe(of("set_aside").length);
      }),
    );
  });

  test("the state of every row is counted once in the coverage", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const { counts, tally, rowsOf } = play(given);
        const coverage = tally.coverage("customers");
        const priors = given.records.flatMap(({ priors, fate }) => priors.map((prior) => ({ prior, fate })));
        const now = (outcome: Outcome) =>
          priors.filter(({ prior, fate }) =>
            ["set_aside", "open", "not_sent"].includes(fate) ? prior === outcome : fate === outcome,
          ).length;
        expect(coverage).toEqual({
          source: "customers",
          inputRows: counts.read,
          answered: now("matched") + now("unmatched"),
          matched: now("matched"),
          unmatched: now("unmatched"),
          rejected: now("rejected"),
          due: given.remaining + rowsOf("not_sent", "set_aside", "open"),
        });
      }),
    );
  });

  test("what goes to the books with each commit adds up to the counters", () => {
    fc.assert(
      fc.property(cases, (given) => {
        const { tally, deltas } = play(given);
        const sum = (name: keyof (typeof deltas)[number]) =>
          deltas.reduce((total, delta) => total + delta[name], 0);
        const counters = tally.counters();
        expect(sum("records_sent")).toBe(counters.records_sent - tally.open);
        expect(sum("records_matched")).toBe(counters.records_matched);
        expect(sum("records_rejected")).toBe(counters.records_rejected - given.rejectedBeforeSending);
      }),
    );
  });
});

describe("a leak is found", () => {
  const counts = countsOf({ read: 10, unchanged: 4, due: 6, duplicate: 1, toSend: 3, remaining: 2 });
  const tally = () => {
    const started = createTally(counts);
    started.send([recordOf("1", null, null), recordOf("2"), recordOf("3")]);
    return started;
  };

  test("but not where there is none", () => {
    expect(findLeak(tally().counters(), counts)).toBe(null);
  });
  test("when more records are sent than were selected", () => {
    const leaking = tally();
    leaking.send([recordOf("4")]);
    expect(findLeak(leaking.counters(), counts)).toBe(
      "4 of 3 records were sent and 2 rows remain, 2 of them beyond the cap",
    );
  });
  test("when a record stands for more rows than were selected", () => {
    const leaking = tally();
    leaking.settle(answered(recordOf("1")));
    leaking.move([{ prior: null, outcome: "matched", rows: 3, occurrences: 3 }]);
    expect(findLeak(leaking.counters(), counts)).toBe(
      "3 of 3 records were sent and 1 rows remain, 2 of them beyond the cap",
    );
  });
  test("when the sum is wrong", () => {
    expect(findLeak({ ...tally().counters(), records_waiting: 1 }, counts)).toBe(
      "10 rows were read, but 11 are accounted for",
    );
  });
});

const answered = (record: KeyedRecord): Settled => ({
  answers: [{ record, outcome: "matched" }],
  rejects: [],
  setAside: [],
  setAsideBecause: null,
});

test("a record that is sent twice counts once", () => {
  const tally = createTally(countsOf({ read: 2, due: 2, duplicate: 1, toSend: 1 }));
  const record = recordOf("1", null, null);
  tally.send([record]);
  tally.send([record]);
  tally.settle(answered(record));
  tally.move([{ prior: null, outcome: "matched", rows: 2, occurrences: 2 }]);
  expect(tally.counters()).toMatchObject({ records_sent: 1, records_duplicate: 1, records_remaining: 0 });
});
