import { expect, test } from "vitest";
import { inspectInputs } from "../../../src/jobs/prepare.ts";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { exitCodeOf } from "../../../src/jobs/job.ts";
import { retryRejects } from "../../../src/load/runs/rejects.ts";
import { recordAnswers } from "../lookup/recording-proxy.ts";
import { configOf, jobOf } from "../world.ts";
import { config, kill, startPush } from "./push-world.ts";

const ADD = "/v2/segments/members/add";
const REMOVE = "/v2/segments/members/remove";

test("a query fills a segment, and later runs send the difference", async () => {
  const { world, pids, push, send, expectMembers } = await startPush();
  expect(await send([...pids.slice(0, 100), pids[0] ?? "", null, "p-nobody", "p-nobody"])).toMatchObject({
    status: "succeeded",
    records_read: 104,
    records_sent: 101,
    records_matched: 100,
    records_duplicate: 2,
    records_rejected: 2,
    records_rejected_before_sending: 1,
    records_unchanged: 0,
  });
  await expectMembers(pids.slice(0, 100));
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
      endpoint: `POST ${ADD}`,
    },
  ]);
  expect(await world.rows("SELECT name, description, source, current_size FROM person_data.segment")).toEqual(
    [{ name: "VIP customers", description: "The best", source: "api", current_size: "100" }],
  );
  expect(await push()).toMatchObject({
    records_sent: 0,
    records_unchanged: 101,
    rows_written: 0,
    requests: 1,
  });
  expect(await send(pids.slice(10, 120))).toMatchObject({ records_sent: 20, records_unchanged: 90 });
  await expectMembers(pids.slice(10, 120));
  const members = jobOf(await world.run({ jobs: ["vip_members"] }), "vip_members");
  expect(members).toMatchObject({ status: "succeeded", records_received: 110 });
});

test("what a push did is in its plan, its run and its segment, whether members are read in the same run or not", async () => {
  const { world, pids, send, fill, edit, push } = await startPush();
  const planned = async () => (await planJobs(await world.services(), ["vip_push"])).jobs[0];
  const sync =
    "SELECT known_members, added, removed, sent, push_added, redundant, push_removed, unknown, current_size FROM person_data_ops.segment_sync ORDER BY _synced_at";
  await send(pids.slice(0, 50));
  await edit({ add: pids.slice(50, 60) });
  await fill([...pids.slice(20, 80), "p-nobody", pids[20] ?? "", null]);
  const toSend = { records_to_send: 31, records_unchanged: 30, records_duplicate: 1, calls: 3 };
  expect(await planned()).toMatchObject({ ...toSend, records_read: 63, records_rejected_before_sending: 1 });
  expect((await planned())?.remarks).toContain("removes 20 members of the 50 that it added");
  const run = await world.run({ jobs: ["vip_push", "vip_members"] }, { random: () => 0 });
  // The ten that others added are found by the reading, before anything is sent.
  const did = { records_sent: 21, records_added: 20, records_redundant: 0, records_removed: 20 };
  expect(jobOf(run, "vip_push")).toMatchObject({ ...did, records_matched: 20, records_rejected: 2 });
  expect(await world.rows(sync)).toEqual([
    {
      known_members: null,
      added: "50",
      removed: "0",
      sent: "50",
      push_added: "50",
      redundant: "0",
      push_removed: "0",
      unknown: "0",
      current_size: "50",
    },
    {
      known_members: "60",
      added: "60",
      removed: "0",
      sent: "21",
      push_added: "20",
      redundant: "0",
      push_removed: "20",
      unknown: "1",
      current_size: "60",
    },
  ]);
  expect(await planned()).toMatchObject({ records_to_send: 0, records_unchanged: 61, calls: 1 });
  world.configure(config("mode: mirror"));
  await fill([]);
  expect(await planned()).toMatchObject({ needs_confirmation: true });
  expect(await push()).toMatchObject({ status: "limited", limited_by: "confirmation" });
});

