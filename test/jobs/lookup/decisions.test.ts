import { expect, test } from "vitest";
import {
  InterruptedError,
  LimitReachedError,
  LockLostError,
  StopJobError,
  StopRunError,
} from "../../../src/errors.ts";
import { decideSending, lastSendingRun, type SendCase, unusualRejects } from "../../../src/jobs/confirm.ts";
import { type JobEnd, zeroCounters } from "../../../src/jobs/job.ts";
import { forecastOf, forecastText } from "../../../src/jobs/lookup/estimate.ts";
import { endOfJob, type WorkDone } from "../../../src/jobs/lookup/lookup-job.ts";
import { type Cap, limitsOf, tightestCap, type Used } from "../../../src/jobs/lookup/lookup-spec.ts";
import { type Shard, wholeInput } from "../../../src/jobs/services.ts";
import { unused } from "../../../src/load/ledger/reserve.ts";
import type { LookupCounts } from "../../../src/load/lookups/counts.ts";
import { countsOf, enrichJob, pastRun } from "../support.ts";

const config = { confirmAbove: { records: 10_000, ratio: 0.2 } };

/** A large due set of a known input. */
const large: SendCase = {
  counts: countsOf({ read: 100_000, due: 30_000, toSend: 29_000, answeredBefore: 70_000 }),
  billable: { low: 23_000, expected: 24_000, high: 25_000, basis: "" },
  cost: null,
  pastRuns: [pastRun({ records_sent: 100 })],
  shard: wholeInput,
  resend: false,
  acceptParameters: null,
};
const dueOf = (read: number, due: number, more: Partial<LookupCounts> = {}) =>
  countsOf({ read, due, toSend: due, answeredBefore: 1000, ...more });
const stopped = (due: number) => pastRun({ status: "limited", records_sent: 5, records_due: due });
/** A trial that left rows waiting. */
const waited = (waiting: number, due = 0) =>
  pastRun({
    status: due > 0 ? "limited" : "succeeded",
    records_due: due,
    records_sent: 1000,
    records_waiting: waiting,
  });
const first = { pastRuns: [], counts: dueOf(100_000, 100_000, { answeredBefore: 0 }) };
const keyless = dueOf(100, 94, { unusableKeys: 6, answeredBefore: 0 });
const changed = dueOf(100, 3, { parametersChanged: 2 });

test.each<readonly [string, Partial<SendCase>, "send" | "ask" | "stop"]>([
  ["after a successful run, more than both bounds", {}, "ask"],
  ["the first run, however much it is", first, "send"],
  ["no more than confirm_above.records", { counts: dueOf(20_000, 10_000) }, "send"],
  ["one more than confirm_above.records", { counts: dueOf(20_000, 10_001) }, "ask"],
  ["no more than confirm_above.ratio", { counts: dueOf(100_000, 20_000) }, "send"],
  ["one more than confirm_above.ratio", { counts: dueOf(100_000, 20_001) }, "ask"],
  ["nothing to send, also with --resend", { counts: dueOf(9, 9, { toSend: 0 }), resend: true }, "send"],
  [
    "what a stopped run left, and no more than confirm_above.records",
    { pastRuns: [stopped(20_000)] },
    "send",
  ],
  ["one more than what a stopped run left", { pastRuns: [stopped(19_999)] }, "ask"],
  [
    "rows that waited in the last run",
    { counts: dueOf(100_000, 90_000), pastRuns: [waited(80_000)] },
    "send",
  ],
  ["one more than rows that waited", { counts: dueOf(100_000, 90_000), pastRuns: [waited(79_999)] }, "ask"],
  ["left and waiting rows", { counts: dueOf(100_000, 90_000), pastRuns: [waited(75_000, 5000)] }, "send"],
  ["answers, but no run of this shard", { pastRuns: [] }, "ask"],
  ["a first run where 6% of the keys are unusable", { pastRuns: [], counts: keyless }, "ask"],
  ["where 5% of the keys are", { pastRuns: [], counts: { ...keyless, unusableKeys: 5 } }, "send"],
  ["unusable keys of a known input", { counts: { ...keyless, due: 1, answeredBefore: 93 } }, "send"],
  ["--resend, also in a small first run", { resend: true, pastRuns: [], counts: dueOf(5, 5) }, "ask"],
  ["changed parameters", { counts: changed }, "stop"],
  ["changed parameters with --resend", { counts: changed, resend: true }, "stop"],
  ["changed parameters and nothing due", { counts: dueOf(9, 0, { parametersChanged: 1 }) }, "stop"],
  ["accepted parameters", { counts: changed, acceptParameters: "keep" }, "send"],
  ["accepted parameters of a large due set", { acceptParameters: "resend" }, "ask"],
])("%s", (_title, given, kind) => {
  expect(decideSending(config, { ...large, ...given }).kind).toBe(kind);
});

