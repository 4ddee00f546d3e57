import { z } from "zod";
import type { Config, JobConfig, JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { settings } from "../../config/schema/settings.ts";
import { duration } from "../../config/schema/values.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { type FreeCall, mayBeDone, readEnvelope } from "../../extract/free-call.ts";
import type { Db } from "../../load/db/db.ts";
import { mostBillable, readAudiences, type StoredAudience } from "../../load/feeds/searches.ts";
import { readCheckpoints } from "../../load/write/commit.ts";
import { audienceSearchEndpoints } from "../../schemas/audience-search.ts";
import { countOf, instantAt } from "../../schemas/convert.ts";
import { readId } from "../../schemas/error-body.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import { type FeedContext, type FeedJobType, type FeedPlanContext, isOver, readCursor } from "../feed.ts";
import type { JobPlan } from "../job-type.ts";
import { type UnlockCost, unlockCost } from "../price.ts";
import { readMembers, unlockMembers } from "./audience-members.ts";
import {
  type Audience,
  type AudienceCursor,
  audienceCursor,
  isFinished,
  isStored,
  readState,
  store,
  type SubmittedAudience,
} from "./audience.ts";
import { pollAll, unlockSetting, workOnSeveral } from "./charges.ts";
import { queryText, searchComplaints, streamOf } from "./search.ts";

const { submit } = audienceSearchEndpoints;

const searchSettings = jobSettings("audience_search", {
  searches: z.record(z.string(), settings({ query: queryText(), unlock: unlockSetting() })),
  /** Time after which a finished search is made again; never by default. */
  refresh_after: duration().optional(),
  /** Longest wait of a run for the service. */
  deadline: duration().prefault("15m"),
});

type AudienceSearchJobConfig = JobOf<typeof searchSettings>;

type Context = FeedContext<AudienceSearchJobConfig>;

/** Narrows a job to `audience_search`; null for other types. */
export function audienceJobOf(job: JobConfig): AudienceSearchJobConfig | null {
  return job.type === "audience_search" ? (job as AudienceSearchJobConfig) : null; // `type` identifies the settings
}

function searchesOf({ searches }: AudienceSearchJobConfig): readonly Omit<Audience, "cursor">[] {
  return Object.entries(searches).map(([name, search]) => ({
    name,
    ...search,
    stream: streamOf(search.query),
  }));
}

async function run(context: Context): Promise<void> {
  const { job } = context;
  const audiences = searchesOf(job).map(
    (search): Audience => ({ ...search, cursor: storedOf(context, search) }),
  );
  const several = workOnSeveral();
  const endMs = context.clock.now() + job.deadlineMs;
  const open: SubmittedAudience[] = [];
  let unchanged = 0;
  const limited = new Set<Audience>();
  const noteLimit = async <Result>(audience: Audience, work: Promise<Result>) => {
    try {
      return await work;
    } catch (error) {
      if (error instanceof LimitReachedError) limited.add(audience);
      throw error;
    }
  };
  for (const audience of audiences) {
    await several.attempt(async () => {
      if (isToSubmit(context, audience)) await noteLimit(audience, submitSearch(context, audience));
      if (isSubmitted(audience) && isOpen(context.request.fullRefresh, audience)) open.push(audience);
      else {
        unchanged += 1;
        throwIfFailed(context, audience);
      }
    });
  }
  context.count({ records_read: audiences.length, records_unchanged: unchanged });
  try {
    await pollAll(context, several, open, {
      endMs,
      nameOf: ({ name }) => name,
      advance: (audience) => noteLimit(audience, advance(context, audience)),
    });
  } finally {
    const remaining = new Set([...limited, ...open]).size;
    context.count({ records_sent: audiences.length - unchanged - remaining, records_remaining: remaining });
  }
  several.end();
}

/** Context in which open searches are found. */
type Known = FeedPlanContext<AudienceSearchJobConfig>;

function storedOf(context: Known, { stream }: { readonly stream: string }): AudienceCursor | null {
  return readCursor({ ...context, request: { fullRefresh: false } }, stream, audienceCursor);
}

function isToSubmit({ job, clock }: Known, { cursor }: Audience): boolean {
  if (cursor === null || cursor.segment_id === null) return true;
  const { refreshAfterMs } = job;
  // An unlock without a known charge is finished first.
  const isSettled = isFinished(cursor) && cursor.unlock === null;
  return refreshAfterMs !== null && isSettled && isOver(cursor.submitted_at, refreshAfterMs, clock.now());
}

function isSubmitted(audience: Audience): audience is SubmittedAudience {
  return audience.cursor !== null && audience.cursor.segment_id !== null;
}

/** True if something is left to do: to wait, to unlock, to read members. */
function isOpen(fullRefresh: boolean, { cursor, unlock: wanted }: SubmittedAudience): boolean {
  if (!isFinished(cursor) || fullRefresh) return true;
  if (cursor.status !== "completed") return false;
  return cursor.unlock !== null || cursor.pages !== null || (wanted !== null && !isStored(cursor));
}

/** Counts what is left to do, and the most that its unlocks can be billed. */
async function planSearches(context: Known): Promise<Partial<JobPlan>> {
  const audiences = searchesOf(context.job).map((search) => ({
    ...search,
    cursor: storedOf(context, search),
  }));
  const submits = audiences.filter((audience) => isToSubmit(context, audience));
  const open = audiences.filter((one) => isSubmitted(one) && !submits.includes(one) && isOpen(false, one));
  const ids = open.flatMap(({ cursor }) => cursor?.segment_id ?? []);
  const sizes = new Map(
    (await readAudiences(context.db, ids)).map((known) => [known.segment_id, mostBillable(known)]),
  );
  let [expected, high] = [0, 0];
  for (const { unlock, cursor } of [...submits, ...open]) {
    if (unlock === null) continue;
    const most = sizes.get(cursor?.segment_id ?? "") ?? null;
    if (most !== null && most > unlock.maxBillable) continue;
    expected += most ?? 0;
    high += most ?? unlock.maxBillable;
  }
  const due = submits.length + open.length;
  return {
    records_read: audiences.length,
    records_due: due,
    due_reasons: { never_answered: due },
    records_unchanged: audiences.length - due,
    records_to_send: due,
    calls: submits.length + due,
    estimated_billable: { low: 0, expected, high, basis: "sizes that are known, and ceilings of `unlock`" },
    ...(due === 0 ? { remarks: [] } : {}),
  };
}

/** Submits a search; remembers that before the call, and its ID before anything else. An earlier search is kept until then. */
async function submitSearch(context: Context, audience: Audience): Promise<void> {
  const { job, clock, log, progress } = context;
  const { name, query, stream, cursor: before } = audience;
  const fresh = audienceCursor.parse({ search: name, submitted_at: instantAt(clock.now()) });
  await context.commit({ checkpoints: [{ stream, cursor: { ...(before ?? fresh), is_pending: true } }] });
  const call: FreeCall<JsonObject> = {
    endpoint: submit,
    body: JSON.stringify({ query }),
    recordsSent: 1,
    isOnce: true,
    asUser: true,
    read(bytes, drift) {
      const body = readEnvelope(bytes, drift);
      return body && readId(body["segment_id"]) !== null ? body : null;
    },
  };
  const reply = await context.call(call).catch(async (error: unknown) => {
    if (!mayBeDone(error)) await context.commit({ checkpoints: [{ stream, cursor: before }] });
    throw error;
  });
  if (reply.kind === "refused") throw new Error("a call without expected refusals was refused");
  const id = String(reply.value["segment_id"]);
  const cursor = { ...fresh, segment_id: id, stored_segment_id: before?.stored_segment_id ?? null };
  audience.cursor = cursor;
  await store(context, { ...audience, cursor }, { body: reply.value, drift: reply.drift });
  log.info({ job: job.name, search: name, segment_id: id }, "search_submitted");
  if (reply.mayBeDone || before?.is_pending) {
    log.warn({ job: job.name, search: name, segment_id: id }, "search_possibly_submitted_twice");
    progress.note(
      job.name,
      `an earlier submit of ${name} got no answer, so the service may have the search twice; submits are never billed`,
    );
  }
}

/** Reads the state of a search, and does what follows once it is finished. Returns false if it has to be read again. */
async function advance(context: Context, audience: SubmittedAudience): Promise<boolean> {
  const { job, log } = context;
  const wasFinished = isFinished(audience.cursor);
  const body = await readState(context, audience);
  if (body === null || !isFinished(audience.cursor)) return false;
  const { name, cursor } = audience;
  if (!wasFinished) {
    log.info(
      { job: job.name, search: name, status: cursor.status, total: countOf(body["total_count"]) },
      "search_finished",
    );
  }
  throwIfFailed(context, audience);
  const first = await unlockMembers(context, audience, body);
  if (first === "busy") return false;
  if (first !== "locked") await readMembers(context, audience, first);
  return true;
}

function throwIfFailed({ job }: Context, { name, stream, cursor }: Audience): void {
  if (cursor === null || !isFinished(cursor) || cursor.status === "completed") return;
  const code = cursor.error_code === null ? "" : ` (${cursor.error_code})`;
  throw new StopJobError(
    "search_failed",
    `${job.name}: the search ${name} ${cursor.status === "failed" ? "failed" : "was cancelled"}${code}. The table ` +
      "audience_search has its error_message, error_criteria and suggested_search. Revise its query, or submit it again: " +
      `\`checkpoint reset ${job.name} --stream ${stream}\`.`,
  );
}

/** Makes asynchronous person searches: submits, waits, unlocks if allowed, and reads the members. */
export const audienceSearchJob: FeedJobType<AudienceSearchJobConfig> = {
  type: "audience_search",
  settings: searchSettings,
  isBilled: false,
  complaints: searchComplaints,
  endpoints: [{ ...submit, asUser: true }],
  writes: [
    "audience_search",
    "audience_search_coverage",
    "audience_search_distribution",
    "audience_search_member",
  ],
  checkpoints: {
    meaning:
      "search: its name; segment_id: its ID at the service; is_pending: true while a submit has no answer; status: its last state; " +
      "unlock: an unlock whose charge is not known yet; pages: offset of the next page of its members; " +
      "stored_segment_id: newest segment whose members are stored. One stream per text. Without a checkpoint, the search is submitted again",
    cursor: audienceCursor,
    about: { key: "segment_id", keys: ["is_pending", "status", "error_code", "unlock", "pages"] },
    example: { segment_id: "123e4567-e89b-12d3-a456-426614174000" },
    streams: async (job) => searchesOf(job).map(({ stream }) => stream),
    noStream: () => "it has no searches",
  },
  plannedCalls: (job) => ({
    least: 0,
    more:
      `up to ${Object.keys(job.searches).length} submits, one every 2 to 5 s while a search runs, and one for each 100 members of an ` +
      "unlocked audience",
  }),
  plan: planSearches,
  run,
};

/** A configured audience, in `audience list`. */
export interface AudienceReport
  extends Pick<
    StoredAudience,
    | "status"
    | "error_code"
    | "error_message"
    | "suggested_search"
    | "materialization_extent"
    | "total_count"
    | "billable_count"
    | "unlocked_at"
    | "members"
  > {
  readonly job: string;
  readonly search: string;
  readonly query: string;
  /** Largest charge that the configuration accepts; null for never. */
  readonly max_billable: number | null;
  /** Null before it was submitted. */
  readonly segment_id: string | null;
  /** Largest possible charge of an unlock; null if unknown. */
  readonly most_billable: number | null;
  /** Cost of {@link most_billable} while locked; with `prices.unlock`. */
  readonly most_cost?: UnlockCost;
  readonly results_unlocked: boolean;
}

export async function reportAudiences(
  config: Pick<Config, "jobs" | "prices">,
  db: Db,
): Promise<readonly AudienceReport[]> {
  const reports: AudienceReport[] = [];
  for (const configured of config.jobs) {
    const job = audienceJobOf(configured);
    if (job) reports.push(...(await reportsOf(job, db)));
  }
  return reports.map((report) => {
    const { most_billable: most, results_unlocked: isUnlocked } = report;
    const cost = most === null || isUnlocked ? null : unlockCost(config, most);
    return cost ? { ...report, most_cost: cost } : report;
  });
}

async function reportsOf(job: AudienceSearchJobConfig, db: Db): Promise<readonly AudienceReport[]> {
  const checkpoints = await readCheckpoints(db, job.name);
  const ids = new Map(
    searchesOf(job).map(({ name, stream }) => {
      const stored = checkpoints.find((one) => one.stream === stream);
      return [name, audienceCursor.safeParse(stored?.cursor).data?.segment_id ?? null];
    }),
  );
  const known = await readAudiences(
    db,
    [...ids.values()].filter((id) => id !== null),
  );
  return Object.entries(job.searches).map(([search, { query, unlock }]) => {
    const id = ids.get(search) ?? null;
    const found = known.find((one) => one.segment_id === id);
    return {
      job: job.name,
      search,
      query,
      max_billable: unlock?.maxBillable ?? null,
      segment_id: id,
      status: found?.status ?? null,
      error_code: found?.error_code ?? null,
      error_message: found?.error_message ?? null,
      suggested_search: found?.suggested_search ?? null,
      materialization_extent: found?.materialization_extent ?? null,
      total_count: found?.total_count ?? null,
      most_billable: found ? mostBillable(found) : null,
      results_unlocked: found?.results_unlocked === true,
      billable_count: found?.billable_count ?? null,
      unlocked_at: found?.unlocked_at ?? null,
      members: found?.members ?? 0,
    };
  });
}

/** Configuration with one search of one job, to be unlocked up to a ceiling, and not submitted again. */
export function withUnlock<C extends Pick<Config, "jobs">>(
  config: C,
  { job: name, search }: Pick<AudienceReport, "job" | "search">,
  maxBillable: number,
): C {
  const jobs = config.jobs.map((configured) => {
    const job = configured.name === name ? audienceJobOf(configured) : null;
    const wanted = job?.searches[search];
    return job && wanted
      ? { ...job, searches: { [search]: { ...wanted, unlock: { maxBillable } } }, refreshAfterMs: null }
      : configured;
  });
  return { ...config, jobs };
}