test("a changed name is another segment; the old one stays as it is", async () => {
  const { world, pids, idOf, push, fill, send, expectMembers } = await startPush();
  await send(pids.slice(0, 50));
  world.configure(config().replace("VIP customers", "Opted out").replace("The best", "Nobody"));
  await fill(pids.slice(50, 80));
  const said = `another segment is created under the name "Opted out"; ${await idOf()} ("VIP customers"), which it filled so far, stays as it is`;
  expect((await planJobs(await world.services(), [])).jobs[0]?.remarks).toContain(said);
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 30, records_unchanged: 0 });
  expect(world.notes).toContain(said);
  await expectMembers(pids.slice(0, 50));
  await expectMembers(pids.slice(50, 80), "Opted out");
  const segments = "SELECT name, description, is_configured FROM person_data.segment ORDER BY name";
  expect(await world.rows(segments)).toEqual([
    { name: "Opted out", description: "Nobody", is_configured: "t" },
    { name: "VIP customers", description: "The best", is_configured: "f" },
  ]);
  expect(await push()).toMatchObject({ records_sent: 0, records_unchanged: 30, requests: 1 });
  world.configure(config());
  const { error } = await push();
  expect(error).toMatchObject({ code: "segment_exists" });
  expect(error?.message).toContain("set `segment_id:`");
});

test("a name changed together with an upgrade is another segment, too", async () => {
  const { world, pids, fill, push, send, expectMembers } = await startPush();
  await send(pids.slice(0, 50));
  // Earlier versions stored no name.
  await world.rows("UPDATE person_data_ops.checkpoint SET cursor = cursor - 'name'");
  await world.rows("DELETE FROM person_data_state.schema_migration WHERE name = '0012-records-of-pushes'");
  world.configure(config().replace("VIP customers", "Opted out"));
  await fill(pids.slice(50, 80));
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 30 });
  await expectMembers(pids.slice(0, 50));
  await expectMembers(pids.slice(50, 80), "Opted out");
});

test("a plan of a shard leaves feeds to the first one, as a run does", async () => {
  const { world } = await startPush();
  const jobsOf = async (index: number) =>
    (await planJobs(await world.services(), [], { shard: { index, count: 2 } })).jobs.map(({ job }) => job);
  expect([await jobsOf(0), await jobsOf(1)]).toEqual([["vip_push", "vip_members"], []]);
});

test("a query without the column is reported with the column to add", async () => {
  const { world } = await startPush();
  for (const [sql, hint] of [
    ['select pid as "Service_PID" from crm.vip', "Did you mean Service_PID? Its columns are: Service_PID."],
    ["select pid, pid as other from crm.vip", "Its columns are: pid, other."],
  ] as const) {
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
  }
});

test("a job behind a disabled push without a segment reports both", async () => {
  const { world } = await startPush(config("enabled: false"));
  const why = "vip_push has not created its segment yet and is disabled; enable it and run it first";
  const report = jobOf(await world.run({ jobs: ["vip_members"] }), "vip_members");
  expect(report.error).toMatchObject({ code: "segment_unknown", message: `vip_members: ${why}.` });
});

test("append keeps members that the query no longer returns", async () => {
  const { pids, send, expectMembers } = await startPush(config("mode: append"));
  await send(pids.slice(0, 50));
  expect(await send(pids.slice(40, 60))).toMatchObject({ status: "succeeded", records_sent: 10 });
  await expectMembers(pids.slice(0, 60));
});

test("mirror removes no member added by others, before or after", async () => {
  const { pids, send, edit, expectMembers } = await startPush();
  await send(pids.slice(0, 20));
  await edit({ add: pids.slice(30, 40) });
  await send(pids.slice(0, 35)); // five are already members, added by others
  expect(await send(pids.slice(0, 10))).toMatchObject({ status: "succeeded", records_sent: 0 });
  await expectMembers([...pids.slice(0, 10), ...pids.slice(30, 40)]);
});

