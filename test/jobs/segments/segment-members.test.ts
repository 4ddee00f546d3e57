import { expect, test } from "vitest";
import { StopJobError, StopRunError } from "../../../src/errors.ts";
import { createLimiter } from "../../../src/extract/limits.ts";
import { moveCheckpoints } from "../../../src/jobs/report/checkpoints.ts";
import type { RunReport } from "../../../src/jobs/run.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import type { Warehouse } from "../../support/bound-load.ts";
import {
  expectExact,
  expectSoundHistory,
  pidsOf,
  SEGMENT,
  startMembers,
  syncs,
  truthOf,
} from "./members-world.ts";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import { configOf, fastClock, jobOf, seenDuring, startWorld, type World } from "../world.ts";

test("the first sync takes over every page; a second one finds nothing changed", async () => {
  const world = await startMembers(11_000);
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({
    status: "succeeded",
    requests: 3,
    records_read: 0,
    records_received: 11_000,
    rows_written: 22_000,
  });
  await expectExact(world);
  expect(
    await world.rows(
      "SELECT valid_from_basis AS basis, count(*) AS all, count(valid_to) AS closed FROM person_data.segment_membership_history GROUP BY 1",
    ),
  ).toEqual([{ basis: "vendor", all: "11000", closed: "0" }]);
  expect(
    await world.rows(
      "SELECT name, current_size, source, last_checked_at = last_complete_sync_at AS is_complete FROM person_data.segment",
    ),
  ).toEqual([{ name: "VIP", current_size: "11000", source: null, is_complete: "t" }]);
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 0 });
  expect(await world.rows(syncs)).toEqual([
    { current_size: "11000", known_members: "11000", added: "11000", removed: "0", removals_pending: "0" },
    { current_size: "11000", known_members: "11000", added: "0", removed: "0", removals_pending: "0" },
  ]);
});

test("removals inside a page, at its edges and in ties over several pages are proven; who comes back has a new interval", async () => {
  const world = await startMembers(12_000, 9000);
  await world.run();
  const truth = await truthOf(world);
  const pids = [0, 1, 4999, 5000, 8999, 9000, 11_999].map((i) => truth[i]?.service_pid ?? "");
  await world.control("/members", { segment_id: SEGMENT, remove: pids });
  const second = jobOf(await world.run(), "vip_members");
  expect(second).toMatchObject({ status: "succeeded", rows_written: 14 });
  await expectExact(world);
  await world.control("/members", { segment_id: SEGMENT, add: pids.slice(0, 3) });
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 6 });
  await expectExact(world);
  await expectSoundHistory(world);
  expect(
    await world.rows(
      `SELECT valid_from_basis, valid_to IS NULL AS is_open, count(*) FROM person_data.segment_membership_history
       WHERE service_pid = ANY ('{${pids.join()}}') GROUP BY 1, 2 ORDER BY 1, 2`,
    ),
  ).toEqual([
    { valid_from_basis: "observed", is_open: "t", count: "3" },
    { valid_from_basis: "vendor", is_open: "f", count: "7" },
  ]);
  expect(
    await world.value(
      "SELECT count(*) FROM person_data.segment_member WHERE removed_seen_at IS NOT NULL AND NOT is_member",
    ),
  ).toBe("4");
});

test.each(["37.123456", "37.12345", "37.123", "37.5", "37"])(
  "a removal in a tie over two pages is proven below a newer batch, added at second %s",
  async (second) => {
    const world = await startMembers(50, 20, { at: `2026-10-01T00:00:${second}Z`, membersPerPage: 10 });
    await world.run();
    const truth = await truthOf(world);
    await world.control("/members", { segment_id: SEGMENT, remove: [truth[25]?.service_pid] });
    expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 2 });
    await expectExact(world);
  },
);

/** A segment of two pages, between which one member leaves and others are new. */
async function startChanging({ remove, add }: { remove: number; add: number }): Promise<World> {
  const world = await startMembers(14, 1, { membersPerPage: 10 });
  const truth = await truthOf(world);
  const change = { page: 1, remove: [truth[remove]?.service_pid], add: pidsOf(15, 15 + add) };
  await world.control("/page_hooks", { segment_id: SEGMENT, after: [change] });
  return world;
}
const isComplete = "SELECT last_complete_sync_at IS NOT NULL FROM person_data.segment";
const bases = "SELECT valid_from_basis AS basis FROM person_data.segment_membership_history GROUP BY 1";

