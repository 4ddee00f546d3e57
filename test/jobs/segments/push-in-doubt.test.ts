import { expect, test } from "vitest";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import {
  config,
  editSegment,
  killedBefore,
  membersOf,
  push,
  segmentOf,
  setVips,
  startPush,
} from "./push-world.ts";

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
  // In the meantime, others remove one of them.
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
