import { expect, test } from "vitest";
import { StopJobError } from "../../../src/errors.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { inspectInputs } from "../../../src/jobs/verify-inputs.ts";
import { exitCodeOf } from "../../../src/jobs/run-report.ts";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import { configOf, jobOf, startWorld, unaccountedRows, type World } from "../world.ts";

const config = (more = "mode: mirror, max_remove_ratio: 1") =>
  configOf(`
  vip_push: { type: segment_push, name: "VIP customers", description: The best, sql: "select pid as service_pid from crm.vip", ${more} }
  vip_members: { type: segment_members, segments: [{ job: vip_push }] }`);

/** People of the sandbox, and a table of who is to be pushed. */
async function startPush({
  config: text = config(),
  ...sandbox
}: {
  config?: string;
  membersPerPage?: number;
} = {}) {
  const world = await startWorld({ rows: 0, people: 3000, config: text, ...sandbox });
  await world.control("/segments", { name: "everybody", members: 400 });
  // What the sandbox's controls answer.
  const all = (await world.control("/segments")) as { segments: { segment_id: string }[] };
  const { members } = (await world.control(`/segments/${all.segments[0]?.segment_id}/members`)) as {
    members: { service_pid: string }[];
  };
  const pids = members.map(({ service_pid: pid }) => pid);
  await world.rows("CREATE TABLE crm.vip (pid text)");
  return { world, pids };
}

async function setVips(world: World, pids: readonly (string | null)[]): Promise<void> {
  await world.rows("TRUNCATE crm.vip");
  await world.rows(
    `INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${JSON.stringify(pids)}'::json)`,
  );
}

interface SegmentTruth {
  readonly segment_id: string;
  readonly name: string;
}

/** The segment as the service has it; null before it is made. */
async function segmentOf(world: World, name = "VIP customers"): Promise<SegmentTruth | null> {
  // What the sandbox's controls answer.
  const { segments } = (await world.control("/segments")) as { segments: SegmentTruth[] };
  return segments.find((segment) => segment.name === name) ?? null;
}

async function membersOf(world: World, name?: string): Promise<readonly string[]> {
  const segment = await segmentOf(world, name);
  // As above.
  const { members } = (await world.control(`/segments/${segment?.segment_id}/members?limit=100000`)) as {
    members: { service_pid: string; is_member: boolean }[];
  };
  return members
    .filter(({ is_member }) => is_member)
    .map(({ service_pid: pid }) => pid)
    .toSorted();
}

/** Services that call `hook` before each request of a path, with its number from 1. */
async function before(world: World, path: string, hook: (n: number) => Promise<void> | void) {
  const { http } = await world.services();
  let n = 0;
  const request: typeof http.request = async (call) => {
    if (call.path.startsWith(path)) await hook((n += 1));
    return http.request(call);
  };
  return { http: { ...http, request } };
}

/** Ends the run as a kill does: the request is never made. */
async function killedBefore(world: World, path: string, number = 1) {
  return before(world, path, (n) => {
    if (n === number) throw new StopJobError("killed", "Killed before the request.");
  });
}

/** Runs the push alone and checks that its counters add up. */
async function push(world: World, ...args: Parameters<World["run"]>) {
  const job = jobOf(await world.run({ jobs: ["vip_push"], ...args[0] }, args[1]), "vip_push");
  expect(unaccountedRows(job)).toBe(0);
  return job;
}