test("a sweep is not complete when between its pages somebody leaves who was read already, and another one slips to their page", async () => {
  const world = await startChanging({ remove: 8, add: 0 });
  await world.run();
  expect(await world.value(isComplete)).toBe("f");
  await world.run();
  expect(await world.value(isComplete)).toBe("t");
  await expectExact(world);
  expect(await world.rows(bases)).toEqual([{ basis: "vendor" }]);
});

test("who was added while somebody left who wasn't read yet is found, since one member stands on two pages", async () => {
  const world = await startChanging({ remove: 2, add: 1 });
  expect(jobOf(await world.run(), "vip_members").requests).toBe(4);
  expect(await world.value(isComplete)).toBe("t");
  await expectExact(world);
  expect(await world.rows(bases)).toEqual([{ basis: "vendor" }]);
});

test("with --full-refresh readers never see fewer than those who stay, whoever is removed by it", async () => {
  const world = await startMembers(12_000, 9000);
  await world.run();
  const truth = await truthOf(world);
  const removed = [1, 4999, 5000, 7000, 11_998].map((i) => truth[i]?.service_pid ?? "");
  await world.control("/members", { segment_id: SEGMENT, remove: removed });
  const staying = `SELECT count(*) FILTER (WHERE NOT service_pid = ANY ('{${removed.join()}}')) AS staying
    FROM person_data.segment_member WHERE segment_id = '${SEGMENT}' AND is_member`;
  const report: RunReport[] = [];
  const { seen, asked } = await seenDuring(world, staying, async () => {
    report.push(await world.run({ fullRefresh: true }));
  });
  expect(report.map((run) => jobOf(run, "vip_members"))).toMatchObject([
    { status: "succeeded", records_received: expect.any(Number), rows_written: 10 },
  ]);
  expect([...seen]).toEqual(["11995"]);
  expect(asked).toBeGreaterThan(10);
  await expectExact(world);
});

test("members of one moment are all found by one run, though their order changes with every request", async () => {
  const world = await startMembers(80, 60, { membersPerPage: 10 });
  await world.control("/page_hooks", { segment_id: SEGMENT, ties: "every_request" });
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 160 });
  await expectExact(world);
  await expectSoundHistory(world);
  expect(await world.rows(syncs)).toMatchObject([{ current_size: "80", known_members: "80", added: "80" }]);
});

test("members on no page are told, and looked for again only so often", async () => {
  const world = await startMembers(40, 40, { membersPerPage: 10 });
  let first: unknown = null;
  let isTwice = true;
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) => {
    const page = Number(new URL(path, "http://service").searchParams.get("page"));
    if (!isTwice || !path.startsWith("/v2/segments/members?") || page > 2) return body;
    // The members of the first page are those of the second one, too.
    const { results, ...rest } = JSON.parse(body) as { results: { items: unknown } };
    if (page === 1) first = results.items;
    return JSON.stringify({ ...rest, results: { ...results, items: first } });
  });
  world.serviceUrl = url;
  const requests = 4 + 3 * 4;
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", requests });
  expect(world.logged).toContainEqual({
    level: "warn",
    event: "segment_members_missing",
    fields: { job: "vip_members", segment_id: SEGMENT, size: 40, missing: 10 },
  });
  expect(world.notes.at(-1)).toContain("10 members of the 40");
  isTwice = false;
  await world.run();
  await expectExact(world);
});

test("an emptied segment is empty, one that is gone is told and touches nobody", async () => {
  const world = await startMembers(30);
  await world.run();
  await world.control("/delete_segment", { segment_id: SEGMENT });
  const gone = jobOf(await world.run(), "vip_members");
  expect([gone.status, gone.error?.code, gone.rows_written]).toEqual(["failed", "segment_gone", 0]);
  expect(await world.value("SELECT count(*) FROM person_data.segment_member WHERE is_member")).toBe("30");
  await world.control("/segments", { segment_id: SEGMENT, name: "vip" });
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 60 });
  expect(await world.value("SELECT count(*) FROM person_data.segment_member WHERE is_member")).toBe("0");
});