test("more removals than max_remove_ratio need confirmation", async () => {
  const { pids, push, send, expectMembers } = await startPush(config("mode: mirror, max_remove_ratio: 0.1"));
  await send(pids.slice(0, 100));
  const stopped = await send(pids.slice(11, 120));
  expect(stopped).toMatchObject({
    status: "limited",
    limited_by: "confirmation",
    records_sent: 0,
    records_remaining: 20,
  });
  expect(stopped.error?.message).toContain("11 members of the 100 that it added");
  await expectMembers(pids.slice(0, 100));
  expect(await push({ yes: true })).toMatchObject({ status: "succeeded", records_sent: 20 });
  await expectMembers(pids.slice(11, 120));
});

test("each row without a PID has one open reject while the query returns it", async () => {
  const { world, pids, push, send } = await startPush();
  const rejects = () =>
    world.value(
      `SELECT count(*) FILTER (WHERE resolved_at IS NULL) || ' open, ' || count(resolved_at) || ' resolved, '
         || count(DISTINCT run_id) FILTER (WHERE resolved_at IS NULL) || ' run' FROM person_data.reject`,
    );
  const known = pids.slice(0, 3);
  await send([...known, null, " "]);
  expect(await push()).toMatchObject({ records_rejected: 2, rows_written: 0 });
  expect(await rejects()).toBe("2 open, 0 resolved, 1 run");
  await send([...known, null]);
  expect(await rejects()).toBe("1 open, 1 resolved, 1 run");
  await send([...known, null, null]);
  expect(await rejects()).toBe("2 open, 0 resolved, 1 run");
  await send(known);
  expect(await rejects()).toBe("0 open, 2 resolved, 0 run");
});

test("--max-records limits the PIDs added and removed, and the next run continues", async () => {
  const { world, pids, push, send, listed, expectMembers } = await startPush();
  const limited = { status: "limited", limited_by: "max_records" };
  const none = { ...limited, records_sent: 0, records_remaining: 50 };
  expect(await send(pids.slice(0, 50), { maxRecords: 0 })).toMatchObject(none);
  const some = { ...limited, records_sent: 20, records_remaining: 30 };
  expect(await push({ maxRecords: 20 })).toMatchObject(some);
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 30, records_unchanged: 20 });
  expect(await push({ maxRecords: 0 })).toMatchObject({ status: "succeeded", requests: 1 });
  // Ten to add, thirty to remove.
  const added = { ...limited, records_sent: 10, records_remaining: 0 };
  expect(await send(pids.slice(30, 60), { maxRecords: 15 })).toMatchObject(added);
  expect((await listed()).length).toBe(55);
  expect(await push({ maxRecords: 25 })).toMatchObject({ status: "succeeded", records_sent: 0 });
  await expectMembers(pids.slice(30, 60));
  const sent = "SELECT sum(records_sent) FROM person_data_ops.api_call WHERE endpoint LIKE '%members/%'";
  expect(await world.value(sent)).toBe("90");
});

test("people whom others removed or replaced are found by a changed size, by any change, and after a week", async () => {
  const { world, pids, push, send, edit, expectMembers } = await startPush();
  await send(pids.slice(0, 10));
  await edit({ remove: pids.slice(0, 3) });
  expect(await push()).toMatchObject({ records_sent: 3, records_unchanged: 7 });
  await edit({ remove: pids.slice(0, 1), add: pids.slice(20, 21) });
  expect(await push()).toMatchObject({ records_sent: 0, requests: 1 });
  expect(await send(pids.slice(0, 11))).toMatchObject({ records_sent: 2 });
  await edit({ remove: pids.slice(1, 2), add: pids.slice(21, 22) });
  await world.control("/clock", { days: 6.9 });
  expect(await push()).toMatchObject({ records_sent: 0, requests: 1 });
  await world.control("/clock", { days: 0.2 });
  expect(await push()).toMatchObject({ records_sent: 1 });
  await expectMembers([...pids.slice(0, 11), ...pids.slice(20, 22)]);
});