test("a query fills a segment, and later runs send the difference", async () => {
  const { world, pids } = await startPush();
  await setVips(world, [...pids.slice(0, 100), pids[0] ?? "", null, "p-nobody", "p-nobody"]);
  expect(await push(world)).toMatchObject({
    status: "succeeded",
    records_read: 104,
    records_sent: 101,
    records_matched: 100,
    records_duplicate: 2,
    records_rejected: 2,
    records_rejected_before_sending: 1,
    records_unchanged: 0,
  });
  expect(await membersOf(world)).toEqual(pids.slice(0, 100).toSorted());
  expect(
    await world.rows(
      `SELECT r.source, r.source_key, r.stage, r.code, c.endpoint FROM person_data.reject AS r
      LEFT JOIN person_data_ops.api_call AS c ON c.api_request_id = r.api_request_id ORDER BY r.code`,
    ),
  ).toEqual([
    { source: "vip_push", source_key: null, stage: "input", code: "missing_key", endpoint: null },
    {
      source: "vip_push",
      source_key: "p-nobody",
      stage: "send",
      code: "unknown_pid",
      endpoint: "POST /v2/segments/members/add",
    },
  ]);
  expect(await world.rows("SELECT name, description, source, current_size FROM person_data.segment")).toEqual(
    [{ name: "VIP customers", description: "The best", source: "api", current_size: "100" }],
  );

  expect(await push(world)).toMatchObject({
    records_sent: 0,
    records_unchanged: 101,
    rows_written: 0,
    requests: 1,
  });

  await setVips(world, pids.slice(10, 120));
  expect(await push(world)).toMatchObject({ records_sent: 20, records_unchanged: 90 });
  expect(await membersOf(world)).toEqual(pids.slice(10, 120).toSorted());
  const members = jobOf(await world.run({ jobs: ["vip_members"] }), "vip_members");
  expect(members).toMatchObject({ status: "succeeded", records_received: 110 });
});

test("a plan of free calls counts the minimum and sends no request", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 100));
  const before = await world.control("/ledger");
  expect((await planJobs(await world.services(), [])).jobs).toMatchObject([
    {
      job: "vip_push",
      records_to_send: 0,
      calls: 1,
      remarks: [
        "free calls, one for each further page of 5,000 members and for each 10,000 PIDs to add or to remove",
      ],
    },
    { job: "vip_members", calls: 1, remarks: ["free calls, one for each further page of 5,000 members"] },
  ]);
  expect(await world.control("/ledger")).toEqual(before);
});

test("a plan of a shard leaves feeds to the first one, as a run does", async () => {
  const { world } = await startPush();
  const jobsOf = async (index: number) =>
    (await planJobs(await world.services(), [], { index, count: 2 })).jobs.map(({ job }) => job);
  expect([await jobsOf(0), await jobsOf(1)]).toEqual([["vip_push", "vip_members"], []]);
});

test.each([
  [
    'select pid as "Service_PID" from crm.vip',
    "Column names are case-sensitive here: the column is Service_PID.",
  ],
  ["select pid, pid as other from crm.vip", "Its columns are: pid, other."],
])("a query without the column is reported with the column to add: %s", async (sql, hint) => {
  const { world } = await startPush();
  world.configure(configOf(`\n  vip_push: { type: segment_push, name: VIP, sql: '${sql}' }`));
  const found = await world.config();
  const { problems } = await inspectInputs(found, world.warehouse.db, found.jobs);
  expect(problems).toEqual([
    {
      path: "jobs.vip_push.sql",
      message: "the query of `sql:` has no column service_pid.",
      hint: `${hint} Return the PIDs under that name: SELECT … AS service_pid.`,
    },
  ]);
});

test("a job behind a disabled push without a segment reports both", async () => {
  const { world } = await startPush({ config: config("enabled: false") });
  const why = "vip_push has not created its segment yet and is disabled; enable it and run it first";
  const report = jobOf(await world.run({ jobs: ["vip_members"] }), "vip_members");
  expect(report.error).toMatchObject({ code: "segment_unknown", message: `vip_members: ${why}.` });
});

test("append keeps members that the query no longer returns", async () => {
  const { world, pids } = await startPush({ config: config("mode: append") });
  await setVips(world, pids.slice(0, 50));
  await push(world);
  await setVips(world, pids.slice(40, 60));
  await push(world);
  expect(await membersOf(world)).toEqual(pids.slice(0, 60).toSorted());
});

test("mirror removes no member added by others, before or after", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 20));
  await push(world);
  const id = (await segmentOf(world))?.segment_id;
  await world.control("/members", { segment_id: id, add: pids.slice(30, 40) });
  await setVips(world, pids.slice(0, 35)); // five of them are there already, added by others
  await push(world);
  await setVips(world, pids.slice(0, 10));
  await push(world);
  expect(await membersOf(world)).toEqual([...pids.slice(0, 10), ...pids.slice(30, 40)].toSorted());
});

