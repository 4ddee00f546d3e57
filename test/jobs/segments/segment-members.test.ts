import { expect, test } from "vitest";
import { createLimiter } from "../../../src/extract/limits.ts";
import { moveCheckpoints } from "../../../src/jobs/report/checkpoints.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { send, startService } from "../../extract/scripted-service.ts";
import {
  expectExact,
  expectSoundHistory,
  pidsOf,
  SEGMENT,
  startMembers,
  syncs,
  truthOf,
} from "./members-world.ts";
import { membersAt } from "../../support/sandbox-control.ts";
import { configOf, fastClock, jobOf, seenDuring, startWorld, type World } from "../world.ts";

// See segment-members.slow.ts for pages of the service's size.
const PAGE = { membersPerPage: 100 };

test("the first sync stores every page, which status shows; the second finds nothing changed", async () => {
  const world = await startMembers(220, 80, PAGE);
  expect(jobOf(await world.run({ runId: "night-1" }), "vip_members")).toMatchObject({
    status: "succeeded",
    requests: 3,
    records_read: 0,
    records_received: 220,
    rows_written: 440,
  });
  await expectExact(world);
  expect(
    await world.rows(
      "SELECT valid_from_basis AS basis, count(*) AS all, count(valid_to) AS closed FROM person_data.segment_membership_history GROUP BY 1",
    ),
  ).toEqual([{ basis: "vendor", all: "220", closed: "0" }]);
  expect(
    await world.rows(
      "SELECT name, current_size, source, last_checked_at >= last_complete_sync_at AS is_complete FROM person_data.segment",
    ),
  ).toEqual([{ name: "VIP", current_size: "220", source: null, is_complete: "t" }]);
  const shown = { segment_id: SEGMENT, name: "VIP", current_size: 220, known_members: 220 };
  expect((await readStatus(await world.services())).jobs).toMatchObject([
    {
      checkpoints: [{ stream: SEGMENT, cursor: { suppressed: 0 }, run_id: "night-1" }],
      segments: [{ ...shown, removals_pending: 0 }],
    },
  ]);
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 0 });
  expect(await world.rows(syncs)).toEqual([
    { current_size: "220", known_members: "220", added: "220", removed: "0", removals_pending: "0" },
    { current_size: "220", known_members: "220", added: "0", removed: "0", removals_pending: "0" },
  ]);
});

test("removals inside a page, at its edges and in ties over several pages are proven; returning members get a new interval", async () => {
  const world = await startMembers(240, 180, PAGE);
  await world.run();
  const truth = await truthOf(world);
  const pids = [0, 1, 99, 100, 179, 180, 239].map((i) => truth[i]?.service_pid ?? "");
  await world.control("/members", { segment_id: SEGMENT, remove: pids });
  const second = jobOf(await world.run(), "vip_members");
  expect(second).toMatchObject({ status: "succeeded", rows_written: 14 });
  await expectExact(world);
  await world.control("/members", { segment_id: SEGMENT, add: pids.slice(0, 3) });
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 6 });
  await expectExact(world);
  await expectSoundHistory(world);
  const intervals = `SELECT string_agg(concat_ws(' ', basis, is_open, n), ', ' ORDER BY basis) FROM (
    SELECT valid_from_basis AS basis, valid_to IS NULL AS is_open, count(*) AS n FROM person_data.segment_membership_history
    WHERE service_pid = ANY ('{${pids.join()}}') GROUP BY 1, 2) AS h`;
  expect(await world.value(intervals)).toBe("observed t 3, vendor f 7");
  const gone =
    "SELECT count(*) FROM person_data.segment_member WHERE removed_seen_at IS NOT NULL AND NOT is_member";
  expect(await world.value(gone)).toBe("4");
});

test("a removal in a tie over two pages is proven below a newer batch, whatever the digits of its second", async () => {
  const seconds = ["37.123456", "37.12345", "37.123", "37.5", "37"];
  const ids = seconds.map((_, i) => SEGMENT.replace("1", String(i + 2)));
  const config = configOf(`
  vip_members: { type: segment_members, segments: [${ids.map((id) => `{ id: ${id} }`).join(", ")}] }`);
  const world = await startWorld({ rows: 0, people: 20_000, config, membersPerPage: 10 });
  for (const [i, second] of seconds.entries()) {
    const at = `2026-10-01T00:00:${second}Z`;
    await world.control("/segments", { segment_id: ids[i], name: second, members: 50, batch: 20, at });
  }
  await world.run();
  const gone: unknown[] = [];
  for (const id of ids) {
    const pid = (await membersAt(world.sandbox.url, id))[25]?.service_pid;
    await world.control("/members", { segment_id: id, remove: [pid] });
    gone.push({ segment_id: id, service_pid: pid });
  }
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded", rows_written: 10 });
  const removed =
    "SELECT segment_id, service_pid FROM person_data.segment_member WHERE NOT is_member ORDER BY 1";
  expect(await world.rows(removed)).toEqual(gone);
});