test("changed parameters stop with the number of answered rows and the possible cost", () => {
  const given = { ...large, counts: dueOf(100, 3, { parametersChanged: 2 }) };
  expect(decideSending(config, given)).toMatchObject({
    message: expect.stringMatching(
      /^the mapping or the request parameters have changed since 2 rows were processed; nothing was sent\. .*3 records to send, about 24,000/u,
    ),
  });
});

test("the question has its reason and the possible cost", () => {
  expect(decideSending(config, large)).toEqual({
    kind: "ask",
    reason:
      "more is due than confirm_above allows: 30,000 rows, 30% of the input; " +
      "29,000 records to send, about 24,000 (23,000 to 25,000) of them billed",
  });
});

test("the last run that sent is the newest of the same shard, or the shard's part of a whole run", () => {
  const half = { index: 1, count: 2 };
  const [other, older] = [
    pastRun({ shard: "0/2", records_sent: 1 }),
    pastRun({ shard: "1/2", records_sent: 1 }),
  ];
  const newer = pastRun({ shard: "1/2", status: "failed", records_sent: 1 });
  expect(lastSendingRun({ pastRuns: [other, newer, older], shard: half })).toBe(newer);
  expect(lastSendingRun({ pastRuns: [other, pastRun({ shard: "0/4", records_sent: 1 })], shard: half })).toBe(
    null,
  );
  expect(
    lastSendingRun({ pastRuns: [waited(320_000, 40_000)], shard: { index: 3, count: 4 } }),
  ).toMatchObject({
    records_due: 10_000,
    records_waiting: 80_000,
  });
  const done = pastRun({ status: "succeeded" });
  const waiting = pastRun({ status: "limited", limited_by: "confirmation" });
  expect(
    lastSendingRun({ pastRuns: [waiting, pastRun({ status: "failed" }), done], shard: wholeInput }),
  ).toBe(done);
});

const counters = (sent: number, rejected: number, before = 0) => ({
  records_sent: sent,
  records_rejected: rejected,
  records_rejected_before_sending: before,
});

test("more than 5% rejected is unusual from 1,000 records on, unless a limit is set", () => {
  const none = { maxRejectRatio: null };
  expect(unusualRejects(enrichJob, counters(999, 999), none)).toBe(null);
  expect(unusualRejects(enrichJob, counters(1000, 50), none)).toBe(null);
  expect(unusualRejects(enrichJob, counters(940, 60, 60), none)).toBe(
    "enrich_customers: 60 of 1,000 records were rejected, more than 5%.",
  );
  expect(unusualRejects(enrichJob, counters(1000, 1000), { maxRejectRatio: 1 })).toBe(null);
});

/** End of a job with ten records due, of which `sent` were sent. */
function judge(work: Partial<WorkDone>, sent = 10, remaining = 0): JobEnd {
  const counts = countsOf({ read: 10 + remaining, due: 10 + remaining, toSend: 10, remaining });
  const counters = { ...zeroCounters, records_read: counts.read, records_sent: sent };
  const none = { thrown: null, isStopped: false, unanswered: null, cap: null, maxRejectRatio: null };
  return endOfJob({ job: "enrich_customers", counts, counters, open: 10 - sent, ...none, ...work });
}

