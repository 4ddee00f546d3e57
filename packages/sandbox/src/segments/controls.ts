import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { Control } from "../http/route.ts";
import { SandboxError } from "../sandbox-error.ts";
import { microsText } from "../clock.ts";
import { HOME_ORGANIZATION } from "../organizations.ts";
import type { World } from "../world.ts";
import type { Segment } from "./segments.ts";

const count = z.int().min(0).default(0);
const pids = z.array(z.string()).default([]);
/** Microseconds since the epoch of an instant in UTC. */
const moment = z.iso
  .datetime({ offset: true })
  .transform((instant) => {
    const [, fraction = ""] = /\.(\d+)/.exec(instant) ?? [];
    return Date.parse(`${instant.slice(0, 19)}Z`) * 1000 + Number(fraction.slice(0, 6).padEnd(6, "0"));
  })
  .optional();

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
const deaths = z.strictObject({
  set: z.array(z.looseObject({ service_pid: z.string(), obituary_id: z.string() })).default([]),
  remove: pids,
});

/** Finds a segment of any organization. */
function segmentOf(world: World, segmentId: string): Segment {
  const wanted = segmentId.toLowerCase();
  const found = world.segments.all().find((segment) => segment.segmentId === wanted);
  if (!found) throw new SandboxError(`There is no segment ${segmentId}.`);
  return found;
}

function describe({ segmentId, name, description, organization, members, hooks: { served } }: Segment) {
  return {
    segment_id: segmentId,
    name,
    description,
    organization,
    current_size: members.size(),
    ever_members: members.ever.length,
    pages_served: served,
  };
}

function createSegment({ people, segments, clock }: World, wanted: z.output<typeof newSegment>) {
  if (wanted.members > people.count) {
    throw new SandboxError(`The population has ${people.count} people.`);
  }
  const { segment_id: segmentId = randomUUID(), name, description, organization } = wanted;
  const segment = segments.create({ segmentId, organization, name, description });
  if (!segment) throw new SandboxError("A segment with that name or id exists.");
  const day = clock.today();
  const endUs = wanted.at ?? Math.floor(clock.nowMs()) * 1000;
  for (let from = 0; from < wanted.members; from += wanted.batch) {
    const texts = Array.from({ length: Math.min(wanted.batch, wanted.members - from) }, (_, i) =>
      people.pidOf((wanted.first_person + from + i) % people.count, day),
    );
    const laterBatches = Math.ceil((wanted.members - from) / wanted.batch) - 1;
    segments.add(segment, texts, endUs - Math.round(laterBatches * wanted.seconds_between_batches * 1e6));
  }
  return describe(segment);
}

/** All segments, one of them, or with `/members` its present and former members in the order of their first addition. */
function readSegments(world: World, rest: string, query: URLSearchParams) {
  if (rest === "") return { segments: world.segments.all().map(describe) };
  const [segmentId = "", part] = rest.split("/");
  const segment = segmentOf(world, segmentId);
  if (part !== "members") return describe(segment);
  const { offset, limit } = paging.parse(Object.fromEntries(query));
  const members = segment.members.ever.slice(offset, offset + limit).map((member) => ({
    service_pid: world.segments.pidText(member.pid),
    first_added_at: microsText(member.firstAddedUs),
    last_added_at: microsText(member.lastAddedUs),
    is_member: member.isMember,
  }));
  return { ...describe(segment), members };
}

/** Controls of segments. */
export const SEGMENT_CONTROLS: Readonly<Record<string, Control>> = {
  "POST /segments": (world, { body }) => createSegment(world, newSegment.parse(body)),
  "GET /segments": (world, { rest, query }) => readSegments(world, rest, query),
  "POST /delete_segment": ({ segments }, { body }) => {
    const { segment_id: segmentId } = z.strictObject({ segment_id: z.string() }).parse(body);
    return segments.delete(segmentId) ? { deleted: segmentId } : null;
  },
  "POST /members": (world, { body }) => {
    const wanted = change.parse(body);
    const segment = segmentOf(world, wanted.segment_id);
    const removed = world.segments.remove(segment, wanted.remove);
    const added = world.segments.add(segment, wanted.add, wanted.at);
    return {
      n_deleted: removed.changed,
      n_added: added.changed,
      invalid_service_pids: [...removed.invalid, ...added.invalid],
      new_current_size: segment.members.size(),
    };
  },
  "POST /page_hooks": (world, { body }) => {
    const wanted = hooks.parse(body);
    const segment = segmentOf(world, wanted.segment_id);
    segment.hooks.served = 0;
    segment.hooks.churn = wanted.churn;
    segment.hooks.after.clear();
    for (const { page, ...pagesChange } of wanted.after) segment.hooks.after.set(page, pagesChange);
    segment.members.ties = wanted.ties;
    return describe(segment);
  },
  /** Sets signals, replacing those with the same id, and removes others. */
  "POST /deaths": ({ segments: { statedDeaths, hiddenDeaths, pidNumber } }, { body }) => {
    const { set, remove } = deaths.parse(body);
    for (const id of [...remove, ...set.map((signal) => signal.obituary_id)]) {
      hiddenDeaths.add(id);
      for (const signals of statedDeaths.values()) signals.delete(id);
    }
    for (const signal of set) {
      const pid = pidNumber(signal.service_pid);
      if (pid === null) throw new SandboxError("A signal names an unknown PID.");
      const signals = statedDeaths.get(pid) ?? new Map<string, string>();
      statedDeaths.set(pid, signals.set(signal.obituary_id, JSON.stringify(signal)));
    }
    const stated = [...statedDeaths.values()].reduce((sum, signals) => sum + signals.size, 0);
    return { stated, hidden: hiddenDeaths.size };
  },
};