test.each([
  ["a listed member leaves between two pages and another one moves up", { remove: 8, add: 0 }],
  ["one person is added while another one leaves", { remove: 2, add: 1 }],
])("a sweep is not complete if %s; the next run is exact", async (_what, { remove, add }) => {
  const world = await startMembers(14, 1, { membersPerPage: 10 });
  const truth = await truthOf(world);
  const change = { page: 1, remove: [truth[remove]?.service_pid], add: pidsOf(15, 15 + add) };
  await world.control("/page_hooks", { segment_id: SEGMENT, after: [change] });
  const isComplete = "SELECT last_complete_sync_at IS NOT NULL FROM person_data.segment";
  expect(jobOf(await world.run(), "vip_members").requests).toBe(2);
  expect(await world.value(isComplete)).toBe("f");
  await world.run();
  expect(await world.value(isComplete)).toBe("t");
  await expectExact(world);
  // Who was added during the reading has the time of the addition.
  const bases = "SELECT DISTINCT valid_from_basis FROM person_data.segment_membership_history";
  expect(await world.rows(bases)).toEqual([{ valid_from_basis: "vendor" }]);
});

test("readers never see fewer members than those who stay, also with --full-refresh", async () => {
  const world = await startMembers(240, 180, PAGE);
  await world.run();
  const truth = await truthOf(world);
  const removed = [1, 99, 100, 140, 238].map((i) => truth[i]?.service_pid ?? "");
  await world.control("/members", { segment_id: SEGMENT, remove: removed });
  const staying = `SELECT count(*) FILTER (WHERE NOT service_pid = ANY ('{${removed.join()}}')) AS staying
    FROM person_data.segment_member WHERE segment_id = '${SEGMENT}' AND is_member`;
  const { seen, asked } = await seenDuring(world, staying, async () => {
    const report = jobOf(await world.run({ fullRefresh: true }), "vip_members");
    expect(report).toMatchObject({ status: "succeeded", rows_written: 10 });
  });
  expect([...seen]).toEqual(["235"]);
  expect(asked).toBeGreaterThan(10);
  await expectExact(world);
});

test("members whose order changes with every request are reported as missing and found by later runs", async () => {
  const world = await startMembers(80, 60, { membersPerPage: 10 });
  await world.control("/page_hooks", { segment_id: SEGMENT, ties: "every_request" });
  expect(jobOf(await world.run(), "vip_members").status).toBe("succeeded");
  const countKnown = async () => Number(await world.value("SELECT count(*) FROM person_data.segment_member"));
  const known = await countKnown();
  expect(known).toBeLessThan(80);
  expect(world.logged).toContainEqual({
    level: "warn",
    event: "segment_members_missing",
    fields: { job: "vip_members", segment_id: SEGMENT, size: 80, missing: 80 - known },
  });
  expect(world.notes.at(-1)).toContain(`of the 80 of ${SEGMENT} not listed on any page`);
  for (let night = 0; night < 12 && (await countKnown()) < 80; night++) await world.run();
  await expectExact(world);
  await expectSoundHistory(world);
});

test("a removal that two readings don't confirm stays pending until the next run", async () => {
  const world = await startMembers(30, 1, { membersPerPage: 10 });
  await world.run();
  const [edge = ""] = (await truthOf(world)).slice(20, 21).map(({ service_pid: pid }) => pid);
  // At a page edge; another change follows between the two readings of these pages.
  await world.control("/members", { segment_id: SEGMENT, remove: [edge], add: pidsOf(30, 31) });
  const change = { page: 4, add: pidsOf(31, 32) };
  await world.control("/page_hooks", { segment_id: SEGMENT, after: [change] });
  expect(jobOf(await world.run(), "vip_members").status).toBe("succeeded");
  expect((await world.rows(syncs)).at(-1)).toMatchObject({ removed: "0", removals_pending: "1" });
  expect((await readStatus(await world.services())).jobs[0]?.segments).toMatchObject([
    { removals_pending: 1 },
  ]);
  expect(world.notes.at(-1)).toBe(`1 member of ${SEGMENT} not listed; removal not confirmed yet`);
  await world.run();
  expect((await world.rows(syncs)).at(-1)).toMatchObject({ removed: "1", removals_pending: "0" });
  await expectExact(world);
});