test("faults on the way cost requests, not members", async () => {
  const world = await startMembers(11_000);
  await world.control("/faults", {
    faults: "500@members#2,cut_body@members#4,503@members#5",
  });
  const report = jobOf(await world.run({}, { random: () => 0 }), "vip_members");
  expect(report.status).toBe("succeeded");
  expect(report.retries).toBeGreaterThan(2);
  await expectExact(world);
});

test("status shows how far each segment was read, and what removals are pending", async () => {
  const world = await startMembers(100);
  expect((await readStatus(await world.services())).jobs).toMatchObject([{ checkpoints: [], segments: [] }]);
  await world.run({ runId: "night-1" });
  await world.rows("UPDATE person_data_ops.segment_sync SET removals_pending = 3");
  expect((await readStatus(await world.services())).jobs).toMatchObject([
    {
      checkpoints: [{ stream: SEGMENT, cursor: { unfinished: null, suppressed: 0 }, run_id: "night-1" }],
      segments: [
        { segment_id: SEGMENT, name: "VIP", current_size: 100, known_members: 100, removals_pending: 3 },
      ],
    },
  ]);
});

const OTHER = "22222222-2222-4222-8222-222222222222";

test("who comes back to a segment that was read when empty is one since then, whatever became of the checkpoint", async () => {
  const world = await startMembers(30);
  const pids = (await truthOf(world)).map(({ service_pid: pid }) => pid);
  await world.control("/members", { segment_id: SEGMENT, remove: pids });
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 0 });
  const bases = `SELECT string_agg(DISTINCT valid_from_basis, ' ') FROM person_data.segment_membership_history`;
  const readings: readonly (() => Promise<unknown>)[] = [
    () => world.run(),
    () => world.run({ fullRefresh: true }),
    async () => {
      const services = await world.services();
      const job = services.config.jobs.find(({ name }) => name === "vip_members");
      if (!job) throw new Error("The configuration has no vip_members.");
      await moveCheckpoints(services, job, "reset", async () => [{ stream: SEGMENT, cursor: null }]);
      await world.run();
    },
  ];
  for (const [i, read] of readings.entries()) {
    await world.control("/members", { segment_id: SEGMENT, add: pids.slice(i, i + 1) });
    await read();
    expect(await world.value(bases)).toBe("observed");
  }
  expect(await world.value("SELECT count(*) FROM person_data.segment_membership_history")).toBe("3");
});

/** Two segments of some pages. */
async function startTwo(jobs: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 20_000, config: configOf(jobs) });
  for (const [segmentId, name, members] of [
    [SEGMENT, "vip", 6000],
    [OTHER, "other", 30],
  ] as const) {
    await world.control("/segments", {
      segment_id: segmentId.toUpperCase(),
      name,
      members,
      at: "2026-10-01T00:00:00Z",
    });
  }
  return world;
}

const sizes = `SELECT segment_id, count(*) AS members FROM person_data.segment_member WHERE is_member GROUP BY 1 ORDER BY 1`;
const two = `
  vip_members: { type: segment_members, segments: [{ id: ${SEGMENT} }, { id: ${OTHER} }] }`;

test("a segment that can't be read hinders no other one, and all of it is told", async () => {
  const world = await startTwo(two);
  await world.control("/faults", {
    faults: Array.from({ length: 8 }, (_, i) => `500@members#${i + 2}`).join(),
  });
  const report = jobOf(await world.run({}, { random: () => 0 }), "vip_members");
  expect([report.status, report.error?.code, report.requests]).toEqual(["failed", "no_answer", 10]);
  expect(report.error?.message).toMatch(new RegExp(`^Segment ${SEGMENT}: GET /v2/segments/members: .*500`));
  expect(await world.rows(sizes)).toEqual([
    { segment_id: SEGMENT, members: "5000" },
    { segment_id: OTHER, members: "30" },
  ]);
  // What the interrupted reading had put aside is gone as well.
  expect(await world.value("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'segment_seen%'")).toBe("0");
  expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("10");
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded" });
  expect(await world.rows(sizes)).toEqual([
    { segment_id: SEGMENT, members: "6000" },
    { segment_id: OTHER, members: "30" },
  ]);
});