const unanswered = { records: 2, because: "POST /v2/enrich: no answer." };
const leftOver =
  "enrich_customers: 2 records had no response and stay due for the next run. Last cause: POST /v2/enrich: no answer.";
const credits = { error: new LimitReachedError("credits", "No credits are left.") };
const usedUp = { error: new LimitReachedError("budget_month", "The budget leaves nothing.") };
const forbidden = { error: new StopJobError("forbidden", "The key may not call this route.") };
const rejected = (records: number) => ({
  counters: { ...zeroCounters, records_sent: 10, records_rejected: records },
});
const capAt = (records: number): Cap => ({ records, limitedBy: "max_records_per_run" });

test.each<readonly [string, JobEnd, object]>([
  ["all records answered", judge({}), { status: "succeeded", error: null, stopsRun: false }],
  [
    "a cap that leaves rows",
    judge({ cap: capAt(10) }, 10, 5),
    { status: "limited", limitedBy: "max_records_per_run", error: null },
  ],
  ["a cap that leaves nothing", judge({ cap: capAt(10) }), { status: "succeeded" }],
  [
    "a budget used up while sending",
    judge({ thrown: usedUp }, 7),
    { status: "limited", limitedBy: "budget_month", error: null },
  ],
  ["a signal before all is sent", judge({ isStopped: true }, 7), { status: "interrupted", error: null }],
  ["a signal before a second answer", judge({ isStopped: true, open: 1 }), { status: "interrupted" }],
  ["a signal after all is done", judge({ isStopped: true }), { status: "succeeded" }],
  ["a failure, then a signal", judge({ isStopped: true, thrown: forbidden }, 7), { status: "failed" }],
  [
    "a signal during a question",
    judge({ thrown: { error: new InterruptedError("Stopped.") } }, 0),
    { status: "interrupted", error: null },
  ],
  [
    "records without an answer",
    judge({ unanswered }),
    { status: "failed", error: { code: "unanswered", message: leftOver } },
  ],
  [
    "records without an answer, and a limit",
    judge({ unanswered, thrown: credits }, 7),
    { status: "failed", error: { message: `${leftOver} Also: No credits are left.` } },
  ],
  [
    "a limit of the service",
    judge({ thrown: credits }, 7),
    { status: "limited", limitedBy: "credits", error: { code: "credits" }, stopsRun: false },
  ],
  [
    "a failure that ends the run",
    judge({ thrown: { error: new StopRunError("unauthorized", "The key is rejected.") } }, 0),
    { status: "failed", stopsRun: true, error: { code: "unauthorized" } },
  ],
  ["a failure of one job", judge({ thrown: forbidden }, 0), { status: "failed", stopsRun: false }],
  [
    "a lost lock",
    judge({ thrown: { error: new LockLostError("Another process took over the job.") } }, 0),
    { status: "locked", error: { code: "lock_lost" } },
  ],
  ["rejects without a limit", judge(rejected(10)), { status: "succeeded" }],
  ["rejects at max_reject_ratio", judge({ ...rejected(2), maxRejectRatio: 0.2 }), { status: "succeeded" }],
  [
    "rejects above max_reject_ratio",
    judge({ ...rejected(3), maxRejectRatio: 0.2 }),
    { status: "failed", error: { code: "too_many_rejects" } },
  ],
])("a job ends after %s", (_title, end, expected) => {
  expect(end).toMatchObject(expected);
});

test("an error of a library is reported without its message, which may quote a record", () => {
  const error = Object.assign(new Error("invalid input: jane@example.com"), { code: "22P02" });
  const end = judge({ thrown: { error } }, 3);
  expect(end.error?.message).toContain("(Error: 22P02)");
  expect(JSON.stringify(end.error)).not.toContain("jane");
});

interface Given {
  readonly perDay?: number;
  readonly perMonth?: number;
  readonly perRun?: number;
  readonly command?: number;
  readonly shard?: Shard;
}

