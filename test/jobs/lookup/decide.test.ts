import { describe, expect, test } from "vitest";
import { decideSending, type SendCase } from "../../../src/jobs/lookup/decide.ts";
import { type Shard, wholeInput } from "../../../src/jobs/shard.ts";
import type { PastRun } from "../../../src/load/lookup.ts";
import { countsOf, pastRun } from "../support.ts";

const confirmAbove = { records: 10_000, ratio: 0.2 };

function decide(given: Partial<SendCase>): string {
  const counts =
    given.counts ?? countsOf({ read: 100_000, due: 30_000, toSend: 29_000, answeredBefore: 70_000 });
  return decideSending({
    counts,
    billable: { low: 23_000, expected: 24_000, high: 25_000, basis: "" },
    pastRuns: [pastRun({ sent: 100 })],
    hasOlderRuns: false,
    confirmAbove,
    resend: false,
    acceptParameters: null,
    shard: wholeInput,
    ...given,
  }).kind;
}

function of(shard: string, changes: Parameters<typeof pastRun>[0] = {}): PastRun {
  return pastRun({ sent: 100, ...changes, shard });
}

describe("what is due is sent without a question", () => {
  test("in the first run, however much it is", () => {
    expect(decide({ pastRuns: [], counts: countsOf({ read: 100_000, due: 100_000, toSend: 100_000 }) })).toBe(
      "send",
    );
  });
  test("when it is not more than confirm_above.records", () => {
    expect(decide({ counts: countsOf({ read: 20_000, due: 10_000, toSend: 10_000 }) })).toBe("send");
    expect(decide({ counts: countsOf({ read: 20_000, due: 10_001, toSend: 10_001 }) })).toBe("ask");
  });
  test("when it is not more than confirm_above.ratio of the input", () => {
    expect(decide({ counts: countsOf({ read: 100_000, due: 20_000, toSend: 20_000 }) })).toBe("send");
    expect(decide({ counts: countsOf({ read: 100_000, due: 20_001, toSend: 20_001 }) })).toBe("ask");
  });
  test("when nothing is to be sent", () => {
    const counts = countsOf({ read: 50_000, due: 50_000, duplicate: 50_000, reused: 50_000, toSend: 0 });
    expect(decide({ counts })).toBe("send");
    expect(decide({ counts, resend: true })).toBe("send");
  });
  test("when a limit, a crash, a failure or a signal stopped the last run and no more than records is new", () => {
    for (const status of ["limited", "running", "failed", "interrupted"]) {
      expect(decide({ pastRuns: [pastRun({ status, sent: 5, recordsDue: 20_000 })] })).toBe("send");
      expect(decide({ pastRuns: [pastRun({ status, sent: 5, recordsDue: 19_999 })] })).toBe("ask");
    }
  });
  test("when a first run before this one never got as far as sending", () => {
    const counts = countsOf({ read: 100_000, due: 100_000, toSend: 100_000 });
    expect(decide({ counts, pastRuns: [pastRun({ status: "failed", recordsDue: 100_000 })] })).toBe("send");
  });
});

describe("the user is asked", () => {
  test("after a run that succeeded, when more is due than both bounds", () => {
    expect(decide({})).toBe("ask");
    expect(decide({ pastRuns: [pastRun({ status: "succeeded", sent: 0 })] })).toBe("ask");
  });
  test("again when the runs in between ended for want of an answer", () => {
    const waiting = pastRun({ status: "limited", limitedBy: "confirmation", recordsDue: 30_000 });
    expect(decide({ pastRuns: [waiting, waiting, pastRun({ sent: 100 })] })).toBe("ask");
  });
  test("when all the runs that were read back ended for want of an answer", () => {
    const waiting = pastRun({ status: "limited", limitedBy: "confirmation", recordsDue: 30_000 });
    const counts = countsOf({ read: 100_000, due: 30_000, toSend: 30_000 });
    expect(decide({ counts, pastRuns: [waiting], hasOlderRuns: true })).toBe("ask");
    expect(decide({ counts, pastRuns: [waiting], hasOlderRuns: false })).toBe("send");
  });
  test("when the books are empty but answers are there", () => {
    expect(decide({ pastRuns: [] })).toBe("ask");
  });
  test("before every --resend, also in a first run and below the bounds", () => {
    expect(decide({ resend: true, pastRuns: [], counts: countsOf({ read: 5, due: 5, toSend: 5 }) })).toBe(
      "ask",
    );
  });
});

