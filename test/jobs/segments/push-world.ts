import { expect } from "vitest";
import { StopJobError } from "../../../src/errors.ts";
import { configOf, jobOf, startWorld, unaccountedRows, type World } from "../world.ts";

/** Configuration of a push and of a job that reads its segment. */
export const config = (more = "mode: mirror, max_remove_ratio: 1") =>
  configOf(`
  vip_push: { type: segment_push, name: "VIP customers", description: The best, sql: "select pid as service_pid from crm.vip", ${more} }
  vip_members: { type: segment_members, segments: [{ job: vip_push }] }`);

/** People of the sandbox, and an empty table of people to push. */
export async function startPush({
  config: text = config(),
  ...sandbox
}: {
  config?: string;
  membersPerPage?: number;
} = {}) {
  const world = await startWorld({ rows: 0, people: 3000, config: text, ...sandbox });
  await world.control("/segments", { name: "everybody", members: 400 });
  // Answer of the sandbox's controls.
  const all = (await world.control("/segments")) as { segments: { segment_id: string }[] };
  const { members } = (await world.control(`/segments/${all.segments[0]?.segment_id}/members`)) as {
    members: { service_pid: string }[];
  };
  const pids = members.map(({ service_pid: pid }) => pid);
  await world.rows("CREATE TABLE crm.vip (pid text)");
  return { world, pids };
}

/** Replaces the people to push. */
export async function setVips(world: World, pids: readonly (string | null)[]): Promise<void> {
  await world.rows("TRUNCATE crm.vip");
  await world.rows(
    `INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${JSON.stringify(pids)}'::json)`,
  );
}

/** The service's segment. */
export interface SegmentTruth {
  readonly segment_id: string;
  readonly name: string;
}

/** The service's segment; null before it is created. */
export async function segmentOf(world: World, name = "VIP customers"): Promise<SegmentTruth | null> {
  // Answer of the sandbox's controls.
  const { segments } = (await world.control("/segments")) as { segments: SegmentTruth[] };
  return segments.find((segment) => segment.name === name) ?? null;
}

/** Sorted PIDs of the segment's members. */
export async function membersOf(world: World, name?: string): Promise<readonly string[]> {
  const segment = await segmentOf(world, name);
  // Answer of the sandbox's controls.
  const { members } = (await world.control(`/segments/${segment?.segment_id}/members?limit=100000`)) as {
    members: { service_pid: string; is_member: boolean }[];
  };
  return members
    .filter(({ is_member }) => is_member)
    .map(({ service_pid: pid }) => pid)
    .toSorted();
}

/** Services that call `hook` before each request of a path, with its number from 1. */
export async function before(world: World, path: string, hook: (n: number) => Promise<void> | void) {
  const { http } = await world.services();
  let n = 0;
  const request: typeof http.request = async (call) => {
    if (call.path.startsWith(path)) await hook((n += 1));
    return http.request(call);
  };
  return { http: { ...http, request } };
}

/** Ends the run like a kill: the request is never sent. */
export async function killedBefore(world: World, path: string, number = 1) {
  return before(world, path, (n) => {
    if (n === number) throw new StopJobError("killed", "Killed before the request.");
  });
}

/** Runs the push alone and checks that its counters add up. */
export async function push(world: World, ...args: Parameters<World["run"]>) {
  const job = jobOf(await world.run({ jobs: ["vip_push"], ...args[0] }, args[1]), "vip_push");
  expect(unaccountedRows(job)).toBe(0);
  return job;
}

/** Changes the segment as other users of the service do. */
export async function editSegment(
  world: World,
  change: { add?: readonly string[]; remove?: readonly string[] },
) {
  const segment = await segmentOf(world);
  await world.control("/members", { segment_id: segment?.segment_id, ...change });
}

/** PIDs sent for adding or removing, in all runs. */
export async function sentSoFar(world: World): Promise<number> {
  return Number(
    await world.value(
      "SELECT coalesce(sum(records_sent), 0) FROM person_data_ops.api_call WHERE endpoint LIKE '%members/%'",
    ),
  );
}