test("PIDs unknown to the service are sent again after a week, or by rejects retry", async () => {
  const { world, pids, push, send } = await startPush();
  await send([...pids.slice(0, 3), "p-nobody"]);
  expect(await send([...pids.slice(0, 4), "p-nobody"])).toMatchObject({
    records_sent: 1,
    records_rejected: 0,
  });
  const again = { records_sent: 1, records_rejected: 1 };
  await world.control("/clock", { days: 7.1 });
  expect(await push()).toMatchObject(again);
  expect(await push({ fullRefresh: true })).toMatchObject(again);
  expect(await push()).toMatchObject({ records_sent: 0, records_rejected: 0 });
  await retryRejects((await world.services()).db, { jobs: [], codes: ["unknown_pid"], rows: [] });
  expect(await push()).toMatchObject(again);
});

test("a checkpoint that claims a reading in the future, or at no time, makes one due", async () => {
  const { world, pids, push, send, edit } = await startPush();
  await send(pids.slice(0, 10));
  for (const [i, readAt] of ["2999-01-01T00:00:00Z", "yesterday"].entries()) {
    await edit({ remove: pids.slice(0, 3), add: pids.slice(20 + 3 * i, 23 + 3 * i) });
    await world.rows(
      `UPDATE person_data_ops.checkpoint SET cursor = jsonb_set(cursor, '{read_at}', '"${readAt}"') WHERE job = 'vip_push'`,
    );
    expect(await push()).toMatchObject({ records_sent: 3 });
    expect(await push()).toMatchObject({ records_sent: 0, requests: 1 });
  }
});

test("after a kill the people to add are added and own, except those whom others added meanwhile", async () => {
  const { pids, push, send, edit, before, expectMembers } = await startPush();
  await send(pids.slice(0, 5));
  const killed = await send(pids.slice(0, 8), {}, await before(ADD, kill));
  expect(killed).toMatchObject({ status: "failed", error: { code: "killed" }, records_remaining: 3 });
  await edit({ add: pids.slice(6, 8) });
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 1 });
  await send(pids.slice(0, 2));
  await expectMembers([...pids.slice(0, 2), ...pids.slice(6, 8)]);
});

test("a removal without an answer waits for the next reading", async () => {
  const { pids, push, send, edit, before, expectMembers } = await startPush();
  await send(pids.slice(0, 10));
  const lost = await send(pids.slice(0, 5), {}, await before(REMOVE, kill));
  expect(lost).toMatchObject({ status: "failed", error: { code: "killed" } });
  await edit({ remove: pids.slice(5, 6) });
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 0 });
  await expectMembers(pids.slice(0, 5));
});

test("a member who moved to another page while the segment was read stays", async () => {
  const { world, pids, idOf, send, listed, expectMembers } = await startPush(config(), {
    membersPerPage: 10,
  });
  await send(pids.slice(0, 15));
  // A member of the first page leaves after it was read, so another one moves there from the second page.
  const change = { page: 1, remove: (await listed()).slice(-1) };
  await world.control("/page_hooks", { segment_id: await idOf(), after: [change], ties: "stable" });
  expect(await send(pids.slice(0, 16))).toMatchObject({ status: "succeeded", records_sent: 1 });
  await send([]);
  await expectMembers([]);
});

test("mirror removes a person again whom it removed and added again, in a call refused at first or a full refresh", async () => {
  const { world, pids, send, expectMembers } = await startPush();
  await send(pids.slice(0, 20));
  await send(pids.slice(5, 20));
  for (const [faults, request] of [
    ["429@add#1", {}],
    ["", { fullRefresh: true }],
  ] as const) {
    await world.control("/faults", { faults });
    expect(await send(pids.slice(0, 20), request)).toMatchObject({ status: "succeeded", records_sent: 5 });
    await expectMembers(pids.slice(0, 20));
    await send(pids.slice(5, 20));
    await expectMembers(pids.slice(5, 20));
  }
});

test("calls that are too large are halved, until one PID alone is", async () => {
  const { world, pids, send, expectMembers } = await startPush();
  await world.control("/faults", { faults: "413=3@add,413=3@remove" });
  expect(await send(pids.slice(0, 11))).toMatchObject({ status: "succeeded", records_sent: 11 });
  await expectMembers(pids.slice(0, 11));
  expect(await send(pids.slice(0, 2))).toMatchObject({ status: "succeeded", records_sent: 0 });
  await expectMembers(pids.slice(0, 2));
  await world.control("/faults", { faults: "413=0@add" });
  expect(await send(pids.slice(0, 4))).toMatchObject({
    status: "failed",
    error: { code: "request_refused" },
  });
});

