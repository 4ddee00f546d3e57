import { stampText } from "../population/calendar.ts";
import { randomUUID } from "node:crypto";
import { audienceSearchEndpoints, audienceSearchRequest } from "../../../../src/schemas/audience-search.ts";
import { notFound, type Outcome, plainBody, textsOf } from "../http/answer.ts";
import { type Route, route } from "../http/route.ts";
import type { World } from "../world.ts";
import { describeAudience, findAudience } from "./audience.ts";
import { parseQuery } from "./parse-query.ts";
import { type Page, resultRoutes } from "./result-routes.ts";
import { moveOn, normalizeQuery, ownOf, type SearchJob, type SearchPlan, startJob } from "./searches.ts";

/** States in which the count is known. `querying` isn't one: a more specific phase is unavailable. */
const COUNTED = ["computing_stats", "materializing", "exporting", "finalizing", "previewed"];
/** States in which the parsed criteria are known. */
const PARSED = ["building_query", "counting", ...COUNTED, "querying"];
const FAILURES: Readonly<Record<Exclude<SearchPlan["outcome"], "completed">, string>> = {
  search_criteria_failed: "The search could not be resolved with supported criteria.",
  search_processing_failed: "The search could not be processed.",
  search_timed_out: "The search exceeded its processing budget.",
  search_worker_lost: "The worker of the search was lost.",
  search_cancelled: "The search was cancelled.",
};

const stamp = (timeMs: number): string => stampText(timeMs, 0);

/** Members and statistics of searches, computed when they are first asked for. */
const audiences = new WeakMap<SearchJob, ReturnType<typeof searchPopulation>>();

async function searchPopulation({ people, searches }: World, job: SearchJob) {
  const { isMet } = parseQuery(job.query, searches.lexicon);
  const members = job.statedMembers ?? (isMet ? await findAudience(people, job.day, isMet) : []);
  return { members, stats: await describeAudience(people, job.day, members) };
}

function audienceOf(world: World, job: SearchJob) {
  const known = audiences.get(job) ?? searchPopulation(world, job);
  audiences.set(job, known);
  return known;
}

/** Replaces the members of a search while somebody reads them. */
export function stateMembers(job: SearchJob, members: readonly number[]): void {
  job.statedMembers = members;
  audiences.delete(job);
}

const submitRoute = route({
  ...audienceSearchEndpoints.submit,
  needsUserKey: true,
  body: audienceSearchRequest,
  answer({ searches, clock }, { organization, body }) {
    const query = normalizeQuery(body.query);
    const { isMet, unknown } = parseQuery(query, searches.lexicon);
    const isResolvable = isMet !== null && unknown.length === 0;
    const plan: SearchPlan = isResolvable
      ? searches.plan
      : { ...searches.plan, outcome: "search_criteria_failed" };
    const started = startJob(organization, plan, clock);
    const job: SearchJob = { ...started, segmentId: randomUUID(), query, statedMembers: null };
    searches.jobs.set(job.segmentId, job);
    const accepted = { segment_id: job.segmentId, status: "created", created_at: stamp(job.createdMs) };
    return { ...plainBody(accepted), status: 202 };
  },
});

function workerOf(state: string | null, nowMs: number) {
  if (state === "created") return { status: "queued", heartbeat_at: null };
  return { status: state === null ? "finished" : "running", heartbeat_at: stamp(nowMs) };
}

const statusRoute = route({
  ...audienceSearchEndpoints.status,
  needsUserKey: true,
  async answer(world, call) {
    const job = ownOf(world.searches.jobs, call);
    if (!job) return notFound("search");
    const { states, outcome, extent } = job.plan;
    const nowMs = world.clock.nowMs();
    const state = moveOn(job, nowMs);
    const isCompleted = state === null && outcome === "completed";
    const failure = state === null && outcome !== "completed" ? outcome : null;
    const end = failure === null ? "completed" : failure === "search_cancelled" ? "cancelled" : "failed";
    const { unknown, understood } = parseQuery(job.query, world.searches.lexicon);
    const isUnresolved = failure === "search_criteria_failed";
    const isParsed = state === null ? !isUnresolved : PARSED.includes(state);
    // The count stays once it was known, also when a later step fails.
    const isCounted =
      isCompleted || states.slice(0, job.passed + 1).some((passed) => COUNTED.includes(passed));
    const audience = isCounted ? await audienceOf(world, job) : null;
    const total = audience?.members.length ?? null;
    const suggestion = isUnresolved && unknown.length > 0 ? understood : null;
    const unresolved = unknown.length > 0 ? unknown : [job.query];
    return plainBody({
      segment_id: job.segmentId,
      status: state ?? end,
      error: failure && {
        code: failure,
        message: FAILURES[failure] + (suggestion ? ` Try: ${suggestion}` : ""),
        retryable: false,
      },
      materialization_extent: extent,
      created_at: stamp(job.createdMs),
      updated_at: stamp(job.updatedMs),
      full_criteria_tree: isParsed
        ? { node_type: "CRITERIA", criteria: job.query, node_status: "FULL" }
        : null,
      error_criteria: isUnresolved ? unresolved.map((criteria) => ({ criteria })) : null,
      suggested_search: suggestion,
      total_count: total,
      estimated_billable_count: total ?? 0,
      billable_count: job.billable,
      results_unlocked: job.unlockedMs !== null,
      stats: isCompleted ? (audience?.stats ?? null) : null,
      worker: workerOf(state, nowMs),
    });
  },
});

/** Charges once, and serves a page of PIDs. */
async function answerPage(world: World, job: SearchJob, { limit, offset }: Page): Promise<Outcome> {
  const { people, searches, segments, clock } = world;
  const { segmentId, organization, query, day } = job;
  const { members } = await audienceOf(world, job);
  let billed = 0;
  if (job.unlockedMs === null) {
    const charged = searches.deliveries.charge(organization, clock.nowMs(), members);
    if (typeof charged !== "number") return charged;
    billed = job.billable = charged;
    job.unlockedMs = clock.nowMs();
    // The members become a segment of the same ID.
    const name = `search ${segmentId}`;
    const segment = segments.create({ segmentId, organization, name, description: query });
    const everybody = members.map((index) => people.pidOf(index, day));
    if (segment) segments.add(segment, everybody);
  }
  const unlockedAt = stamp(job.unlockedMs);
  const results = members.slice(offset, offset + limit).map((index) => people.pidOf(index, day));
  return {
    kind: "results",
    results: textsOf(results),
    billed,
    body: (pids) => ({
      segment_id: segmentId,
      pids,
      total: members.length,
      returned: results.length,
      limit,
      offset,
      billable_count: job.billable,
      unlocked_at: unlockedAt,
    }),
  };
}

export const searchJobRoutes: readonly Route[] = [
  submitRoute,
  statusRoute,
  ...resultRoutes(audienceSearchEndpoints, {
    thing: "search",
    needsUserKey: true,
    jobsOf: ({ searches }) => searches.jobs,
    answerPage,
  }),
];
