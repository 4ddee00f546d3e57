import { throwDice } from "../faults/dice.ts";
import type { World } from "../world.ts";
import type { MemberChange, Segment } from "./segments.ts";

/** Draws per person looked for. */
const DRAWS = 50;

/** Random change after a request: a pure function of the churn's seed, the request and the members. */
function chooseChange(world: World, { members, hooks }: Segment): MemberChange {
  const { people, segments, clock } = world;
  if (!hooks.churn) return { add: [], remove: [] };
  const { seed, adds, readds, removes } = hooks.churn;
  const dice = throwDice(seed, hooks.served, 0);
  const choose = (count: number, draw: () => number | null): readonly string[] => {
    const found = new Set<number>();
    for (let draws = 0; found.size < count && draws < count * DRAWS; draws++) {
      const pid = draw();
      if (pid !== null) found.add(pid);
    }
    return Array.from(found, segments.pidText);
  };
  const ofKind = (isMember: boolean) => members.ever.filter((member) => member.isMember === isMember);
  const [present, former] = [ofKind(true), ofKind(false)];
  const drawNew = (): number | null => {
    const pid = segments.pidNumber(people.pidOf(dice.below(people.count), clock.today()));
    return pid === null || members.knows(pid) ? null : pid;
  };
  return {
    remove: choose(removes, () => present[dice.below(present.length)]?.pid ?? null),
    add: [...choose(readds, () => former[dice.below(former.length)]?.pid ?? null), ...choose(adds, drawNew)],
  };
}

/** Counts a page that was read, and makes the changes that follow it. */
export function pageServed(world: World, segment: Segment): void {
  const { hooks } = segment;
  hooks.served += 1;
  for (const change of [hooks.after.get(hooks.served), chooseChange(world, segment)]) {
    if (!change) continue;
    if (change.remove.length > 0) world.segments.remove(segment, change.remove);
    if (change.add.length > 0) world.segments.add(segment, change.add);
  }
}