test("more removals than max_remove_ratio need confirmation", async () => {
  const { world, pids } = await startPush({ config: config("mode: mirror, max_remove_ratio: 0.1") });
  await setVips(world, pids.slice(0, 100));
  await push(world);
  await setVips(world, pids.slice(11, 120));
  const stopped = await push(world);
  expect(stopped).toMatchObject({
    status: "limited",
    limited_by: "confirmation",
    records_sent: 0,
    records_remaining: 20,
  });
  expect(stopped.error?.message).toContain("11 members of the 100 that it added");
  expect(await membersOf(world)).toEqual(pids.slice(0, 100).toSorted());
  expect(await push(world, { yes: true })).toMatchObject({ status: "succeeded", records_sent: 20 });
  expect(await membersOf(world)).toEqual(pids.slice(11, 120).toSorted());
});

test("rows without a PID count against max_reject_ratio of all rows of the query", async () => {
  const { world, pids } = await startPush({
    config: config("mode: mirror, max_remove_ratio: 1, max_reject_ratio: 0.05"),
  });
  await setVips(world, [...pids.slice(0, 99), null]);
  expect(await push(world)).toMatchObject({ status: "succeeded", records_rejected: 1 });
  expect(await push(world)).toMatchObject({ status: "succeeded", records_rejected: 1, records_sent: 0 });
  await setVips(world, [...pids.slice(0, 99), null, "p-nobody", pids[100] ?? ""]);
  const failed = await push(world);
  expect(failed).toMatchObject({ status: "failed", error: { code: "too_many_rejects" } });
  expect(failed.error?.message).toContain("1 of 2 PIDs were rejected");
  await setVips(world, [...pids.slice(0, 40), null, "", " \t", "\u00a0", null]);
  const empty = await push(world);
  expect(empty).toMatchObject({ error: { code: "too_many_rejects" }, records_rejected: 5, records_sent: 0 });
  expect(empty.error?.message).toContain("5 of 45 rows of the query have no service_pid");
});

test("each row without a PID has one open reject while the query returns it", async () => {
  const { world, pids } = await startPush({ config: config() });
  const open = () =>
    world.rows(
      `SELECT source, source_key, stage, code, run_id FROM person_data.reject WHERE resolved_at IS NULL`,
    );
  const resolved = () => world.value("SELECT count(resolved_at) FROM person_data.reject");
  const known = pids.slice(0, 3);
  await setVips(world, [...known, null, " "]);
  await push(world);
  const first = await open();
  const [{ run_id: firstRun } = {}] = first;
  const one = { source: "vip_push", source_key: null, stage: "input", code: "missing_key", run_id: firstRun };
  expect(first).toEqual([one, one]);
  expect(await push(world)).toMatchObject({ records_rejected: 2, rows_written: 0 });
  expect(await open()).toEqual([one, one]);
  await setVips(world, [...known, null]);
  await push(world);
  expect(await open()).toEqual([one]);
  expect(await resolved()).toBe("1");
  await setVips(world, [...known, null, null]);
  await push(world);
  expect(await open()).toEqual([one, one]);
  await setVips(world, known);
  await push(world);
  expect(await open()).toEqual([]);
  expect(await resolved()).toBe("2");
});

test("one redundant addition leaves the whole call in doubt, and its members are never removed", async () => {
  const { world, pids } = await startPush({ config: config("mode: mirror, max_remove_ratio: 0.1") });
  await setVips(world, pids.slice(0, 10));
  await push(world);
  await setVips(world, pids.slice(5, 15));
  const confirm = async () => {
    await editSegment(world, { add: pids.slice(12, 13) });
    return true;
  };
  expect(await push(world, { confirm })).toMatchObject({ status: "succeeded", records_sent: 5 });
  expect(await membersOf(world)).toEqual(pids.slice(5, 15).toSorted());
  await setVips(world, pids.slice(5, 10));
  await push(world, { yes: true });
  expect(await membersOf(world)).toEqual(pids.slice(5, 15).toSorted());
  expect((await readStatus(await world.services())).jobs[0]?.segments).toMatchObject([
    { name: "VIP customers", members_own: 5, members_in_doubt: 5 },
  ]);
});

