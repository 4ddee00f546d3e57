import { erasePeople, planErasure } from "../../../src/jobs/erase/erase.ts";
import type { World } from "../world.ts";

/** Erases a person as `erase --pid` would. */
export async function eraseByPid(world: World, pid: string): Promise<void> {
  const services = await world.services();
  const { found } = await planErasure(services, { pids: [pid], emails: [], rows: [] });
  await erasePeople(services, found);
}
