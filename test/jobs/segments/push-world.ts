import { expect } from "vitest";
import { StopJobError } from "../../../src/errors.ts";
import { livingAt, segmentNamed } from "../../support/sandbox-control.ts";
import { configOf, jobOf, startWorld, unaccountedRows, type World } from "../world.ts";

/** Configuration of a push and of a job that reads its segment. */
export const config = (more = "mode: mirror, max_remove_ratio: 1") =>
  configOf(`
  vip_push: { type: segment_push, name: "VIP customers", description: The best, sql: "select pid as service_pid from crm.vip", ${more} }
  vip_members: { type: segment_members, segments: [{ job: vip_push }] }`);

type Services = Parameters<World["run"]>[1];

/** World with people of the sandbox, and an empty table of people to push. */
export async function startPush(text = config(), sandbox: { readonly membersPerPage?: number } = {}) {
  const world = await startWorld({ rows: 0, people: 3000, config: text, ...sandbox });
  await world.control("/segments", { name: "everybody", members: 400 });
  await world.rows("CREATE TABLE crm.vip (pid text)");
  const idOf = (name = "VIP customers") => segmentNamed(world.sandbox.url, name);
  /** Members of the service's segment, in the order of their first addition. */
  const listed = async (name?: string) => livingAt(world.sandbox.url, await idOf(name));
  /** Runs the push alone and checks that its counters add up. */
  const push = async (request: Parameters<World["run"]>[0] = {}, services: Services = {}) => {
    const report = await world.run({ jobs: ["vip_push"], ...request }, { random: () => 0, ...services });
    const job = jobOf(report, "vip_push");
    expect(unaccountedRows(job)).toBe(0);
    return job;
  };
  const fill = async (pids: readonly (string | null)[]) => {
    const rows = JSON.stringify(pids);
    await world.rows(
      `TRUNCATE crm.vip; INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${rows}'::json)`,
    );
  };
  return {
    world,
    pids: await listed("everybody"),
    idOf,
    listed,
    push,
    /** Replaces the people to push. */
    fill,
    /** Replaces the people to push, and runs the push. */
    send: async (pids: readonly (string | null)[], ...run: Parameters<typeof push>) => {
      await fill(pids);
      return push(...run);
    },
    /** Expects these people to be the members at the service. */
    expectMembers: async (pids: readonly string[], name?: string) => {
      expect((await listed(name)).toSorted()).toEqual(pids.toSorted());
    },
    /** Changes the segment as other users of the service do. */
    edit: async (change: { add?: readonly string[]; remove?: readonly string[] }) =>
      world.control("/members", { segment_id: await idOf(), ...change }),
    /** Services that call a hook before each request of a path. */
    before: async (path: string, hook: () => Promise<void> | void): Promise<Services> => {
      const { http } = await world.services();
      const request: typeof http.request = async (call) => {
        if (call.path.startsWith(path)) await hook();
        return http.request(call);
      };
      return { http: { ...http, request } };
    },
  };
}

/** Ends a run like a kill. */
export function kill(): never {
  throw new StopJobError("killed", "Killed before the request.");
}