test("PIDs unknown to the service leave no member of their call in doubt", async () => {
  const { world, pids } = await startPush();
  await setVips(world, [...pids.slice(0, 10), "p-nobody"]);
  expect(await push(world)).toMatchObject({ records_rejected: 1 });
  await setVips(world, pids.slice(0, 5));
  await push(world);
  expect(await membersOf(world)).toEqual(pids.slice(0, 5).toSorted());
});

test("a PID that the service calls invalid in another spelling is rejected under its own", async () => {
  const { world, pids } = await startPush();
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    path.endsWith("/add") ? body.replace("P-Nobody", "p-nobody") : body,
  );
  world.serviceUrl = url;
  await setVips(world, [...pids.slice(0, 3), "P-Nobody"]);
  expect(await push(world)).toMatchObject({ records_sent: 4, records_matched: 3, records_rejected: 1 });
  expect(await world.value("SELECT source_key FROM person_data.reject")).toBe("P-Nobody");
});

test("a lost answer to the creation is explained, and `segment_id` resolves it", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 5));
  await world.control("/faults", { faults: "cut_body@create#1" });
  const lost = await push(world, {}, { random: () => 0 });
  expect(lost).toMatchObject({ status: "failed", error: { code: "segment_exists" } });
  expect(lost.error?.message).toMatch(/may have created it.*`segment_id:`/su);
  const id = (await segmentOf(world))?.segment_id ?? "";
  world.configure(config(`mode: mirror, segment_id: ${id}`));
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 5 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 5).toSorted());
});

test.each([
  ["carried out", "cut_body@add#1"],
  ["not carried out", "500@add#1"],
])(
  "an add without an answer that was %s leaves its people in doubt after the retry",
  async (_what, faults) => {
    const { world, pids } = await startPush();
    await setVips(world, pids.slice(0, 5));
    await world.control("/faults", { faults });
    expect(await push(world, {}, { random: () => 0 })).toMatchObject({ status: "succeeded", retries: 1 });
    await setVips(world, pids.slice(0, 2));
    await push(world);
    expect(await membersOf(world)).toEqual(pids.slice(0, 5).toSorted());
  },
);

test("people whom a killed run was about to add are added by the next one", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 5));
  await push(world);
  await setVips(world, pids.slice(0, 8));
  await push(world, {}, await killedBefore(world, "/v2/segments/members/add"));
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 3 });
  await setVips(world, pids.slice(0, 2));
  await push(world);
  expect(await membersOf(world)).toEqual(pids.slice(0, 2).toSorted());
});

test("an add whose answer was lost adds every person, and leaves them in doubt", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 5));
  await push(world);
  await editSegment(world, { add: pids.slice(20, 25) });
  await world.control("/faults", { faults: "cut_body@add#1,500@remove#1" });
  await setVips(world, pids.slice(0, 25));
  expect(await push(world, {}, { random: () => 0 })).toMatchObject({ status: "succeeded", retries: 1 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 25).toSorted());
  await setVips(world, pids.slice(0, 2));
  await push(world, {}, { random: () => 0 });
  expect(await membersOf(world)).toEqual([...pids.slice(0, 2), ...pids.slice(5, 25)].toSorted());
});

test("a removal without an answer waits for the next reading", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 10));
  await push(world);
  await setVips(world, pids.slice(0, 5));
  const lost = await push(world, {}, await killedBefore(world, "/v2/segments/members/remove"));
  expect(lost).toMatchObject({ status: "failed", error: { code: "killed" } });
  // Others remove one of them meanwhile.
  await editSegment(world, { remove: pids.slice(5, 6) });
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 0 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 5).toSorted());
});

test("a query without service_pid is reported before anything happens", async () => {
  const { world } = await startPush();
  await world.rows("ALTER TABLE crm.vip RENAME pid TO other");
  await expect(world.run({ jobs: ["vip_push"] })).rejects.toMatchObject({
    problems: [{ path: "jobs.vip_push.sql" }],
  });
});

