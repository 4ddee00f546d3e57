import { beforeAll, describe, expect, test } from "vitest";
import type { Setting } from "../cli/support/setting.ts";
import { membersOfService } from "../jobs/search/audience-world.ts";
import { partOf } from "../support/test-size.ts";
import { killRun, runToEnd, startFeedService } from "./kill-support.ts";

/** About 4,600 people: 47 pages, in three commits. */
const JOBS = `jobs:
  audiences: { type: audience_search, searches: { women: { query: women in California, unlock: { max_billable: 50000 } } } }
`;
const ID = "123e4567-e89b-42d3-a456-426614174000";
const CONTACTS = `jobs:
  contacts: { type: contact_jobs, job_ids: [${ID}], unlock: { max_billable: 50000 } }
`;

let service: Awaited<ReturnType<typeof startFeedService>>;
beforeAll(async () => {
  service = await startFeedService(90_000);
});

async function prepare(jobs: string): Promise<Setting> {
  await service.control("/reset", {});
  await service.control("/search_plan", { states: ["created", "querying"], state_ms: null });
  return service.prepare(jobs);
}

interface Served {
  readonly search_jobs: readonly { readonly segmentId: string; readonly billable: number | null }[];
  readonly contact_jobs: readonly { readonly rows: number; readonly billable: number | null }[];
}

const CHARGE = `SELECT (SELECT sum(records_matched)::int FROM person_data_ops.api_call WHERE budget = 'unlock') AS billed,
  (SELECT sum(records_in_doubt)::int FROM person_data_ops.api_call WHERE budget = 'unlock') AS in_doubt,
  (SELECT records_reserved::int FROM person_data_state.budget_use WHERE budget = 'unlock' AND period = 'month') AS budget`;

describe("an audience whose run is killed", () => {
  // Calls: submit, two readings of the state, the unlock, then pages. Commits: the intent of the submit, its answer, two states,
  // the intent of the unlock, its answer, the start of the reading, then pages, and the end of the reading.
  const kills = [
    { at: "before_send:1", submits: 1 },
    { at: "after_send:2", submits: 2 },
    { at: "after_receive:1", submits: 2 },
    { at: "before_commit:1", submits: 1 },
    { at: "after_commit:1", submits: 1 },
    { at: "before_commit:2", submits: 2 },
    { at: "after_commit:2", submits: 1 },
    { at: "before_send:2", submits: 1 },
    { at: "after_receive:2", submits: 1 },
    { at: "after_commit:3", submits: 1 },
    { at: "after_receive:3", submits: 1 },
    { at: "before_commit:4", submits: 1 },
    { at: "before_commit:5", submits: 1 },
    { at: "after_commit:5", submits: 1 },
    { at: "before_reserve:1", submits: 1 },
    { at: "after_reserve:1", submits: 1 },
    { at: "before_send:4", submits: 1 },
    { at: "after_receive:4", submits: 1 },
    { at: "before_commit:6", submits: 1 },
    { at: "after_commit:6", submits: 1 },
    { at: "after_receive:9", submits: 1 },
    { at: "before_commit:7", submits: 1 },
    { at: "after_commit:7", submits: 1 },
    { at: "after_receive:40", submits: 1 },
    { at: "before_commit:9", submits: 1 },
    { at: "after_commit:9", submits: 1 },
    { at: "after_commit:10", submits: 1 },
    { at: "before_commit:11", submits: 1 },
    { at: "after_commit:11", submits: 1 },
  ];
  test.each(partOf(kills, 8))(
    "at $at, is charged once, and all its members are stored",
    async ({ at, submits }) => {
      const setting = await prepare(JOBS);
      await killRun(setting, at);
      await runToEnd(setting);
      const { search_jobs: jobs } = await service.control<Served>("/searches");
      const unlocked = jobs.filter(({ billable }) => billable !== null);
      expect([jobs.length, unlocked.length]).toEqual([submits, 1]);
      const { segmentId, billable } = unlocked[0] ?? { segmentId: "", billable: null };
      const stored = await setting.query(
        "SELECT service_pid AS pid FROM person_data.audience_search_member ORDER BY position",
      );
      const members = await membersOfService({ sandbox: service }, segmentId);
      expect(members.length).toBeGreaterThan(4000);
      expect(stored.map(({ pid }) => pid)).toEqual(members);
      expect(await setting.query(CHARGE)).toEqual([{ billed: billable, in_doubt: 0, budget: billable }]);
    },
  );
});

describe.each(["unlock", "page"])("a contact job billed by %s whose run is killed", (billing) => {
  // Calls: two readings of the state, the unlock, a page to learn what is billed (by page), then pages.
  const kills = [
    "before_send:3",
    "after_receive:3",
    "before_commit:3",
    "after_commit:3",
    "after_reserve:1",
    "before_commit:4",
    "after_commit:4",
    "after_receive:5",
    "before_commit:6",
    "after_commit:7",
  ];
  test.each(partOf(kills, 8))("at %s, is charged once, and all its results are stored", async (at) => {
    const setting = await prepare(CONTACTS);
    await service.control("/contact_jobs", {
      job_id: ID,
      job_type: "contact_append",
      titles: ["nurse"],
      size: 740,
      billing,
      states: ["queued"],
      state_ms: null,
    });
    await killRun(setting, at);
    await runToEnd(setting);
    const { contact_jobs: jobs } = await service.control<Served>("/searches");
    const { rows, billable } = jobs[0] ?? { rows: 0, billable: null };
    expect([rows, billable]).toEqual([740, 740]);
    expect(
      await setting.query(
        "SELECT count(*)::int AS rows, count(DISTINCT service_pid)::int AS people FROM person_data.contact_job_result",
      ),
    ).toEqual([{ rows, people: rows }]);
    // A page whose answer was lost counts as charged, which the service doesn't confirm.
    expect(await setting.query(CHARGE)).toEqual([{ billed: 740, in_doubt: 0, budget: 740 }]);
  });
});
