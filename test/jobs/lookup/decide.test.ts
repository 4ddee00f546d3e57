import { describe, expect, test } from "vitest";
import { decideSending, lastSendingRun, type SendCase } from "../../../src/jobs/confirm.ts";
import { zeroCounters } from "../../../src/jobs/job.ts";
import { wholeInput } from "../../../src/jobs/services.ts";
import { countsOf, pastRun } from "../support.ts";

const confirmAbove = { records: 10_000, ratio: 0.2 };

function decide(given: Partial<SendCase>): string {
  const counts =
    given.counts ?? countsOf({ read: 100_000, due: 30_000, toSend: 29_000, answeredBefore: 70_000 });
  return decideSending({
    counts,
    billable: { low: 23_000, expected: 24_000, high: 25_000, basis: "" },
    price: null,
    lastRun: pastRun({ sent: 100 }),
    confirmAbove,
    resend: false,
    acceptParameters: null,
    ...given,
  }).kind;
}

describe("what is due is sent without a question", () => {
  test("in the first run, however much it is", () => {
    expect(
      decide({ lastRun: null, counts: countsOf({ read: 100_000, due: 100_000, toSend: 100_000 }) }),
    ).toBe("send");
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
      expect(decide({ lastRun: pastRun({ status, sent: 5, recordsDue: 20_000 }) })).toBe("send");
      expect(decide({ lastRun: pastRun({ status, sent: 5, recordsDue: 19_999 }) })).toBe("ask");
    }
  });
});

/** Counters of a trial that left rows waiting. */
const behind = (waiting: number) => ({ ...zeroCounters, records_sent: 1000, records_waiting: waiting });

describe("the backlog of a trial is sent without a question", () => {
  const counts = countsOf({ read: 100_000, due: 90_000, toSend: 90_000, answeredBefore: 1000 });

  test("by a job that waited behind a capped one", () => {
    expect(decide({ counts, lastRun: pastRun({ counters: behind(90_000) }) })).toBe("send");
    expect(decide({ counts, lastRun: pastRun({ counters: behind(80_000) }) })).toBe("send");
    expect(decide({ counts, lastRun: pastRun({ counters: behind(79_999) }) })).toBe("ask");
    const capped = pastRun({ status: "limited", recordsDue: 5000, counters: behind(75_000) });
    expect(decide({ counts, lastRun: capped })).toBe("send");
  });

  test("by each shard of a later run", () => {
    const whole = pastRun({ status: "limited", recordsDue: 40_000, counters: behind(320_000) });
    const lastRun = lastSendingRun([whole], { index: 3, count: 4 });
    expect(lastRun).toMatchObject({ recordsDue: 10_000, counters: { records_waiting: 80_000 } });
    expect(decide({ counts, lastRun })).toBe("send");
  });
});

describe("the user is asked", () => {
  test("after a run that succeeded, when more is due than both bounds", () => {
    expect(decide({})).toBe("ask");
  });
  test("when no run of this shard is known but answers are there, as after a change of the number of shards", () => {
    expect(decide({ lastRun: null })).toBe("ask");
  });
  test("in a first run, when more than 5 % of the rows have no key of their own", () => {
    const some = countsOf({ read: 100, due: 94, toSend: 94, unusableKeys: 6, answeredBefore: 0 });
    expect(decide({ lastRun: null, counts: some })).toBe("ask");
    expect(decide({ lastRun: null, counts: { ...some, unusableKeys: 5 } })).toBe("send");
    expect(decide({ counts: { ...some, due: 1, toSend: 1, answeredBefore: 93 } })).toBe("send");
  });
  test("before every --resend, also in a first run and below the bounds", () => {
    expect(decide({ resend: true, lastRun: null, counts: countsOf({ read: 5, due: 5, toSend: 5 }) })).toBe(
      "ask",
    );
  });
});

describe("the last run that sent", () => {
  const half = { index: 1, count: 2 };
  test("is the newest one of the same shard", () => {
    const [other, older] = [pastRun({ shard: "0/2", sent: 1 }), pastRun({ shard: "1/2", sent: 1 })];
    const newer = pastRun({ shard: "1/2", status: "failed", sent: 1 });
    expect(lastSendingRun([other, newer, older], half)).toBe(newer);
    expect(lastSendingRun([other], half)).toBe(null);
    expect(lastSendingRun([pastRun({ shard: "0/4", sent: 1 })], half)).toBe(null);
  });
  test("is no run that waited for an answer or failed before it sent", () => {
    const waiting = pastRun({ status: "limited", limitedBy: "confirmation" });
    const done = pastRun({ status: "succeeded" });
    expect(lastSendingRun([waiting, pastRun({ status: "failed" }), done], wholeInput)).toBe(done);
  });
});

describe("changed parameters", () => {
  const counts = countsOf({ read: 100, due: 3, toSend: 3, parametersChanged: 2 });
  test("stop the run until the user confirms", () => {
    expect(decide({ counts })).toBe("stop");
    expect(decide({ counts, resend: true })).toBe("stop");
    expect(decide({ counts: countsOf({ read: 9, parametersChanged: 1 }) })).toBe("stop");
  });
  test("don't stop a confirmed run", () => {
    expect(decide({ counts, acceptParameters: "resend" })).toBe("send");
    expect(decide({ counts, acceptParameters: "keep" })).toBe("send");
  });
  test("don't hide that the run is an unusually large one", () => {
    expect(decide({ acceptParameters: "resend" })).toBe("ask");
  });
});

test("the question has its reason and the possible cost", () => {
  const decision = decideSending({
    counts: countsOf({ read: 100_000, due: 30_000, toSend: 29_000 }),
    billable: { low: 23_000, expected: 24_000, high: 25_000, basis: "" },
    price: null,
    lastRun: pastRun({ sent: 1 }),
    confirmAbove,
    resend: false,
    acceptParameters: null,
  });
  expect(decision).toEqual({
    kind: "ask",
    reason:
      "more is due than confirm_above allows: 30,000 rows, 30 % of the input; " +
      "29,000 records to send, about 24,000 (23,000 to 25,000) of them billed",
  });
});
