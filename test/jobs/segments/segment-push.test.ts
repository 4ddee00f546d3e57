import { expect, test } from "vitest";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { inspectInputs } from "../../../src/jobs/prepare.ts";
import { configOf, jobOf } from "../world.ts";
import { config, membersOf, push, segmentOf, setVips, startPush } from "./push-world.ts";

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

test("a plan of a push counts the minimum and sends no request", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 100));
  const before = await world.control("/ledger");
  expect((await planJobs(await world.services(), [])).jobs).toMatchObject([
    {
      job: "vip_push",
      records_to_send: 0,
      calls: 1,
      remarks: [
        "more calls, one for each further page of 5,000 members and for each 10,000 PIDs to add or to remove",
      ],
    },
    { job: "vip_members", calls: 1, remarks: ["more calls, one for each further page of 5,000 members"] },
  ]);
  expect(await world.control("/ledger")).toEqual(before);
});

test("a changed name is another segment; the old one stays as it is", async () => {
  const { world, pids } = await startPush();
  await setVips(world, pids.slice(0, 50));
  await push(world);
  const old = await segmentOf(world);
  world.configure(config().replace("VIP customers", "Opted out").replace("The best", "Nobody"));
  await setVips(world, pids.slice(50, 80));
  const said = `another segment is created under the name "Opted out"; ${old?.segment_id} ("VIP customers"), which it filled so far, stays as it is`;
  const [plan] = (await planJobs(await world.services(), [])).jobs;
  expect(plan?.remarks).toContain(said);

  expect(await push(world)).toMatchObject({ status: "succeeded", records_sent: 30, records_unchanged: 0 });
  expect(world.notes).toContain(said);
  expect(await membersOf(world)).toEqual(pids.slice(0, 50).toSorted());
  expect(await membersOf(world, "Opted out")).toEqual(pids.slice(50, 80).toSorted());
  expect(
    await world.rows("SELECT name, description, current_size FROM person_data.segment ORDER BY name"),
  ).toEqual([
    { name: "Opted out", description: "Nobody", current_size: "30" },
    { name: "VIP customers", description: "The best", current_size: "50" },
  ]);
  expect(await push(world)).toMatchObject({ records_sent: 0, records_unchanged: 30, requests: 1 });

  world.configure(config());
  const { error } = await push(world);
  expect(error).toMatchObject({ code: "segment_exists" });
  expect(error?.message).toContain("set `segment_id:`");
});

test("a plan of a shard leaves feeds to the first one, as a run does", async () => {
  const { world } = await startPush();
  const jobsOf = async (index: number) =>
    (await planJobs(await world.services(), [], { shard: { index, count: 2 } })).jobs.map(({ job }) => job);
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
  await setVips(world, pids.slice(0, 35)); // five are already members, added by others
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