test("an emptied segment is empty; a deleted one is reported and changes no member", async () => {
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

const OTHER = "22222222-2222-4222-8222-222222222222";

test("people who return to a segment read as empty are members since then, whatever the checkpoint", async () => {
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

/** Two segments of several pages. */
async function startTwo(jobs: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 20_000, config: configOf(jobs), ...PAGE });
  for (const [segmentId, name, members] of [
    [SEGMENT, "vip", 120],
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

test("a segment that can't be read stops no other one, and every failure is reported", async () => {
  const world = await startTwo(two);
  await world.control("/faults", {
    faults: Array.from({ length: 8 }, (_, i) => `500@members#${i + 2}`).join(),
  });
  const report = jobOf(await world.run({}, { random: () => 0 }), "vip_members");
  expect([report.status, report.error?.code, report.requests]).toEqual(["failed", "no_answer", 10]);
  expect(report.error?.message).toMatch(new RegExp(`^Segment ${SEGMENT}: GET /v2/segments/members: .*500`));
  expect(await world.rows(sizes)).toEqual([
    { segment_id: SEGMENT, members: "100" },
    { segment_id: OTHER, members: "30" },
  ]);
  expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("10");
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "succeeded" });
  expect(await world.rows(sizes)).toEqual([
    { segment_id: SEGMENT, members: "120" },
    { segment_id: OTHER, members: "30" },
  ]);
});

test("three segments in a row without an answer end the job", async () => {
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

test("a segment that can't be read is reported also if a limit ends the job at the next one", async () => {
  const world = await startTwo(two);
  await world.control("/delete_segment", { segment_id: SEGMENT });
  await world.control("/faults", { faults: "429=1@members#2-" });
  // Skips waits of five minutes.
  const clock = fastClock(1000);
  const limiter = createLimiter({ concurrency: 1, requestsPerSecond: null, clock });
  const report = jobOf(await world.run({}, { clock, limiter, random: () => 0 }), "vip_members");
  expect([report.status, report.error?.code]).toEqual(["failed", "segment_gone"]);
  expect(report.error?.message).toContain(SEGMENT);
  expect(report.error?.message).toContain("the plan's quota is used up");
});

test("members without a PID are one reject of their segment, until they have one", async () => {
  const world = await startTwo(`
  vip_members: { type: segment_members, segments: [{ id: ${OTHER} }] }`);
  let pids: unknown[] = ["p-1", null, 7, ""];
  const service = await startService((_request, response) => {
    const items = pids.map((pid) => ({ service_pid: pid, first_added_at: "2026-11-01T00:00:00Z" }));
    const results = { items, total_count: pids.length, page: 1, list_continues: false };
    send(response, 200, { api_request_id: "r", results, request_completed_at: "2026-11-02T00:00:00Z" });
  });
  world.serviceUrl = service.url;
  const rejects = `SELECT source, code, message, resolved_at IS NULL AS is_open FROM person_data.reject`;
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({
    status: "succeeded",
    records_received: 4,
    records_rejected: 3,
  });
  expect(world.notes).toEqual([]);
  const message = `3 members of the segment ${OTHER} can't be stored: no usable PID.`;
  const reject = { source: OTHER, code: "unusable_member", message };
  expect(await world.rows(rejects)).toEqual([{ ...reject, is_open: "t" }]);
  pids = ["p-1", "p-2"];
  await world.run();
  expect(await world.rows(rejects)).toEqual([{ ...reject, is_open: "f" }]);
});

test("a segment named twice is read once", async () => {
  const world = await startTwo(`
  vip_push: { type: segment_push, segment_id: ${SEGMENT}, sql: "select 'p-1' as service_pid", enabled: false }
  vip_members: { type: segment_members, segments: [{ id: ${SEGMENT}, name: VIP }, { job: vip_push }] }`);
  const report = jobOf(await world.run({ jobs: ["vip_members"] }), "vip_members");
  expect([report.status, report.requests]).toEqual(["succeeded", 2]);
  expect(await world.rows(syncs)).toMatchObject([{ added: "120", known_members: "120" }]);
  expect(await world.value("SELECT name FROM person_data.segment")).toBe("VIP");
});

test("calls whose commit failed are in the ledger", async () => {
  const world = await startTwo(`
  vip_members: { type: segment_members, segments: [{ id: ${OTHER} }] }`);
  await world.rows(`CREATE FUNCTION crm.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
    CREATE TRIGGER refuse BEFORE INSERT ON person_data.segment_member FOR EACH ROW EXECUTE FUNCTION crm.refuse()`);
  expect(jobOf(await world.run(), "vip_members")).toMatchObject({ status: "failed", requests: 1 });
  expect(
    await world.rows(
      `SELECT requests, records_received, (SELECT count(*) FROM person_data_ops.api_call) AS calls
       FROM person_data_ops.sync_run`,
    ),
  ).toEqual([{ requests: "1", records_received: "30", calls: "1" }]);
});