test("a service that answers no segment is asked about three of them only", async () => {
  const ids = Array.from({ length: 5 }, (_, i) => `${i}1111111-1111-4111-8111-111111111111`);
  const list = ids.map((id) => `{ id: ${id} }`).join(", ");
  const world = await startTwo(`
  vip_members: { type: segment_members, segments: [${list}] }`);
  await world.control("/faults", {
    faults: Array.from({ length: 40 }, (_, i) => `500@members#${i + 1}`).join(),
  });
  const report = jobOf(await world.run({}, { random: () => 0 }), "vip_members");
  expect([report.error?.code, report.requests]).toEqual(["no_answer", 24]);
  expect(ids.map((id) => report.error?.message.includes(id))).toEqual([true, true, true, false, false]);
});

test("a segment that can't be read is told also where a limit ends the job at the next one", async () => {
  const world = await startTwo(two);
  await world.control("/delete_segment", { segment_id: SEGMENT });
  await world.control("/faults", { faults: "429=1@members#2-" });
  // Waits of five minutes in no time.
  const clock = fastClock(1000);
  const limiter = createLimiter({ concurrency: 1, requestsPerSecond: null, clock });
  const report = jobOf(await world.run({}, { clock, limiter, random: () => 0 }), "vip_members");
  expect([report.status, report.error?.code]).toEqual(["failed", "segment_gone"]);
  expect(report.error?.message).toContain(SEGMENT);
  expect(report.error?.message).toContain("the plan's quota is used up");
});

test("a segment that is named twice is read once", async () => {
  const world = await startTwo(`
  vip_push: { type: segment_push, segment_id: ${SEGMENT}, sql: "select 'p-1' as service_pid", enabled: false }
  vip_members: { type: segment_members, segments: [{ id: ${SEGMENT}, name: VIP }, { job: vip_push }] }`);
  const report = jobOf(await world.run({ jobs: ["vip_members"] }), "vip_members");
  expect([report.status, report.requests]).toEqual(["succeeded", 2]);
  expect(await world.rows(syncs)).toMatchObject([{ added: "6000", known_members: "6000" }]);
  expect(await world.value("SELECT name FROM person_data.segment")).toBe("VIP");
});

test("calls whose commit failed stand in the ledger all the same", async () => {
  const world = await startTwo(two);
  const { warehouse } = world;
  const lost = new StopJobError("work_table_lost", "The list is lost.");
  const failing: Warehouse = {
    ...warehouse,
    async openSweep(run, options) {
      const sweep = await warehouse.openSweep(run, options);
      return options.segmentId === SEGMENT ? { ...sweep, add: () => Promise.reject(lost) } : sweep;
    },
  };
  const report = jobOf(await world.run({}, { db: failing.db }), "vip_members");
  expect([report.error?.code, report.requests]).toEqual(["work_table_lost", 2]);
  expect(
    await world.rows(
      `SELECT requests, records_received, (SELECT count(*) FROM person_data_ops.api_call) AS calls
       FROM person_data_ops.sync_run`,
    ),
  ).toEqual([{ requests: "2", records_received: "5030", calls: "2" }]);
});

test("a warehouse that is gone when a checkpoint is to be read is waited for", async () => {
  const world = await startTwo(`
  vip_push: { type: segment_push, name: VIP, sql: "select null as service_pid where false" }
  vip_members: { type: segment_members, segments: [{ id: ${SEGMENT} }, { job: vip_push }] }`);
  const { warehouse } = world;
  const failed = new Set<string>();
  let reads = 0;
  const unsteady: Warehouse = {
    ...warehouse,
    async readCheckpoints(job) {
      reads += 1;
      // Every second time.
      if (reads % 2 === 0) return warehouse.readCheckpoints(job);
      failed.add(job);
      throw new StopRunError("database_unreachable", "The warehouse can't be used.");
    },
  };
  const report = await world.run({}, { db: unsteady.db });
  expect(report.jobs.map(({ status }) => status)).toEqual(["succeeded", "succeeded"]);
  expect([failed.size, reads]).toEqual([2, 6]);
  expect(await world.rows(syncs)).toMatchObject([{ current_size: "6000" }, { current_size: "0" }]);
});
