import { randomUUID } from "node:crypto";
import type { z } from "zod";
import { audienceSearchEndpoints, audienceSearchRequest } from "../../schemas/audience-search.ts";
import { checkAgainst } from "../http/check-request.ts";
import { type Outcome, type Refusal, refuse } from "../http/outcome.ts";
import { listOf, writeResults } from "../http/result-list.ts";
import { describeAudience, findAudience } from "../search/audience.ts";
import { parseQuery } from "../search/parse-query.ts";
import { hasEnded, moveOn, startProgress } from "../search/progress.ts";
import { ownOf, type SearchJob, type SearchPlan } from "../search/searches.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { normalizeQuery } from "./person-search.ts";
import { checkId, checkPage, pageOf } from "./result-pages.ts";
import type { Route, RouteCall } from "./route.ts";

/** States in which the count is known. `querying` isn't one: a more specific phase is unavailable. */
const COUNTED: ReadonlySet<string> = new Set([
  "computing_stats",
  "materializing",
  "exporting",
  "finalizing",
  "previewed",
]);
/** States in which the parsed criteria are known. */
const PARSED: ReadonlySet<string> = new Set(["building_query", "counting", ...COUNTED, "querying"]);
const FAILURES: Readonly<Record<Exclude<SearchPlan["outcome"], "completed">, string>> = {
  search_criteria_failed: "The search could not be resolved with supported criteria.",
  search_processing_failed: "The search could not be processed.",
  search_timed_out: "The search exceeded its processing budget.",
  search_worker_lost: "The worker of the search was lost.",
  search_cancelled: "The search was cancelled.",
};

const noSuchSearch = (): Refusal => refuse(404, "not_found", "There is no such search.");
const stamp = (timeMs: number): string => stampText(timeMs, 0, "z");
const plain = (body: object): Outcome => ({
  kind: "results",
  results: writeResults(0).finish(),
  wrap: () => [JSON.stringify(body), ""],
});

/** Members and statistics of searches, computed when they are first asked for. */
const audiences = new WeakMap<SearchJob, Promise<Audience>>();

interface Audience {
  readonly members: readonly number[];
  readonly stats: Awaited<ReturnType<typeof describeAudience>>;
}

async function searchPopulation({ people, searches }: World, job: SearchJob): Promise<Audience> {
  const { expression } = parseQuery(job.query, searches.lexicon);
  const members = job.statedMembers ?? (expression ? await findAudience(people, job.day, expression) : []);
  return { members, stats: await describeAudience(people, job.day, members) };
}

function audienceOf(world: World, job: SearchJob): Promise<Audience> {
  const known = audiences.get(job) ?? searchPopulation(world, job);
  audiences.set(job, known);
  return known;
}

/** Replaces the members of a search while somebody reads them. */
export function stateMembers(job: SearchJob, members: readonly number[]): void {
  job.statedMembers = members;
  audiences.delete(job);
}

/** `POST /person-search/v0/search-jobs`. */
const submitRoute: Route = {
  ...audienceSearchEndpoints.submit,
  needsUserKey: true,
  check: ({ body }) => checkAgainst(audienceSearchRequest, body),
  answer({ searches, clock }, { organization, body }) {
    // It passed the check.
    const query = normalizeQuery((body as z.infer<typeof audienceSearchRequest>).query);
    const { expression, unknown } = parseQuery(query, searches.lexicon);
    const isResolvable = expression !== null && unknown.length === 0;
    const job: SearchJob = {
      ...startProgress(clock.nowMs()),
      segmentId: randomUUID(),
      organization,
      query,
      day: clock.today(),
      plan: isResolvable ? searches.plan : { ...searches.plan, outcome: "search_criteria_failed" },
      billable: null,
      unlockedMs: null,
      statedMembers: null,
    };
    searches.jobs.set(job.segmentId, job);
    const body202 = { segment_id: job.segmentId, status: "created", created_at: stamp(job.createdMs) };
    return { ...plain(body202), status: 202 };
  },
};

/** Final status of a search. */
function finalStatus({ outcome }: SearchPlan): string {
  if (outcome === "completed") return "completed";
  return outcome === "search_cancelled" ? "cancelled" : "failed";
}

