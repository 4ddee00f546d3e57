import { expect, test } from "vitest";
import { exitCodeOf } from "../../../src/jobs/job.ts";
import { retryRejects } from "../../../src/load/runs/rejects.ts";
import { jobOf } from "../world.ts";
import {
  before,
  editSegment,
  killedBefore,
  membersOf,
  push,
  segmentOf,
  sentSoFar,
  setVips,
  startPush,
} from "./push-world.ts";

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

test("people whom others replaced are found by any change, and after a week", async () => {
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

test("PIDs unknown to the service are sent again after a week, or by rejects retry", async () => {
  const { world, pids } = await startPush();
  await setVips(world, [...pids.slice(0, 3), "p-nobody"]);
  await push(world);
  await setVips(world, [...pids.slice(0, 4), "p-nobody"]);
  expect(await push(world)).toMatchObject({ records_sent: 1, records_rejected: 0 });
  await world.control("/clock", { days: 7.1 });
  expect(await push(world)).toMatchObject({ records_sent: 1, records_rejected: 1 });
  expect(await push(world, { fullRefresh: true })).toMatchObject({ records_sent: 1, records_rejected: 1 });
  expect(await push(world)).toMatchObject({ records_sent: 0, records_rejected: 0 });
  await retryRejects((await world.services()).db, { jobs: [], codes: ["unknown_pid"], rows: [] });
  expect(await push(world)).toMatchObject({ records_sent: 1, records_rejected: 1 });
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
  // A member of the first page leaves after it was read, so another one moves there from the second page.
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
