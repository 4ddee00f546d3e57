import { expect, test } from "vitest";
import { carryOutErasure, planErasure } from "../../src/jobs/erase.ts";
import { planJobs } from "../../src/jobs/plan.ts";
import { leaveSegments } from "../../src/jobs/leave-segments.ts";
import { findTraces } from "../load/suite/erasure.ts";
import { configOf, jobOf, startWorld, type World } from "./world.ts";

const config = configOf(`
  vip_push: { type: segment_push, name: "VIP customers", sql: "select pid as service_pid from crm.vip" }
  vip_members: { type: segment_members, segments: [{ job: vip_push }] }
  deaths: { type: death_signals, segments: [{ job: vip_push }] }`);

/** PIDs of the segment as the service has it. */
async function membersOf(world: World, name: string): Promise<readonly string[]> {
  // What the sandbox's controls answer.
  const { segments } = (await world.control("/segments")) as {
    segments: { segment_id: string; name: string }[];
  };
  const id = segments.find((segment) => segment.name === name)?.segment_id;
  const { members } = (await world.control(`/segments/${id}/members?limit=100000`)) as {
    members: { service_pid: string; is_member: boolean }[];
  };
  return members.filter(({ is_member }) => is_member).map(({ service_pid: pid }) => pid);
}

async function traces(world: World, pid: string): Promise<readonly string[]> {
  return await findTraces({ sql: (text: string) => world.rows(text) }, [pid]);
}

test("an erased member comes back neither by a push, nor by a full sweep, nor by a death signal", async () => {
  const world = await startWorld({ rows: 0, people: 3000, config });
  await world.control("/segments", { name: "everybody", members: 60 });
  const pids = await membersOf(world, "everybody");
  await world.rows("CREATE TABLE crm.vip (pid text)");
  await world.rows(
    `INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${JSON.stringify(pids)}'::json)`,
  );
  expect((await world.run()).status).toBe("succeeded");
  const [stays = "", leaves = ""] = pids;
  expect(await traces(world, stays)).toContain(`segment_member: ${stays}`);

  const services = await world.services();
  const left = [];
  for (const pid of [stays, leaves]) {
    const { found } = await planErasure(services, { pids: [pid], emails: [], rows: [] });
    if (pid === leaves) left.push(await leaveSegments(services, found.people.pids));
    if (pid === leaves) left.push(await leaveSegments(services, found.people.pids));
    await carryOutErasure(services, found);
  }
  expect(left).toEqual([
    { segments: 1, removed: 1 },
    { segments: 1, removed: 0 },
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
  expect((await planJobs(await world.services(), ["vip_push"])).jobs).toMatchObject([
    { records_suppressed: 2 },
  ]);
});