async function describeJob(world: World, job: SearchJob): Promise<object> {
  const { states, outcome, extent } = job.plan;
  const nowMs = world.clock.nowMs();
  const state = moveOn(job, job.plan, nowMs);
  const isCompleted = state === null && outcome === "completed";
  const failure = state === null && outcome !== "completed" ? outcome : null;
  const { unknown, understood } = parseQuery(job.query, world.searches.lexicon);
  const isUnresolved = failure === "search_criteria_failed";
  const isParsed = state === null ? !isUnresolved : PARSED.has(state);
  // The count stays once it was known, also when a later step fails.
  const isCounted = isCompleted || states.slice(0, job.passed + 1).some((passed) => COUNTED.has(passed));
  const audience = isCounted ? await audienceOf(world, job) : null;
  const total = audience?.members.length ?? null;
  const suggestion = unknown.length > 0 ? understood : null;
  return {
    segment_id: job.segmentId,
    status: state ?? finalStatus(job.plan),
    error: failure && {
      code: failure,
      message: FAILURES[failure] + (isUnresolved && suggestion ? ` Try: ${suggestion}` : ""),
      retryable: false,
    },
    materialization_extent: extent,
    created_at: stamp(job.createdMs),
    updated_at: stamp(job.updatedMs),
    full_criteria_tree: isParsed ? { node_type: "CRITERIA", criteria: job.query, node_status: "FULL" } : null,
    error_criteria: isUnresolved ? criteriaOf(unknown, job.query) : null,
    suggested_search: isUnresolved ? suggestion : null,
    total_count: total,
    estimated_billable_count: total ?? 0,
    billable_count: job.billable,
    results_unlocked: job.unlockedMs !== null,
    stats: isCompleted ? (audience?.stats ?? null) : null,
    worker: workerOf(state, nowMs),
  };
}

function criteriaOf(unknown: readonly string[], query: string) {
  return (unknown.length > 0 ? unknown : [query]).map((criteria) => ({ criteria }));
}

function workerOf(state: string | null, nowMs: number) {
  if (state === "created") return { status: "queued", heartbeat_at: null };
  return { status: state === null ? "finished" : "running", heartbeat_at: stamp(nowMs) };
}

/** `GET /person-search/v0/search-jobs/{segment_id}`. */
const statusRoute: Route = {
  ...audienceSearchEndpoints.status,
  needsUserKey: true,
  check: (call) => checkId("segment_id", call),
  async answer(world, { organization, id }) {
    const job = ownOf(world.searches.jobs, organization, id);
    return job ? plain(await describeJob(world, job)) : noSuchSearch();
  },
};

function pageOfMembers(world: World, job: SearchJob, members: readonly number[], call: RouteCall): Outcome {
  const { limit, offset } = pageOf(call);
  const pids = members
    .slice(offset, offset + limit)
    .map((index) => JSON.stringify(world.people.pidOf(index, job.day)));
  const rest = JSON.stringify({
    total: members.length,
    returned: pids.length,
    limit,
    offset,
    billable_count: job.billable,
    unlocked_at: stamp(job.unlockedMs ?? world.clock.nowMs()),
  });
  return {
    kind: "results",
    results: listOf(pids),
    wrap: () => [`{"segment_id":"${job.segmentId}","pids":[`, `],${rest.slice(1)}`],
  };
}

/** `POST …/results`: unlocks once, and returns a page. */
const unlockRoute: Route = {
  ...audienceSearchEndpoints.unlock,
  hasNoBody: true,
  needsUserKey: true,
  check: (call) => checkPage("segment_id", call),
  async answer(world, call) {
    const job = ownOf(world.searches.jobs, call.organization, call.id);
    if (!job) return noSuchSearch();
    const { outcome, extent } = job.plan;
    const isEnded = hasEnded(job, job.plan, world.clock.nowMs());
    if (!isEnded || outcome !== "completed" || extent !== "full") {
      return refuse(409, null, "The materialization is not finished.");
    }
    const { members } = await audienceOf(world, job);
    if (job.unlockedMs !== null) return pageOfMembers(world, job, members, call);
    const charged = world.searches.deliveries.charge(job.organization, world.clock.nowMs(), members);
    if (typeof charged !== "number") return charged;
    job.billable = charged;
    job.unlockedMs = world.clock.nowMs();
    makeSegment(world, job, members);
    return { ...pageOfMembers(world, job, members, call), billed: charged };
  },
};

/** Makes the members of an unlocked search a segment of the same ID. */
function makeSegment({ segments, people }: World, job: SearchJob, members: readonly number[]): void {
  const { segmentId, organization, query: description, day } = job;
  const segment = segments.create({ segmentId, organization, name: `search ${segmentId}`, description });
  if (!segment) return;
  segments.add(
    segment,
    members.map((index) => people.pidOf(index, day)),
  );
}

/** `GET …/results`. */
const resultsRoute: Route = {
  ...audienceSearchEndpoints.results,
  needsUserKey: true,
  check: (call) => checkPage("segment_id", call),
  async answer(world, call) {
    const job = ownOf(world.searches.jobs, call.organization, call.id);
    if (!job) return noSuchSearch();
    if (job.unlockedMs === null) return refuse(409, null, "The results are not unlocked.");
    const { members } = await audienceOf(world, job);
    return pageOfMembers(world, job, members, call);
  },
};

/** Every path of asynchronous person search. */
export const searchJobRoutes: readonly Route[] = [submitRoute, statusRoute, unlockRoute, resultsRoute];
