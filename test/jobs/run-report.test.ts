import { expect, test } from "vitest";
import { exitCodeOf, type JobReport, statusOf, zeroCounters } from "../../src/jobs/job.ts";

type Ending = Pick<JobReport, "status"> & Partial<Pick<JobReport, "limited_by">>;

const failed: Ending = { status: "failed" };
const skipped: Ending = { status: "skipped" };
const locked: Ending = { status: "locked" };
const interrupted: Ending = { status: "interrupted" };
const succeeded: Ending = { status: "succeeded" };
const credits: Ending = { status: "limited", limited_by: "credits" };
const cap: Ending = { status: "limited", limited_by: "max_records_per_run" };

function reports(...endings: Ending[]): JobReport[] {
  return endings.map((ending, i) => ({
    job: `job_${i}`,
    type: "enrich",
    ...zeroCounters,
    seconds: 1,
    ...ending,
  }));
}

function exitCode(signal: "SIGINT" | "SIGTERM" | null, ...endings: Ending[]): number {
  return exitCodeOf({ status: "succeeded", run_id: "r", jobs: reports(...endings) }, signal);
}

test("the exit code is 0 when all is done", () => {
  expect(exitCode(null, succeeded, succeeded)).toBe(0);
  expect(exitCode(null)).toBe(0);
});

test("the user's own caps end a run with exit code 0", () => {
  expect(exitCode(null, succeeded, cap)).toBe(0);
  expect(exitCode(null, { status: "limited", limited_by: "max_records" })).toBe(0);
});

test("limits of the service and a missing confirmation end a run with exit code 3", () => {
  for (const limited_by of ["credits", "quota", "parameters_changed", "confirmation"] as const) {
    expect(exitCode(null, cap, { status: "limited", limited_by }, succeeded)).toBe(3);
  }
});

test("1 outranks a signal, a signal outranks 4, and 4 outranks 3", () => {
  expect(exitCode("SIGINT", failed, interrupted, locked, credits)).toBe(1);
  expect(exitCode("SIGINT", interrupted, locked, credits)).toBe(130);
  expect(exitCode("SIGTERM", credits, interrupted)).toBe(143);
  expect(exitCode(null, credits, locked)).toBe(4);
  expect(exitCode(null, skipped, succeeded)).toBe(1);
});

test("a signal that came when all was done changes nothing", () => {
  expect(exitCode("SIGTERM", succeeded, cap)).toBe(0);
});

test("the run's status is that of the job that fared worst", () => {
  expect(statusOf(reports(succeeded, cap, credits))).toBe("limited");
  expect(statusOf(reports(locked, credits))).toBe("locked");
  expect(statusOf(reports(interrupted, locked))).toBe("interrupted");
  expect(statusOf(reports(failed, skipped, interrupted))).toBe("failed");
  expect(statusOf(reports(skipped))).toBe("failed");
  expect(statusOf(reports(succeeded))).toBe("succeeded");
});