async function editSegment(world: World, change: { add?: readonly string[]; remove?: readonly string[] }) {
  const segment = await segmentOf(world);
  await world.control("/members", { segment_id: segment?.segment_id, ...change });
}

/** PIDs that were sent to be added or removed, in all runs. */
async function sentSoFar(world: World): Promise<number> {
  return Number(
    await world.value(
      "SELECT coalesce(sum(records_sent), 0) FROM person_data_ops.api_call WHERE endpoint LIKE '%members/%'",
    ),
  );
}

test("--max-records limits the PIDs added and removed, and the next run continues", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 50));
  const limited = { status: "limited", limited_by: "max_records" };
  expect(await push(world, { maxRecords: 0 })).toMatchObject({
    ...limited,
    records_sent: 0,
    records_remaining: 50,
  });
  expect(await push(world, { maxRecords: 20 })).toMatchObject({
    ...limited,
    records_sent: 20,
    records_remaining: 30,
  });
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 30, records_unchanged: 20 });
  expect(await push(world, { maxRecords: 0 })).toMatchObject({ status: "succeeded", requests: 1 });
  await setVips(world, pids.slice(30, 60)); // ten to add, thirty to remove
  expect(await push(world, { maxRecords: 15 })).toMatchObject({
    ...limited,
    records_sent: 10,
    records_remaining: 0,
  });
  expect((await membersOf(world)).length).toBe(55);
  expect(await push(world, { maxRecords: 25 })).toMatchObject({ status: "succeeded", records_sent: 0 });
  expect(await membersOf(world)).toEqual(pids.slice(30, 60).toSorted());
  expect(await sentSoFar(world)).toBe(50 + 10 + 30);
});

test("people whom others removed are added again when the size of the segment has changed", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 10));
  await push(world);
  await editSegment(world, { remove: pids.slice(0, 3) });
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 3, records_unchanged: 7 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 10).toSorted());
  expect(await push(world)).toMatchObject({ records_sent: 0, requests: 1 });
});

test("people whom others replaced are found by any change, and when full_sweep_every is over", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 10));
  await push(world);
  await editSegment(world, { remove: pids.slice(0, 1), add: pids.slice(20, 21) });
  expect(await push(world)).toMatchObject({ records_sent: 0, requests: 1 });
  await setVips(world, pids.slice(0, 11));
  expect(await push(world)).toMatchObject({ records_sent: 2 });
  await editSegment(world, { remove: pids.slice(1, 2), add: pids.slice(21, 22) });
  await world.control("/clock", { days: 6.9 });
  expect(await push(world)).toMatchObject({ records_sent: 0, requests: 1 });
  await world.control("/clock", { days: 0.2 });
  expect(await push(world)).toMatchObject({ records_sent: 1 });
  expect(await membersOf(world)).toEqual([...pids.slice(0, 11), ...pids.slice(20, 22)].toSorted());
});

test("PIDs unknown to the service are sent again when full_sweep_every is over", async () => {
  const { world, pids } = await startPush();
  await setVips(world, [...pids.slice(0, 3), "p-nobody"]);
  await push(world);
  await setVips(world, [...pids.slice(0, 4), "p-nobody"]);
  expect(await push(world)).toMatchObject({ records_sent: 1, records_rejected: 0 });
  await world.control("/clock", { days: 7.1 });
  expect(await push(world)).toMatchObject({ records_sent: 1, records_rejected: 1 });
  expect(await push(world, { fullRefresh: true })).toMatchObject({ records_sent: 1, records_rejected: 1 });
});

test.each(["2999-01-01T00:00:00Z", "yesterday"])(
  "a checkpoint that claims a reading at %s makes one due",
  async (readAt) => {
    const { world, pids } = await startPush();
    await setVips(world, pids.slice(0, 10));
    await push(world);
    await editSegment(world, { remove: pids.slice(0, 3), add: pids.slice(20, 23) });
    await world.rows(
      `UPDATE person_data_ops.checkpoint SET cursor = jsonb_set(cursor, '{read_at}', '"${readAt}"') WHERE job = 'vip_push'`,
    );
    expect(await push(world)).toMatchObject({ records_sent: 3 });
    expect(await push(world)).toMatchObject({ records_sent: 0, requests: 1 });
  },
);

