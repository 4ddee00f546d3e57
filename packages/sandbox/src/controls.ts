import { microsText } from "./population/calendar.ts";
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { searchFailureCodes } from "../../../src/schemas/audience-search.ts";
import { faultPlanSchema, parseFaults } from "./faults/plan.ts";
import { readBody } from "./http/serve-request.ts";
import { HOME_ORGANIZATION } from "./organizations.ts";
import { fieldsOf } from "./population/person-fields.ts";
import { messageOf, SandboxError } from "./sandbox-error.ts";
import { jobOf, titlesNamed } from "./search/criteria.ts";
import { stateMembers } from "./search/search-jobs.ts";
import { type ContactRow, startJob, USUAL_PLAN } from "./search/searches.ts";
import type { Segment } from "./segments/segments.ts";
import type { World } from "./world.ts";

export const CONTROL_PREFIX = "/_sandbox";

const LOCAL_HOST = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/;

interface ControlCall {
  /** Parsed body; `{}` without one. */
  readonly body: unknown;
  /** Rest of the path after the control's name. */
  readonly rest: string;
}

/** Returns plain data to answer with, or null for 404. */
type Control = (world: World, call: ControlCall) => unknown;

function control<Body>(schema: z.ZodType<Body>, act: (world: World, body: Body) => unknown): Control {
  return (world, { body }) => act(world, schema.parse(body));
}

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
  /** First members: this many people of the population, from `first_person` on. */
  members: count,
  first_person: count,
  /** They are added in batches of one moment each, a minute apart, the last one `at` (now by default). */
  batch: z.int().min(1).default(10_000),
  at: moment,
});
const pageHooks = z.strictObject({
  segment_id: z.string(),
  /** Changes after a request for a page, counted from now on. */
  after: z.array(z.strictObject({ page: z.int().min(1), add: pids, remove: pids })).default([]),
  ties: z.enum(["stable", "until_changed", "every_request"]).default("until_changed"),
});
const course = {
  states: z.array(z.string()).optional(),
  /** Null: each reading of the status moves on by one state. */
  state_ms: z.int().min(0).nullable().default(USUAL_PLAN.stateMs),
};
const newContactJob = z.strictObject({
  ...course,
  job_id: z.uuid().optional(),
  job_type: z.enum(["contact_append", "contact_prospect"]),
  /** Requested titles, such as `cfo` or `nurse`. */
  titles: z.array(z.string()).min(1),
  /** Names or domains of companies, for `contact_append`; all by default. */
  companies: z.array(z.string()).optional(),
  /** For `contact_prospect`; all by default. */
  naics_codes: z.array(z.string()).optional(),
  /** Maximum number of stored results. */
  size: z.int().min(0).default(1000),
  billing: z.enum(["unlock", "page"]).default("unlock"),
  failure: z.string().nullable().default(null),
});

const timeOf = ({ clock }: World) => ({
  now: new Date(clock.nowMs()).toISOString(),
  moved_days: clock.movedDays,
});

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
  const { segment_id: segmentId = randomUUID(), name } = wanted;
  const segment = segments.create({ segmentId, organization: HOME_ORGANIZATION, name, description: null });
  if (!segment) throw new SandboxError("A segment with that name or id exists.");
  const day = clock.today();
  const endUs = wanted.at ?? Math.floor(clock.nowMs()) * 1000;
  for (let from = 0; from < wanted.members; from += wanted.batch) {
    const texts = Array.from({ length: Math.min(wanted.batch, wanted.members - from) }, (_, i) =>
      people.pidOf((wanted.first_person + from + i) % people.count, day),
    );
    const laterBatches = Math.ceil((wanted.members - from) / wanted.batch) - 1;
    segments.add(segment, texts, endUs - laterBatches * 60e6);
  }
  return describe(segment);
}

/** All segments, one of them, or with `/members` its present and former members in the order of their first addition. */
function readSegments(world: World, { rest }: ControlCall) {
  if (rest === "") return { segments: world.segments.all().map(describe) };
  const [segmentId = "", part] = rest.split("/");
  const segment = segmentOf(world, segmentId);
  if (part !== "members") return describe(segment);
  const members = segment.members.ever.map((member) => ({
    service_pid: world.segments.pidText(member.pid),
    first_added_at: microsText(member.firstAddedUs),
    last_added_at: microsText(member.lastAddedUs),
    is_member: member.isMember,
  }));
  return { ...describe(segment), members };
}

