import { describe, expect, test } from "vitest";
import {
  FixConfigurationError,
  InterruptedError,
  LimitReachedError,
  StopJobError,
  StopRunError,
} from "../../../src/errors.ts";
import { judgeEnd, type WorkDone } from "../../../src/jobs/lookup/lookup-job.ts";
import { zeroCounters } from "../../../src/jobs/job.ts";
import { countsOf } from "../support.ts";

/** Ten rows read, ten records due, and a number of them sent. */
function judge(work: Partial<WorkDone>, sent = 10, remainingByCap = 0) {
  const counts = countsOf({
    read: 10 + remainingByCap,
    due: 10 + remainingByCap,
    toSend: 10,
    remaining: remainingByCap,
  });
  return judgeEnd({
    job: "enrich_customers",
    thrown: null,
    isStopped: false,
    counts,
    counters: {
      ...zeroCounters,
      records_read: counts.read,
      records_sent: sent,
      records_remaining: counts.read - sent,
    },
    open: 10 - sent,
    unanswered: null,
    cap: null,
    maxRejectRatio: null,
    ...work,
  });
}

const unanswered = { records: 2, because: "POST /v2/enrich: no answer." };
const credits = new LimitReachedError("credits", "No credits are left.");

test("a job whose records all have their answer has succeeded", () => {
  expect(judge({})).toMatchObject({ status: "succeeded", limitedBy: null, error: null, stopsRun: false });
});

describe("the user's own cap", () => {
  test("ends a job as limited, without an error", () => {
    const cap = { records: 10, limitedBy: "max_records_per_run" as const };
    expect(judge({ cap }, 10, 5)).toMatchObject({
      status: "limited",
      limitedBy: "max_records_per_run",
      error: null,
    });
  });
  test("that leaves nothing over doesn't show", () => {
    expect(judge({ cap: { records: 10, limitedBy: "budget_day" } }).status).toBe("succeeded");
  });
  test("that is reached while sending ends a job as limited, without an error", () => {
    const usedUp = new LimitReachedError("budget_month", "The budget leaves nothing.");
    expect(judge({ thrown: { error: usedUp } }, 7)).toMatchObject({
      status: "limited",
      limitedBy: "budget_month",
      error: null,
    });
  });
});

describe("a signal", () => {
  test("interrupts a job that has something left to send", () => {
    expect(judge({ isStopped: true }, 7)).toMatchObject({ status: "interrupted", error: null });
  });
  test("interrupts a job that sent everything but waits for a second answer", () => {
    expect(judge({ isStopped: true, open: 1 }).status).toBe("interrupted");
  });
  test("that comes when all is done changes nothing", () => {
    expect(judge({ isStopped: true }).status).toBe("succeeded");
  });
  test("doesn't hide a failure that ended the job", () => {
    const thrown = { error: new StopJobError("forbidden", "The key may not call POST /v2/enrich.") };
    expect(judge({ isStopped: true, thrown }, 7).status).toBe("failed");
  });
  test("thrown from a question interrupts too", () => {
    expect(judge({ thrown: { error: new InterruptedError("Stopped by SIGINT.") } }, 0)).toMatchObject({
      status: "interrupted",
      error: null,
    });
  });
});

describe("records without an answer", () => {
  test("make a job fail, and are reported as still due", () => {
    expect(judge({ unanswered })).toMatchObject({
      status: "failed",
      error: {
        code: "unanswered",
        message:
          "enrich_customers: 2 records got no answer and stay due for the next run. Last reason: POST /v2/enrich: no answer.",
      },
    });
  });
  test("outrank a limit, which is reported too", () => {
    expect(judge({ unanswered, thrown: { error: credits } }, 7)).toMatchObject({
      status: "failed",
      error: {
        message:
          "enrich_customers: 2 records got no answer and stay due for the next run. " +
          "Last reason: POST /v2/enrich: no answer. Also: No credits are left.",
      },
    });
  });
});

test("a limit of the service ends a job as limited, with its reason", () => {
  expect(judge({ thrown: { error: credits } }, 7)).toMatchObject({
    status: "limited",
    limitedBy: "credits",
    error: { code: "credits", message: "No credits are left." },
    stopsRun: false,
  });
});

describe("a failure", () => {
  test("that ends the run is reported as such", () => {
    const error = new StopRunError("unauthorized", "The key is rejected.");
    expect(judge({ thrown: { error } }, 0)).toMatchObject({
      status: "failed",
      stopsRun: true,
      error: { code: "unauthorized" },
    });
  });
  test("of one job leaves the others", () => {
    const error = new StopJobError("forbidden", "The key may not call this route.");
    expect(judge({ thrown: { error } }, 0)).toMatchObject({
      status: "failed",
      stopsRun: false,
      error: { code: "forbidden" },
    });
    const fixable = new FixConfigurationError("unreadable_secret", "The file is gone.");
    expect(judge({ thrown: { error: fixable } }, 0)).toMatchObject({
      status: "failed",
      error: { code: "unreadable_secret", message: "The file is gone." },
    });
  });
  test("of a library is reported without its message, which may quote a record", () => {
    const error = Object.assign(new Error("invalid input: jane@example.com"), { code: "22P02" });
    const end = judge({ thrown: { error } }, 3);
    expect(end.error?.code).toBe("22P02");
    expect(end.error?.message).toContain("(Error: 22P02)");
    expect(JSON.stringify(end.error)).not.toContain("jane");
  });
});

function failureOf(rejected: number, maxRejectRatio: number | null, sent = 10): string | null {
  const counters = { ...zeroCounters, records_read: sent, records_sent: sent, records_rejected: rejected };
  const counts = countsOf({ read: sent, due: sent, toSend: sent });
  return judge({ maxRejectRatio, counters, counts }).error?.code ?? null;
}

describe("rejected records", () => {
  test("alone don't make a job fail", () => {
    expect(failureOf(10, null)).toBe(null);
    expect(failureOf(2, 0.2)).toBe(null);
  });
  test("beyond max_reject_ratio do", () => {
    expect(failureOf(3, 0.2)).toBe("too_many_rejects");
    expect(failureOf(1, 0)).toBe("too_many_rejects");
  });
});
