import { throwDice } from "../faults/dice.ts";
import type { World } from "../world.ts";
import type { MemberChange } from "./page-hooks.ts";
import type { Segment } from "./segments.ts";

/** Draws for each that is looked for, before giving up. */
const DRAWS = 50;

/** The random change after a request for a page: a pure function of the churn's seed, the request and the members. */
function chooseChange(world: World, segment: Segment): MemberChange {
  const { members, hooks } = segment;
  const { people, segments, clock } = world;
  if (!hooks.churn) return { add: [], remove: [] };
  const { seed, adds, readds, removes } = hooks.churn;
  const dice = throwDice(seed, hooks.served, 0);
  const chosen = new Set<number>();
  const choose = (count: number, draw: () => number | null): string[] => {
    const found: string[] = [];
    for (let draws = 0; found.length < count && draws < count * DRAWS; draws++) {
      const pid = draw();
      if (pid === null || chosen.has(pid)) continue;
      chosen.add(pid);
      found.push(segments.pidText(pid));
    }
    return found;
  };
  const drawKnown = (isMember: boolean) => () => members.firstFrom(dice.below(members.known), isMember);
  const drawNew = (): number | null => {
    const pid = segments.pidNumber(people.pidOf(dice.below(people.count), clock.today()));
    return pid === null || members.knows(pid) ? null : pid;
  };
  const remove = choose(removes, drawKnown(true));
  return { remove, add: [...choose(readds, drawKnown(false)), ...choose(adds, drawNew)] };
}

/** Notes that a page was read, and lets happen what is to happen before the next one. */
export function pageServed(world: World, segment: Segment): void {
  const { hooks } = segment;
  hooks.served += 1;
  for (const change of [hooks.after.get(hooks.served), chooseChange(world, segment)]) {
    if (!change) continue;
    if (change.remove.length > 0) world.segments.remove(segment, change.remove);
    if (change.add.length > 0) world.segments.add(segment, change.add);
  }
}
