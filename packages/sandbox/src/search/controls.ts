import { randomUUID } from "node:crypto";
import { z } from "zod";
import { searchFailureCodes } from "../../../../src/schemas/audience-search.ts";
import type { Control } from "../http/route.ts";
import { SandboxError } from "../sandbox-error.ts";
import { HOME_ORGANIZATION } from "../organizations.ts";
import type { World } from "../world.ts";
import { jobOf, titlesNamed } from "./criteria.ts";
import { stateMembers } from "./search-jobs.ts";
import { type ContactRow, startProgress, USUAL_PLAN } from "./searches.ts";

const course = {
  states: z.array(z.string()).optional(),
  /** Null: each reading of the status moves on by one state. */
  state_ms: z.int().min(0).nullable().default(USUAL_PLAN.stateMs),
};
const plan = z.strictObject({
  ...course,
  extent: z.enum(["preview", "full"]).default("full"),
  outcome: z.enum(["completed", ...searchFailureCodes]).default("completed"),
});
const members = z.strictObject({ segment_id: z.string(), service_pids: z.array(z.string()) });
const limit = z.strictObject({ records: z.int().min(0) });
const contactJob = z.strictObject({
  ...course,
  job_id: z.uuid().optional(),
  job_type: z.enum(["contact_append", "contact_prospect"]),
  organization: z.string().default(HOME_ORGANIZATION),
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

/** People whose current job has one of the titles at one of the companies. */
function findContacts({ people, clock }: World, wanted: z.output<typeof contactJob>): readonly ContactRow[] {
  const day = clock.today();
  const titles = wanted.titles.map((title) => ({ title, standard: titlesNamed(title) }));
  const rows: ContactRow[] = [];
  for (let index = 0; index < people.count; index++) {
    const job = jobOf({ people, index, day });
    const matched = titles.find(({ standard }) => standard.has(job?.standardTitle ?? ""));
    if (!job || !matched) continue;
    const { name, domain, naics } = job.company;
    const isAtCompany = wanted.companies?.some((company) => company === name || company === domain) ?? true;
    const hasCode = wanted.naics_codes?.includes(naics ?? "") ?? true;
    if (isAtCompany && hasCode) rows.push({ index, matchedTitle: matched.title });
  }
  return rows;
}

/** Controls of searches and contact jobs. */
export const SEARCH_CONTROLS: Readonly<Record<string, Control>> = {
  "POST /search_plan": ({ searches }, { body }) => {
    const { states = USUAL_PLAN.states, state_ms: stateMs, extent, outcome } = plan.parse(body);
    searches.plan = { states, stateMs, extent, outcome };
    return searches.plan;
  },
  "GET /searches": ({ searches }) => ({
    plan: searches.plan,
    daily_record_limit: searches.dailyRecordLimit,
    searches: [...searches.stored.keys()],
    search_jobs: [...searches.jobs.values()],
    contact_jobs: [...searches.contactJobs.values()].map((job) => ({ ...job, rows: job.rows.length })),
  }),
  "POST /search_members": ({ searches, people }, { body }) => {
    const { segment_id: segmentId, service_pids: pids } = members.parse(body);
    const job = searches.jobs.get(segmentId.toLowerCase());
    if (!job) return null;
    const known = pids.flatMap((pid) => people.findByPid(pid, job.day) ?? []);
    if (known.length < pids.length) throw new SandboxError("The members name nobody.");
    stateMembers(job, known);
    return { members: known.length };
  },
  "POST /daily_limit": ({ searches }, { body }) => {
    searches.dailyRecordLimit = limit.parse(body).records;
    return { records: searches.dailyRecordLimit };
  },
  "POST /contact_jobs": (world, { body }) => {
    const wanted = contactJob.parse(body);
    const rows = findContacts(world, wanted);
    const jobId = (wanted.job_id ?? randomUUID()).toLowerCase();
    world.searches.contactJobs.set(jobId, {
      ...startProgress(world.clock.nowMs()),
      jobId,
      jobType: wanted.job_type,
      organization: wanted.organization,
      day: world.clock.today(),
      course: { states: wanted.states ?? ["queued", "running"], stateMs: wanted.state_ms },
      failure: wanted.failure,
      totalMatched: rows.length,
      rows: rows.slice(0, wanted.size),
      billing: wanted.billing,
      billable: null,
      unlockedMs: null,
    });
    return { job_id: jobId };
  },
};
