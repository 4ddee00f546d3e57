import { describe, expect, it, test } from "vitest";
import type { JobConfig } from "../../src/config/config.ts";
import type { KnownSlot } from "../../src/load/runs/slots.ts";
import { brokenBefore, findDue } from "../../src/operate/scheduler.ts";
import { scheduledJobs, unscheduledJobs } from "../../src/jobs/job-selection.ts";
import { fine, load } from "../config/support.ts";

/** Jobs of this `jobs:` section. */
async function jobsOf(text: string): Promise<readonly JobConfig[]> {
  return (await load(`${fine.slice(0, fine.indexOf("jobs:"))}jobs:\n${text}`)).jobs;
}

const NIGHT = `  resolve: { type: resolve, input: customers, schedule: "15 1 * * *" }
  enrich: { type: enrich, input: customers, pid_from: resolve, schedule: "30 1 * * *" }
`;

function known(job: string, dueAt: string, changes: Partial<KnownSlot> = {}): KnownSlot {
  const slot = `${dueAt.slice(0, 16)} UTC`;
  const ended = { status: "succeeded", runId: "r", endedAt: dueAt, lastDueAt: dueAt, isHeld: false } as const;
  return { job, slot, dueAt, ...ended, ...changes };
}

/** Due slots at an instant, as `job slot`, and the time of the next check. */
async function look(text: string, slots: readonly KnownSlot[], now: string) {
  const jobs = scheduledJobs({ jobs: await jobsOf(text) });
  const { due, nextCheckMs } = findDue(jobs, slots, Date.parse(now));
  return {
    due: due.map(({ job, key }) => `${job.name} ${key}`),
    next: new Date(nextCheckMs).toISOString().slice(0, 16),
  };
}

test("a slot that was given back is still after a predecessor that failed", async () => {
  const [, enrich] = scheduledJobs({ jobs: await jobsOf(NIGHT) });
  const due = [
    { key: "2026-11-21T01:30 UTC", atMs: Date.parse("2026-11-21T01:30:00Z"), job: enrich ?? never() },
  ];
  const failed = known("resolve", "2026-11-21T01:15:00Z", { status: "failed" });
  const open = { status: "given_back", endedAt: null, lastDueAt: "2026-11-20T01:30:00Z" };
  expect(brokenBefore(due, [failed, known("enrich", "2026-11-21T01:30:00Z", open)])).toEqual(["resolve"]);
  expect(brokenBefore(due, [failed, known("enrich", "2026-11-21T01:30:00Z")])).toEqual([]);
});

function never(): never {
  throw new Error("NIGHT has no second job.");
}

describe("what is due", () => {
  const yesterday = [known("resolve", "2026-11-20T01:15:00Z"), known("enrich", "2026-11-20T01:30:00Z")];

  it("is nothing before the first slot, which is the time of the next check", async () => {
    expect(await look(NIGHT, yesterday, "2026-11-21T00:59:00Z")).toEqual({
      due: [],
      next: "2026-11-21T01:15",
    });
  });

  it("comes in the order of the jobs when several were missed", async () => {
    expect(await look(NIGHT, yesterday, "2026-11-21T09:00:00Z")).toEqual({
      due: ["resolve 2026-11-21T01:15 UTC", "enrich 2026-11-21T01:30 UTC"],
      next: "2026-11-22T01:15",
    });
  });

  it("waits for a predecessor that another scheduler runs", async () => {
    const [, enrich] = yesterday;
    const running = known("resolve", "2026-11-21T01:15:00Z", { endedAt: null, isHeld: true });
    expect(await look(NIGHT, [running, enrich ?? running], "2026-11-21T01:30:00Z")).toEqual({
      due: [],
      next: "2026-11-21T01:30",
    });
    const done = known("resolve", "2026-11-21T01:15:00Z");
    expect((await look(NIGHT, [done, enrich ?? done], "2026-11-21T01:30:00Z")).due).toEqual([
      "enrich 2026-11-21T01:30 UTC",
    ]);
  });

  it("is caught up once for any number of missed slots, and not after the window", async () => {
    const hourly = `  resolve: { type: resolve, input: customers, schedule: "0 * * * *" }\n`;
    const old = [known("resolve", "2026-11-20T08:00:00Z")];
    expect((await look(hourly, old, "2026-11-21T09:20:00Z")).due).toEqual(["resolve 2026-11-21T09:00Z"]);
    const weekly = `  resolve: { type: resolve, input: customers, schedule: "0 3 * * 1" }\n`;
    const before = [known("resolve", "2026-11-09T03:00:00Z")];
    expect((await look(weekly, before, "2026-11-17T02:59:00Z")).due).toEqual([
      "resolve 2026-11-16T03:00 UTC",
    ]);
    expect((await look(weekly, before, "2026-11-17T03:01:00Z")).due).toEqual([]);
  });

  it("resumes a slot that was released or whose scheduler died, unless a newer one is due", async () => {
    const open = known("resolve", "2026-11-21T01:15:00Z", { endedAt: null, status: "given_back" });
    expect((await look(NIGHT, [open], "2026-11-21T02:00:00Z")).due).toEqual(["resolve 2026-11-21T01:15 UTC"]);
    expect((await look(NIGHT, [open], "2026-11-22T01:15:00Z")).due).toEqual(["resolve 2026-11-22T01:15 UTC"]);
  });

  it("is nothing of the time before a job was watched", async () => {
    const first = known("resolve", "2026-11-21T04:00:00Z", { slot: "first", status: "watched" });
    expect((await look(NIGHT, [first], "2026-11-21T12:00:00Z")).due).toEqual([]);
    expect((await look(NIGHT, [first], "2026-11-22T01:15:00Z")).due).toHaveLength(1);
    expect((await look(NIGHT, [], "2026-11-22T01:15:00Z")).due).toEqual([]);
  });
});

describe("jobs without a schedule", () => {
  it("run with the scheduled jobs that they come after, along with their own dependencies", async () => {
    const jobs = await jobsOf(`  resolve: { type: resolve, input: customers, schedule: "15 1 * * *" }
  validate: { type: validate_emails, input: customers }
  enrich: { type: enrich, input: customers, pid_from: resolve, valid_emails_from: validate }
  alone: { type: validate_emails, input: customers }
  off: { type: validate_emails, input: customers, enabled: false, after: resolve }
`);
    expect(scheduledJobs({ jobs })).toMatchObject([
      { name: "resolve", companions: ["validate", "enrich"], after: [] },
    ]);
    expect(unscheduledJobs({ jobs })).toEqual(["alone"]);
  });

  it("carry the order from one scheduled job to the next", async () => {
    const jobs = await jobsOf(`  first: { type: validate_emails, input: customers, schedule: "0 1 * * *" }
  between: { type: validate_emails, input: customers, after: first, enabled: false }
  last: { type: validate_emails, input: customers, after: between, schedule: "0 2 * * *" }
`);
    expect(scheduledJobs({ jobs }).at(-1)).toMatchObject({ name: "last", after: ["first"], companions: [] });
  });
});