test("a plan that is used up ends a push as a limit, and the next run sends the rest", async () => {
  const { world, pids, push, fill, expectMembers } = await startPush();
  await fill(pids.slice(0, 11));
  await world.control("/faults", { faults: "402@add" });
  const report = await world.run({ jobs: ["vip_push"] });
  expect(exitCodeOf(report, null)).toBe(3);
  expect(jobOf(report, "vip_push")).toMatchObject({ status: "limited", limited_by: "credits" });
  await world.control("/faults", { faults: "" });
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 11 });
  await expectMembers(pids.slice(0, 11));
});

test("a segment that is deleted while it is filled is reported without claiming that nothing was changed", async () => {
  const { world, pids, idOf, push, send, before } = await startPush();
  await send(pids.slice(0, 10));
  const id = await idOf();
  const deleted = await before(REMOVE, async () => {
    await world.control("/delete_segment", { segment_id: id });
  });
  const stopped = await send(pids.slice(5, 15), {}, deleted);
  expect(stopped).toMatchObject({ status: "failed", records_sent: 5, error: { code: "segment_gone" } });
  expect(stopped.error?.message).toContain("Earlier changes are kept.");
  expect((await push()).error?.message).toContain("Nothing was changed.");
});

test("one redundant addition leaves the whole call in doubt, and its members are never removed", async () => {
  const { world, pids, send, edit, expectMembers } = await startPush(
    config("mode: mirror, max_remove_ratio: 0.1"),
  );
  await send(pids.slice(0, 10));
  const confirm = async () => {
    await edit({ add: pids.slice(12, 13) });
    return true;
  };
  expect(await send(pids.slice(5, 15), { confirm })).toMatchObject({ status: "succeeded", records_sent: 5 });
  await expectMembers(pids.slice(5, 15));
  await send(pids.slice(5, 10), { yes: true });
  await expectMembers(pids.slice(5, 15));
  expect((await readStatus(await world.services())).jobs[0]?.segments).toMatchObject([
    { name: "VIP customers", members_own: 5, members_in_doubt: 5 },
  ]);
});

test("an add without an answer, carried out or not, leaves its people in doubt after the retry", async () => {
  const { world, pids, send, expectMembers } = await startPush();
  for (const [from, faults] of [
    [0, "cut_body@add#1"],
    [5, "500@add#1"],
  ] as const) {
    await world.control("/faults", { faults });
    expect(await send(pids.slice(from, from + 5))).toMatchObject({ status: "succeeded", retries: 1 });
    await send(pids.slice(from, from + 2));
    await expectMembers(pids.slice(0, from + 5));
  }
});

test("a PID that the service calls invalid in another spelling is rejected under its own", async () => {
  const { world, pids, send } = await startPush();
  await recordAnswers(world, (path, body) =>
    path.endsWith("/add") ? body.replace("P-Nobody", "p-nobody") : body,
  );
  const counts = { records_sent: 4, records_matched: 3, records_rejected: 1 };
  expect(await send([...pids.slice(0, 3), "P-Nobody"])).toMatchObject(counts);
  expect(await world.value("SELECT source_key FROM person_data.reject")).toBe("P-Nobody");
});

test("a lost answer to the creation is explained, and `segment_id` resolves it", async () => {
  const { world, pids, idOf, push, send, expectMembers } = await startPush();
  await world.control("/faults", { faults: "cut_body@create#1" });
  const lost = await send(pids.slice(0, 5));
  expect(lost).toMatchObject({ status: "failed", error: { code: "segment_exists" } });
  expect(lost.error?.message).toMatch(/may have created it.*`segment_id:`/su);
  world.configure(config(`mode: mirror, segment_id: ${await idOf()}`));
  expect(await push()).toMatchObject({ status: "succeeded", records_sent: 5 });
  await expectMembers(pids.slice(0, 5));
});