describe("a shard", () => {
  const half: Shard = { index: 1, count: 2 };
  // 15,000 of this half, which makes 30,000 of the whole: more than 10,000, of which a half is its part.
  const counts = countsOf({ read: 50_000, due: 15_000, toSend: 15_000, answeredBefore: 35_000 });
  const bounds = { records: 5000, ratio: 0.2 };
  const decideHalf = (pastRuns: readonly PastRun[], changes: Partial<SendCase> = {}) =>
    decide({ counts, confirmAbove: bounds, shard: half, pastRuns, ...changes });

  test("is asked about by its part of confirm_above", () => {
    expect(decideHalf([of("1/2")])).toBe("ask");
    const few = countsOf({ read: 20_000, due: 5000, toSend: 5000, answeredBefore: 9 });
    expect(decideHalf([of("1/2")], { counts: few })).toBe("send");
  });
  test("is in its first run, whatever its siblings have begun or done", () => {
    const first = countsOf({ read: 50_000, due: 50_000, toSend: 50_000 });
    for (const status of ["running", "succeeded", "failed"]) {
      expect(decideHalf([of("0/2", { status })], { counts: first })).toBe("send");
    }
    expect(decideHalf([of("0/2")])).toBe("ask");
  });
  test("goes on where its own last run was stopped, or its share of one without shards", () => {
    expect(decideHalf([of("0/2"), of("1/2", { status: "failed", recordsDue: 15_000 })])).toBe("send");
    expect(decideHalf([of("0/2"), of("1/2", { status: "failed", recordsDue: 9999 })])).toBe("ask");
    expect(decideHalf([of("0/2", { status: "failed", recordsDue: 90_000 }), of("1/2")])).toBe("ask");
    expect(decideHalf([of("0/1", { status: "limited", recordsDue: 20_000 })])).toBe("send");
    expect(decideHalf([of("0/1", { status: "limited", recordsDue: 19_999 })])).toBe("ask");
    expect(decideHalf([of("0/1"), of("1/2", { status: "failed", recordsDue: 15_000 })])).toBe("ask");
  });
  test("that died is gone on with by a run without shards", () => {
    const died = of("2/3", { status: "running", recordsDue: 25_000 });
    const done = [of("0/3", { recordsDue: 40_000 }), of("1/3", { recordsDue: 40_000 })];
    expect(decide({ pastRuns: [...done, died] })).toBe("send");
    expect(decide({ pastRuns: [...done, { ...died, recordsDue: 19_999 }] })).toBe("ask");
    expect(decide({ pastRuns: [...done, of("2/3"), died] })).toBe("ask");
    expect(decide({ pastRuns: [of("0/1"), ...done, died] })).toBe("ask");
    expect(decide({ pastRuns: [...done, of("0/1"), died] })).toBe("ask");
  });
  test("that never ran leaves its part in its first run", () => {
    const pastRuns = [of("0/3"), of("1/3")];
    expect(decide({ pastRuns })).toBe("send");
    expect(decide({ pastRuns, hasOlderRuns: true })).toBe("ask");
    expect(decide({ pastRuns: [...pastRuns, of("2/3")] })).toBe("ask");
  });
});

describe("changed parameters", () => {
  const counts = countsOf({ read: 100, due: 3, toSend: 3, parametersChanged: 2 });
  test("stop the run until the user says what to do", () => {
    expect(decide({ counts })).toBe("stop");
    expect(decide({ counts, resend: true })).toBe("stop");
    expect(decide({ counts: countsOf({ read: 9, parametersChanged: 1 }) })).toBe("stop");
  });
  test("don't stop a run that was told", () => {
    expect(decide({ counts, acceptParameters: "resend" })).toBe("send");
    expect(decide({ counts, acceptParameters: "keep" })).toBe("send");
  });
  test("don't hide that the run is an unusually large one", () => {
    expect(decide({ acceptParameters: "resend" })).toBe("ask");
  });
});

test("the question says what it is about and what it may cost", () => {
  const decision = decideSending({
    counts: countsOf({ read: 100_000, due: 30_000, toSend: 29_000 }),
    billable: { low: 23_000, expected: 24_000, high: 25_000, basis: "" },
    pastRuns: [pastRun({ sent: 1 })],
    hasOlderRuns: false,
    confirmAbove,
    resend: false,
    acceptParameters: null,
    shard: wholeInput,
  });
  expect(decision).toEqual({
    kind: "ask",
    reason:
      "more is due than confirm_above allows, 30,000 rows or 30 % of the input: " +
      "29,000 records to send, about 24,000 (23,000 to 25,000) of them billed",
  });
});
