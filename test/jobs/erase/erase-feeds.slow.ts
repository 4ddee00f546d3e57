import { expect, test } from "vitest";
import { erasePeople, leaveSegments, planErasure } from "../../../src/jobs/erase/erase.ts";
import { findTraces, findTracesAnywhere } from "../../load/suite/erased-couple.ts";
import { livingAt, segmentNamed } from "../../support/sandbox-control.ts";
import { configOf, jobOf, startWorld, unaccountedRows, type World } from "../world.ts";

const config = configOf(`
  vip_push: { type: segment_push, name: "VIP customers", sql: "select pid as service_pid from crm.vip" }
  vip_members: { type: segment_members, segments: [{ job: vip_push }] }
  deaths: { type: death_signals, segments: [{ job: vip_push }] }`);

/** PIDs of the service's segment. */
async function membersOf({ sandbox: { url } }: World, name: string): Promise<readonly string[]> {
  return livingAt(url, await segmentNamed(url, name));
}

async function traces(world: World, pid: string): Promise<readonly string[]> {
  return await findTraces({ sql: (text: string) => world.rows(text) }, [pid]);
}

/** A world with sixty people, ordered by PID, all returned by the query. */
async function startVips(): Promise<{ readonly world: World; readonly pids: readonly string[] }> {
  const world = await startWorld({ rows: 0, people: 3000, config });
  await world.control("/segments", { name: "everybody", members: 60 });
  const pids = (await membersOf(world, "everybody")).toSorted();
  await world.rows("CREATE TABLE crm.vip (pid text)");
  await world.rows(
    `INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${JSON.stringify(pids)}'::json)`,
  );
  return { world, pids };
}

/** Erases a person, like the command with `--remove-from-segments`. */
async function eraseFromSegments(world: World, pid: string): Promise<void> {
  const services = await world.services();
  const { found } = await planErasure(services, { pids: [pid], emails: [], rows: [] });
  await leaveSegments(services, found.people.pids);
  await erasePeople(services, found);
  await leaveSegments(services, found.people.pids);
}

/** Tables of any kind with rows of a person, except those kept on purpose. */
async function tracesAnywhere(world: World, pid: string): Promise<readonly string[]> {
  const names = await world.rows(`SELECT relname AS name FROM pg_class
    WHERE relnamespace = 'person_data_state'::regnamespace AND relkind IN ('r', 'p')`);
  const place = {
    sql: (text: string) => world.rows(text),
    tableNames: async () => names.flatMap(({ name }) => name ?? []),
    rowsText: async (table: string) =>
      JSON.stringify(await world.rows(`SELECT * FROM person_data_state.${table}`)),
  };
  return await findTracesAnywhere(place, [pid]);
}

test("a person erased during a push is in no table, and not sent later", async () => {
  const { world, pids } = await startVips();
  const { http } = await world.services();
  const [inFlight = "", notYet = ""] = [pids[3], pids[50]];
  // The whole request is refused, so it is halved.
  await world.control("/faults", { faults: "413=30@add" });
  let adds = 0;
  const left: string[] = [];
  const request: typeof http.request = async (asked) => {
    if (asked.path.endsWith("/members/add") && ++adds === 2) {
      for (const pid of [inFlight, notYet]) await eraseFromSegments(world, pid);
      for (const pid of [inFlight, notYet]) left.push(...(await tracesAnywhere(world, pid)));
    }
    return await http.request(asked);
  };
  const report = await world.run({ jobs: ["vip_push"] }, { http: { ...http, request } });
  const job = jobOf(report, "vip_push");
  expect(job).toMatchObject({ status: "succeeded", records_sent: 59, records_suppressed: 1 });
  expect(left).toEqual([]);
  expect([unaccountedRows(job), job.records_remaining]).toEqual([0, 0]);
  expect(await membersOf(world, "VIP customers")).toEqual(
    expect.arrayContaining(pids.filter((pid) => pid !== inFlight && pid !== notYet)),
  );
  expect(await membersOf(world, "VIP customers")).not.toContain(notYet);
  for (const pid of [inFlight, notYet]) expect(await tracesAnywhere(world, pid)).toEqual([]);
});

test("a PID that is found after the plan leaves the segments, too", async () => {
  const { world, pids } = await startVips();
  expect((await world.run({ jobs: ["vip_push"] })).status).toBe("succeeded");
  const services = await world.services();
  const row = { source: "customers", sourceKey: "1" };
  const { found } = await planErasure(services, { pids: [], emails: [], rows: [row] });
  const [pid = ""] = pids;
  await world.rows(`INSERT INTO person_data.resolution (job, source, source_key, is_match, service_pid, is_present, _synced_at, _run_id)
    VALUES ('resolve_customers', 'customers', '1', true, '${pid}', true, now(), 'r')`);
  const erased = await erasePeople(services, found);
  expect(erased.pids).toEqual([pid]);
  await leaveSegments(services, erased.pids);
  expect(await membersOf(world, "VIP customers")).not.toContain(pid);
});

