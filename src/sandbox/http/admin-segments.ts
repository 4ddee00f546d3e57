import { randomUUID } from "node:crypto";
import { z } from "zod";
import { FixConfigurationError } from "../../errors.ts";
import { microsOf } from "../../schemas/convert.ts";
import { HOME_ORGANIZATION } from "../organization.ts";
import type { Segment } from "../segments/segments.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";

/** A request to a control. */
interface ControlCall {
  /** Parsed body; `{}` without one. */
  readonly body: unknown;
  /** Rest of the path after the control's name. */
  readonly rest: string;
  readonly query: URLSearchParams;
}

/** Returns plain data to answer with, or null for 404. */
export type Control = (world: World, call: ControlCall) => unknown;

const count = z.int().min(0).default(0);
const pids = z.array(z.string()).default([]);
const moment = z.iso.datetime({ offset: true }).optional();

const newSegment = z.strictObject({
  segment_id: z.uuid().optional(),
  name: z.string().min(1),
  description: z.string().nullable().default(null),
  organization: z.string().default(HOME_ORGANIZATION),
  /** First members: this many people of the population, from `first_person` on. */
  members: count,
  first_person: count,
  /** They are added in batches of one moment each, the last one `at` (now by default). */
  batch: z.int().min(1).default(10_000),
  seconds_between_batches: z.number().positive().default(60),
  at: moment,
});
const change = z.strictObject({ segment_id: z.string(), add: pids, remove: pids, at: moment });
const hooks = z.strictObject({
  segment_id: z.string(),
  /** Changes after a request for a page, counted from now on. */
  after: z.array(z.strictObject({ page: z.int().min(1), add: pids, remove: pids })).default([]),
  churn: z
    .strictObject({ seed: z.int().default(1), adds: count, readds: count, removes: count })
    .nullable()
    .default(null),
  ties: z.enum(["stable", "until_changed", "every_request"]).default("until_changed"),
});
const paging = z.object({
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).default(10_000),
});

const microsecondsOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : microsOf(text);

const stampOf = (us: number): string => stampText(Math.floor(us / 1000), us % 1000, "z");

/** Finds a segment of any organization. */
function segmentOf(world: World, segmentId: string): Segment {
  const wanted = segmentId.toLowerCase();
  const found = world.segments.all().find((segment) => segment.segmentId === wanted);
  if (!found) throw new FixConfigurationError("no_such_segment", `There is no segment ${segmentId}.`);
  return found;
}

function describe({ segmentId, name, description, organization, members, hooks: { served } }: Segment) {
  return {
    segment_id: segmentId,
    name,
    description,
    organization,
    current_size: members.size,
    ever_members: members.ever.length,
    pages_served: served,
  };
}

function createSegment(world: World, body: unknown): unknown {
  const wanted = newSegment.parse(body);
  if (wanted.members > world.people.count) {
    throw new FixConfigurationError("too_many_members", `The population has ${world.people.count} people.`);
  }
  const { segment_id: segmentId = randomUUID(), name, description, organization } = wanted;
  const segment = world.segments.create({ segmentId, organization, name, description });
  if (!segment) throw new FixConfigurationError("name_taken", "A segment with that name or id exists.");
  const day = world.clock.today();
  const endUs = microsecondsOf(wanted.at) ?? Math.floor(world.clock.nowMs()) * 1000;
  const batches = Math.ceil(wanted.members / wanted.batch);
  for (let batch = 0; batch < batches; batch++) {
    const from = batch * wanted.batch;
    const count = Math.min(wanted.batch, wanted.members - from);
    const texts = Array.from({ length: count }, (_, i) =>
      world.people.pidOf((wanted.first_person + from + i) % world.people.count, day),
    );
    const ageUs = Math.round((batches - 1 - batch) * wanted.seconds_between_batches * 1_000_000);
    world.segments.add(segment, texts, endUs - ageUs);
  }
  return describe(segment);
}

function changeMembers(world: World, body: unknown): unknown {
  const wanted = change.parse(body);
  const segment = segmentOf(world, wanted.segment_id);
  const removed = world.segments.remove(segment, wanted.remove);
  const added = world.segments.add(segment, wanted.add, microsecondsOf(wanted.at));
  return {
    n_deleted: removed.changed,
    n_added: added.changed,
    invalid_service_pids: [...removed.invalid, ...added.invalid],
    new_current_size: segment.members.size,
  };
}

function setHooks(world: World, body: unknown): unknown {
  const wanted = hooks.parse(body);
  const segment = segmentOf(world, wanted.segment_id);
  segment.hooks.served = 0;
  segment.hooks.churn = wanted.churn;
  segment.hooks.after.clear();
  for (const { page, add, remove } of wanted.after) segment.hooks.after.set(page, { add, remove });
  segment.members.ties = wanted.ties;
  return describe(segment);
}

/** All segments, one of them, or with `/members` its present and former members in the order of their first addition. */
function readSegments(world: World, rest: string, query: URLSearchParams): unknown {
  if (rest === "") return { segments: world.segments.all().map(describe) };
  const [segmentId = "", part] = rest.split("/");
  const segment = segmentOf(world, segmentId);
  if (part !== "members") return describe(segment);
  const { offset, limit } = paging.parse(Object.fromEntries(query));
  return {
    ...describe(segment),
    members: segment.members.ever.slice(offset, offset + limit).map((member) => ({
      service_pid: world.segments.pidText(member.pid),
      first_added_at: stampOf(member.firstAddedUs),
      last_added_at: stampOf(member.lastAddedUs),
      is_member: member.isMember,
    })),
  };
}

const stated = z.strictObject({
  set: z.array(z.looseObject({ service_pid: z.string(), obituary_id: z.string() })).default([]),
  remove: z.array(z.string()).default([]),
});

/** Sets signals, replacing those with the same id, and removes others. */
function stateDeaths(world: World, body: unknown): unknown {
  const { set, remove } = stated.parse(body);
  const { byPid, hidden } = world.deaths;
  for (const id of [...remove, ...set.map((signal) => signal.obituary_id)]) {
    hidden.add(id);
    for (const signals of byPid.values()) signals.delete(id);
  }
  for (const signal of set) {
    const pid = world.segments.pidNumber(signal.service_pid);
    if (pid === null) throw new FixConfigurationError("no_such_pid", "A signal names an unknown PID.");
    const signals = byPid.get(pid) ?? new Map<string, string>();
    byPid.set(pid, signals.set(signal.obituary_id, JSON.stringify(signal)));
  }
  return { stated: [...byPid.values()].reduce((sum, signals) => sum + signals.size, 0), hidden: hidden.size };
}

/** Controls of segments. */
export const SEGMENT_CONTROLS: Readonly<Record<string, Control>> = {
  "POST /segments": (world, { body }) => createSegment(world, body),
  "GET /segments": (world, { rest, query }) => readSegments(world, rest, query),
  "POST /delete_segment": (world, { body }) => {
    const { segment_id: segmentId } = z.strictObject({ segment_id: z.string() }).parse(body);
    return world.segments.delete(segmentId) ? { deleted: segmentId } : null;
  },
  "POST /members": (world, { body }) => changeMembers(world, body),
  "POST /deaths": (world, { body }) => stateDeaths(world, body),
  "POST /page_hooks": (world, { body }) => setHooks(world, body),
};