/** People whose current job has one of the titles at one of the companies. */
function findContacts({ people, clock }: World, wanted: z.output<typeof newContactJob>) {
  const day = clock.today();
  const titles = wanted.titles.map((title) => ({ title, standard: titlesNamed(title) }));
  const rows: ContactRow[] = [];
  for (let index = 0; index < people.count; index++) {
    const job = jobOf({ people, index, day });
    const matched = titles.find(({ standard }) => standard.has(job?.standard_work_title ?? ""));
    if (!job || !matched) continue;
    const { domain, members } = job.company;
    const names = [members.work_company_name, domain];
    const isAtCompany = wanted.companies?.some((company) => names.includes(company)) ?? true;
    const hasCode = wanted.naics_codes?.includes(members.work_company_naics_code ?? "") ?? true;
    if (isAtCompany && hasCode) rows.push({ index, matchedTitle: matched.title });
  }
  return rows;
}

/** Every control: method and path below {@link CONTROL_PREFIX}. */
const CONTROLS: Readonly<Record<string, Control>> = {
  "GET /": (world) => ({
    seed: world.seed,
    people: world.people.count,
    ...timeOf(world),
    capacity: world.capacity,
    faults: world.faults.current(),
  }),
  "GET /ledger": ({ ledger }) => ledger.snapshot(),
  "POST /reset": (world) => {
    world.reset();
    return timeOf(world);
  },
  "POST /faults": control(
    z.strictObject({ faults: z.union([z.string(), faultPlanSchema]) }),
    ({ faults }, { faults: plan }) => {
      faults.set(typeof plan === "string" ? parseFaults(plan) : plan);
      return { faults: faults.current() };
    },
  ),
  "POST /clock": control(z.strictObject({ days: z.number() }), (world, { days }) => {
    world.clock.movedDays += days;
    return timeOf(world);
  }),
  "POST /capacity": control(
    z.strictObject({
      records: z.int().min(0).nullable(),
      code: z
        .enum(["insufficient_record_capacity", "insufficient_credits"])
        .default("insufficient_record_capacity"),
    }),
    ({ capacity }, { records: recordsLeft, code }) => Object.assign(capacity, { recordsLeft, code }),
  ),
  "POST /billing": control(
    z.strictObject({ path: z.string(), per: z.enum(["record", "match"]) }),
    ({ billing: { perRecord } }, { path, per }) => {
      if (per === "record") perRecord.add(path);
      else perRecord.delete(path);
      return { per_record: [...perRecord] };
    },
  ),
  "POST /rate": control(
    z.strictObject({
      requests_per_second: z.number().positive().nullable(),
      retry_after: z.number().min(0).nullable().default(null),
    }),
    ({ rate }, wanted) => {
      rate.requestsPerSecond = wanted.requests_per_second;
      rate.retryAfterSeconds = wanted.retry_after;
      return wanted;
    },
  ),
  "GET /person": ({ people, clock }, { rest: pid }) => {
    const day = clock.today();
    const index = people.findByPid(decodeURIComponent(pid), day);
    if (index === null) return null;
    return { index, service_pid: people.pidOf(index, day), ...fieldsOf({ people, index, day }) };
  },

  "POST /segments": control(newSegment, createSegment),
  "GET /segments": readSegments,
  "POST /delete_segment": control(z.strictObject({ segment_id: z.string() }), ({ segments }, wanted) =>
    segments.delete(wanted.segment_id) ? { deleted: wanted.segment_id } : null,
  ),
  "POST /members": control(
    z.strictObject({ segment_id: z.string(), add: pids, remove: pids, at: moment }),
    (world, wanted) => {
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
  ),
  "POST /page_hooks": control(pageHooks, (world, { segment_id: segmentId, after, ties }) => {
    const segment = segmentOf(world, segmentId);
    segment.hooks = { served: 0, after: new Map(after.map((change) => [change.page, change])) };
    segment.members.ties = ties;
    return describe(segment);
  }),
  /** Sets signals, replacing those with the same id, and removes others. */
  "POST /deaths": control(
    z.strictObject({
      set: z.array(z.looseObject({ service_pid: z.string(), obituary_id: z.string() })).default([]),
      remove: pids,
    }),
    ({ segments: { statedDeaths, hiddenDeaths, pidNumber } }, { set, remove }) => {
      for (const id of [...remove, ...set.map((signal) => signal.obituary_id)]) {
        hiddenDeaths.add(id);
        for (const signals of statedDeaths.values()) signals.delete(id);
      }
      for (const signal of set) {
        const pid = pidNumber(signal.service_pid);
        if (pid === null) throw new SandboxError("A signal names an unknown PID.");
        const signals = statedDeaths.get(pid) ?? new Map<string, object>();
        statedDeaths.set(pid, signals.set(signal.obituary_id, signal));
      }
      const stated = [...statedDeaths.values()].reduce((sum, signals) => sum + signals.size, 0);
      return { stated, hidden: hiddenDeaths.size };
    },
  ),

  "POST /search_plan": control(
    z.strictObject({
      ...course,
      extent: z.enum(["preview", "full"]).default("full"),
      outcome: z.enum(["completed", ...searchFailureCodes]).default("completed"),
    }),
    ({ searches }, { states = USUAL_PLAN.states, state_ms: stateMs, extent, outcome }) => {
      searches.plan = { states, stateMs, extent, outcome };
      return searches.plan;
    },
  ),
  "GET /searches": ({ searches }) => ({
    plan: searches.plan,
    daily_record_limit: searches.dailyRecordLimit,
    searches: [...searches.stored.keys()],
    search_jobs: [...searches.jobs.values()],
    contact_jobs: [...searches.contactJobs.values()].map((job) => ({ ...job, rows: job.rows.length })),
  }),
  "POST /search_members": control(
    z.strictObject({ segment_id: z.string(), service_pids: z.array(z.string()) }),
    ({ searches, people }, { segment_id: segmentId, service_pids: wanted }) => {
      const job = searches.jobs.get(segmentId.toLowerCase());
      if (!job) return null;
      const known = wanted.flatMap((pid) => people.findByPid(pid, job.day) ?? []);
      if (known.length < wanted.length) throw new SandboxError("The members name nobody.");
      stateMembers(job, known);
      return { members: known.length };
    },
  ),
  "POST /daily_limit": control(z.strictObject({ records: z.int().min(0) }), ({ searches }, { records }) => {
    searches.dailyRecordLimit = records;
    return { records };
  }),
  "POST /contact_jobs": control(newContactJob, (world, wanted) => {
    const rows = findContacts(world, wanted);
    const jobId = (wanted.job_id ?? randomUUID()).toLowerCase();
    const { states = ["queued", "running"], state_ms: stateMs, failure, billing } = wanted;
    const plan = { states, stateMs, extent: "full" as const, outcome: failure ?? "completed" };
    world.searches.contactJobs.set(jobId, {
      ...startJob(HOME_ORGANIZATION, plan, world.clock),
      jobId,
      jobType: wanted.job_type,
      totalMatched: rows.length,
      rows: rows.slice(0, wanted.size),
      billing,
    });
    return { job_id: jobId };
  }),
};

/** Answers a control; controls need no key and are not in the ledger. */
export async function serveControl(
  world: World,
  request: IncomingMessage,
  response: ServerResponse,
  { pathname }: URL,
): Promise<void> {
  const [first = "", ...rest] = pathname.slice(CONTROL_PREFIX.length + 1).split("/");
  const found = CONTROLS[`${request.method ?? "GET"} /${first}`];
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const bytes = await readBody(request);
  // Browsers send the origin of a page; pages of other machines may not control the sandbox.
  const { origin } = request.headers;
  if (origin !== undefined && !LOCAL_HOST.test(URL.parse(origin)?.hostname ?? "")) {
    return answer(403, { message: "The sandbox takes no requests of web pages." });
  }
  try {
    const body: unknown = bytes && bytes.length > 0 ? JSON.parse(bytes.toString("utf8")) : {};
    const result = found?.(world, { body, rest: rest.join("/") }) ?? null;
    if (result !== null) return answer(200, result);
    answer(404, { message: "The sandbox has no such control, or nothing under that name." });
  } catch (error) {
    const problems = error instanceof SandboxError ? error.problems : [];
    answer(400, { message: messageOf(error), problems });
  }
}