test("an erased person is not in the list of a killed reading", async () => {
  const { world, pids } = await startVips();
  expect((await world.run()).status).toBe("succeeded");
  const [pid = ""] = pids;
  // As left by a killed run of a job that is no longer configured.
  await world.rows(`INSERT INTO person_data_state.segment_listed (job, segment_id, service_pid, _synced_at, _run_id)
    SELECT 'gone', 's-1', pid, now(), 'r' FROM crm.vip`);
  expect(await tracesAnywhere(world, pid)).toContain(`segment_listed: ${pid}`);
  await eraseFromSegments(world, pid);
  expect(await tracesAnywhere(world, pid)).toEqual([]);
});

test("an erased member comes back neither by a push, nor by a full sweep, nor by a death signal", async () => {
  const { world, pids } = await startVips();
  expect((await world.run()).status).toBe("succeeded");
  const [stays = "", leaves = ""] = pids;
  expect(await traces(world, stays)).toContain(`segment_member: ${stays}`);

  const services = await world.services();
  const left = [];
  for (const pid of [stays, leaves]) {
    const { found, memberOf, erasedAt } = await planErasure(services, { pids: [pid], emails: [], rows: [] });
    expect([memberOf, erasedAt]).toEqual([1, null]);
    if (pid === leaves) for (let time = 1; time <= 2; time++) left.push(await leaveSegments(services, [pid]));
    await erasePeople(services, found);
  }
  expect(left).toEqual([
    { segments: 1, removed: 1, refused: [] },
    { segments: 1, removed: 0, refused: [] },
  ]);
  expect(
    await world.rows(
      "SELECT endpoint, http_status, records_sent FROM person_data_ops.api_call WHERE job = 'erase'",
    ),
  ).toEqual(
    [1, 2].map(() => ({
      endpoint: "POST /v2/segments/members/remove",
      http_status: "200",
      records_sent: "1",
    })),
  );
  expect([...(await traces(world, stays)), ...(await traces(world, leaves))]).toEqual([]);
  const members = await membersOf(world, "VIP customers");
  expect([members.includes(stays), members.includes(leaves)]).toEqual([true, false]);

  for (const request of [{}, { fullRefresh: true }, { resend: true, yes: true }]) {
    const report = await world.run(request);
    expect([report.status, jobOf(report, "vip_push").records_suppressed]).toEqual(["succeeded", 2]);
    expect([...(await traces(world, stays)), ...(await traces(world, leaves))]).toEqual([]);
  }
  expect(await membersOf(world, "VIP customers")).not.toContain(leaves);

  // The warehouse knows neither of them as a member anymore.
  const again = await planErasure(services, { pids: [stays, leaves], emails: [], rows: [] });
  expect([again.memberOf, again.isKnown, again.erasedAt]).toEqual([0, false, expect.any(String)]);
  expect(await leaveSegments(services, again.found.people.pids)).toEqual({
    segments: 1,
    removed: 1,
    refused: [],
  });
  expect(await membersOf(world, "VIP customers")).not.toContain(stays);
  expect(await leaveSegments(services, [])).toEqual({ segments: 0, removed: 0, refused: [] });
});

test("a segment that the key may not change is named, and keeps no one from being erased", async () => {
  const { world, pids } = await startVips();
  expect((await world.run()).status).toBe("succeeded");
  const [pid = ""] = pids;
  await world.control("/faults", { faults: "forbidden@remove" });
  const left = await leaveSegments(await world.services(), [pid]);
  expect(left).toEqual({
    segments: 1,
    removed: 0,
    refused: [await segmentNamed(world.sandbox.url, "VIP customers")],
  });
});

test("segments of the configuration are left, too, even if no run has read them yet", async () => {
  const { world, pids } = await startVips();
  const [pid = ""] = pids;
  await world.control("/segments", { name: "board", members: 60 });
  const [everybody, board] = [
    await segmentNamed(world.sandbox.url, "everybody"),
    await segmentNamed(world.sandbox.url, "board"),
  ];
  world.configure(
    configOf(`
  fill: { type: segment_push, segment_id: ${everybody}, sql: "select pid as service_pid from crm.vip" }
  gone: { type: segment_members, segments: [{ id: 00000000-0000-4000-8000-000000000000 }] }
  deaths: { type: death_signals, segments: [{ id: ${board} }] }`),
  );
  const left = await leaveSegments(await world.services(), [pid]);
  expect(left.segments).toBe(3);
  expect(await membersOf(world, "everybody")).not.toContain(pid);
  expect(await membersOf(world, "board")).not.toContain(pid);
});