/** Tightest limit of an enrich job at a given use, as `RECORDS LIMIT`. */
function capOf(given: Given, used: Partial<Used> = {}): string | null {
  const { perDay = null, perMonth = null, perRun = null, command = null, shard = wholeInput } = given;
  const job = { ...enrichJob, maxRecordsPerRun: perRun };
  const limits = limitsOf({ budgets: { enrich: { perDay, perMonth, money: null } } }, job, command, shard);
  const cap = tightestCap(limits, { ...unused, run: 0, shard: 0, ...used });
  return cap && `${cap.records} ${cap.limitedBy}`;
}

const three = { perDay: 100, perMonth: 1000, perRun: 80 };
const quarter = { perRun: 10, shard: { index: 0, count: 4 } };

test.each<readonly [string, Given, Partial<Used>, string | null]>([
  ["none where none is set", {}, {}, null],
  ["the command's cap", { command: 5, perRun: 7 }, {}, "5 max_records"],
  ["the job's cap", { command: 9, perRun: 7 }, {}, "7 max_records_per_run"],
  ["the command's where both are equal", { command: 7, perRun: 7 }, {}, "7 max_records"],
  ["a cap of zero", { command: 0, perRun: 7 }, {}, "0 max_records"],
  ["the smallest before anything is used", three, {}, "80 max_records_per_run"],
  ["the day's", three, { day: 30, month: 30 }, "70 budget_day"],
  ["the month's", three, { day: 30, month: 960 }, "40 budget_month"],
  ["the rest of the run's", three, { month: 960, run: 50 }, "30 max_records_per_run"],
  ["the longest of equal ones", { perDay: 10, perMonth: 10, perRun: 10 }, {}, "10 budget_month"],
  ["a shard's part", quarter, {}, "3 max_records_per_run"],
  ["the rest of a shard's part", quarter, { run: 4, shard: 1 }, "2 max_records_per_run"],
  ["what other divisions left", quarter, { run: 9 }, "1 max_records_per_run"],
  ["nothing under a lowered budget", { perDay: 10 }, { day: 12 }, "0 budget_day"],
])("the limit of a run is %s", (_title, given, used, expected) => {
  expect(capOf(given, used)).toBe(expected);
});

const groups = (others: number) => ({ sentAgain: { matched: 0, unmatched: 0 }, withPid: 0, others });

test("the line before sending shows what is sent, its cost and duration, and what a limit leaves", () => {
  const night = countsOf({
    read: 12_000,
    due: 2990,
    toSend: 2950,
    groups: { due: groups(2950), toSend: groups(2950) },
    history: { withPid: { answered: 0, matched: 0 }, others: { answered: 10_000, matched: 8000 } },
  });
  const service = {
    baseUrl: "https://service.example",
    apiKey: null,
    userApiKey: null,
    ca: null,
    limits: {},
    endpoints: {},
    concurrency: 8,
    requestsPerSecond: 0.05,
  };
  const lineOf = (counts: LookupCounts, cap: Cap | null) => {
    const forecast = forecastOf({ service, prices: null }, enrichJob, counts, { cap, billed: 0 });
    return forecastText(enrichJob, counts, forecast, cap);
  };
  const cut = { ...night, groups: { ...night.groups, toSend: groups(500) }, toSend: 500, remaining: 2450 };
  expect([
    lineOf(night, null),
    lineOf({ ...night, due: 0, toSend: 0 }, null),
    lineOf(cut, { records: 500, limitedBy: "budget_day" }),
    lineOf({ ...night, toSend: 0, remaining: 2950 }, { records: 0, limitedBy: "budget_month" }),
  ]).toEqual([
    "enrich_customers: 2,950 records to send in 6 calls, about 2,360 (2,310 to 2,407) billed, about 2 min",
    "enrich_customers: nothing is due among 12,000 rows",
    "enrich_customers: 500 records to send in 1 call, about 400 (380 to 417) billed, about 20 s; 2,450 rows remaining (stops at the daily budget)",
    "enrich_customers: nothing to send; 2,950 rows remaining (stops at the monthly budget)",
  ]);
});