test("people whom others added after a crash stay, and the others are added", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 5));
  await push(world);
  await setVips(world, pids.slice(0, 8));
  const killed = await push(world, {}, await killedBefore(world, "/v2/segments/members/add"));
  expect(killed).toMatchObject({ status: "failed", error: { code: "killed" }, records_remaining: 3 });
  await editSegment(world, { add: pids.slice(6, 8) });
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 1 });
  await setVips(world, pids.slice(0, 2));
  await push(world);
  expect(await membersOf(world)).toEqual([...pids.slice(0, 2), ...pids.slice(6, 8)].toSorted());
});

test("a member who moved to another page while the segment was read stays", async () => {
  const { world, pids } = await startPush({ membersPerPage: 10 });
  await setVips(world, pids.slice(0, 15));
  await push(world);
  const id = (await segmentOf(world))?.segment_id ?? "";
  // A member of the first page leaves after it was read: another one moves there from the second page.
  const { members } = (await world.control(`/segments/${id}/members`)) as {
    members: { service_pid: string }[];
  };
  const leaver = members.at(-1)?.service_pid ?? "";
  await world.control("/page_hooks", {
    segment_id: id,
    after: [{ page: 1, remove: [leaver] }],
    ties: "stable",
  });
  await setVips(world, pids.slice(0, 16));
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 1 });
  await setVips(world, []);
  await push(world);
  expect(await membersOf(world)).toEqual([]);
});

test.each([
  ["a call that is refused at first", "429@add#1", {}],
  ["a full refresh", "", { fullRefresh: true }],
])("mirror removes a person again whom it removed and added again in %s", async (_what, faults, request) => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 20));
  await push(world);
  await setVips(world, pids.slice(5, 20));
  await push(world);
  await setVips(world, pids.slice(0, 20));
  await world.control("/faults", { faults });
  await push(world, request, { random: () => 0 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 20).toSorted());
  await setVips(world, pids.slice(5, 20));
  await push(world);
  expect(await membersOf(world)).toEqual(pids.slice(5, 20).toSorted());
});

test("calls that are too large are halved, until one PID alone is", async () => {
  const { world, pids } = await startPush();
  await world.control("/faults", { faults: "413=3@add,413=3@remove" });
  await setVips(world, pids.slice(0, 11));
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 11 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 11).toSorted());
  await setVips(world, pids.slice(0, 2));
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 0 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 2).toSorted());
  await world.control("/faults", { faults: "413=0@add" });
  await setVips(world, pids.slice(0, 4));
  expect(await push(world)).toMatchObject({ status: "failed", error: { code: "request_refused" } });
});

test("a plan that is used up ends a push as a limit, and the next run sends the rest", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 11));
  await world.control("/faults", { faults: "402@add" });
  const report = await world.run({ jobs: ["vip_push"] });
  expect(exitCodeOf(report, null)).toBe(3);
  expect(jobOf(report, "vip_push")).toMatchObject({
    status: "limited",
    limited_by: "credits",
    error: { code: "credits" },
  });
  await world.control("/faults", { faults: "" });
  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 11 });
  expect(await membersOf(world)).toEqual(pids.slice(0, 11).toSorted());
});

test("a segment that is deleted while it is filled is reported without claiming that nothing was changed", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 10));
  await push(world);
  await setVips(world, pids.slice(5, 15));
  const deleted = await before(world, "/v2/segments/members/remove", async () => {
    await world.control("/delete_segment", { segment_id: (await segmentOf(world))?.segment_id });
  });
  const stopped = await push(world, {}, deleted);
  expect(stopped).toMatchObject({ status: "failed", records_sent: 5, error: { code: "segment_gone" } });
  expect(stopped.error?.message).toContain("Earlier changes are kept.");
  const next = await push(world);
  expect(next).toMatchObject({ status: "failed", error: { code: "segment_gone" } });
  expect(next.error?.message).toContain("Nothing was changed.");
});
