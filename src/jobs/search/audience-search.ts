import type { JobConfig, JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { byName, settings } from "../../config/schema/settings.ts";
import { age, duration } from "../../config/schema/times.ts";
import { type FreeCall, fromEnvelope, mayBeDone } from "../../extract/free-call.ts";
import { mostBillable, readAudiences } from "../../load/feeds/searches.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import {
  audienceSearchEndpoints,
  finishedSearchStates,
  flattenAudienceSearch,
} from "../../schemas/audience-search.ts";
import { instantAt } from "../../schemas/convert.ts";
import { readId } from "../../schemas/error-body.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import { type FeedContext, type FeedJobType, type FeedPlanContext, isOver, readCursor } from "../feed.ts";
import type { JobPlan } from "../job-type.ts";
import { type Audience, audienceCursor, completeAudience, isStored } from "./audience-members.ts";
import { queryText, findSearchProblems, streamOf } from "./search.ts";
import { isFinal, planOfTasks, runTasks, type State, store, unlockSetting } from "./tasks.ts";

const { submit } = audienceSearchEndpoints;

const searchSettings = jobSettings("audience_search", {
  searches: byName(settings({ query: queryText(), unlock: unlockSetting() })),
  /** Time after which a finished search is made again; never by default. */
  refresh_after: age().optional(),
  /** Longest wait of a run for the service. */
  deadline: duration().prefault("15m"),
});

type AudienceSearchJobConfig = JobOf<typeof searchSettings>;
type Context = FeedContext<AudienceSearchJobConfig>;
type PlanContext = FeedPlanContext<AudienceSearchJobConfig>;

export function audienceJobOf(job: JobConfig): AudienceSearchJobConfig | null {
  return job.type === "audience_search" ? (job as AudienceSearchJobConfig) : null; // `type` identifies the settings
}

function audiencesOf({ job, checkpoints, clock }: PlanContext): readonly Audience[] {
  return Object.entries(job.searches).map(([name, { query, unlock }]): Audience => {
    const stream = streamOf(query);
    const stored = readCursor(checkpoints, job, stream, audienceCursor);
    const again = `\`checkpoint reset ${job.name} --stream ${stream}\``;
    return {
      endpoints: audienceSearchEndpoints,
      list: "pids",
      finalStates: finishedSearchStates,
      noun: "audience",
      name,
      ifFailed:
        "The table audience_search has its error_message, error_criteria and suggested_search. Revise its query, or submit it again: " +
        `${again}.`,
      ifGone: `${again} submits ${name} again.`,
      query,
      stream,
      unlock,
      id: stored?.segment_id ?? "",
      cursor: audienceCursor.parse({ submitted_at: instantAt(clock.now()), ...stored, search: name }),
      rowsOf: ({ segment_id: id }, state) =>
        id === null || state === null ? [] : rowsOf(id, { search_name: name, query }, state),
    };
  });
}

/** Rows of a state. A count that was known stays when a later step fails. */
function rowsOf(
  id: string,
  configured: { readonly search_name: string; readonly query: string },
  { body, drift }: State,
): readonly Upsert[] {
  return flattenAudienceSearch({ ...body, segment_id: id }, configured, drift).map(
    ({ table, columns, rows }) => {
      if (table !== "audience_search") return { table, columns, rows, replaces: { segment_id: id } };
      const isKept = columns.map((column, i) => column !== "total_count" || rows[0]?.[i] !== null);
      return {
        table,
        columns: columns.filter((_, i) => isKept[i]),
        rows: rows.map((row) => row.filter((_, i) => isKept[i])),
      };
    },
  );
}

function isToSubmit({ job, clock }: PlanContext, audience: Audience): boolean {
  if (audience.id === "") return true;
  const { refreshAfterMs } = job;
  const { unlock, submitted_at: at } = audience.cursor;
  // An unlock without a known charge is finished first.
  const isSettled = isFinal(audience) && unlock === null;
  return refreshAfterMs !== null && isSettled && isOver(at, refreshAfterMs, clock.now());
}

function isOpen(fullRefresh: boolean, audience: Audience): boolean {
  const { cursor } = audience;
  if (!isFinal(audience) || fullRefresh) return true;
  if (cursor.status !== "completed") return false;
  return cursor.unlock !== null || cursor.pages !== null || (audience.unlock !== null && !isStored(cursor));
}

/** Counts what is left to do, and the most that its unlocks can be billed. */
async function planSearches(context: PlanContext): Promise<Partial<JobPlan>> {
  const audiences = audiencesOf(context);
  const submits = audiences.filter((audience) => isToSubmit(context, audience));
  const open = audiences.filter((audience) => !submits.includes(audience) && isOpen(false, audience));
  const known = await readAudiences(
    context.db,
    open.map(({ id }) => id),
  );
  let [expected, high] = [0, 0];
  for (const { unlock, id } of [...submits, ...open]) {
    if (unlock === null) continue;
    const stored = known.find((one) => one.segment_id === id);
    const most = stored ? mostBillable(stored) : null;
    if (most !== null && most > unlock.maxBillable) continue;
    expected += most ?? 0;
    high += most ?? unlock.maxBillable;
  }
  return {
    ...planOfTasks(audiences.length, submits.length + open.length),
    calls: 2 * submits.length + open.length,
    estimated_billable: { low: 0, expected, high, basis: "sizes that are known, and ceilings of `unlock`" },
  };
}

/** Submits a search; records that before the call, and its ID before anything else. An earlier search is kept until then. */
async function submitSearch(context: Context, audience: Audience): Promise<void> {
  const { job, clock, log, progress, checkpoints } = context;
  const { name: search, query, stream, cursor: before } = audience;
  await context.commit({ checkpoints: [{ stream, cursor: { ...before, is_pending: true } }] });
  const call: FreeCall<JsonObject> = {
    endpoint: submit,
    body: JSON.stringify({ query }),
    recordsSent: 1,
    isOnce: true,
    read: fromEnvelope((body) => (readId(body["segment_id"]) === null ? null : body)),
  };
  const reply = await context.call(call).catch(async (error: unknown) => {
    const cursor = checkpoints.get(stream)?.cursor ?? null;
    if (!mayBeDone(error)) await context.commit({ checkpoints: [{ stream, cursor }] });
    throw error;
  });
  if (reply.kind === "refused") throw reply.stop;
  const { value: body, drift } = reply;
  audience.id = String(body["segment_id"]);
  audience.cursor = audienceCursor.parse({
    search,
    submitted_at: instantAt(clock.now()),
    segment_id: audience.id,
    stored_segment_id: before.stored_segment_id,
  });
  await store(context, audience, { state: { body, drift } });
  log.info({ job: job.name, search, segment_id: audience.id }, "search_submitted");
  if (reply.mayBeDone || before.is_pending) {
    log.warn({ job: job.name, search, segment_id: audience.id }, "search_possibly_submitted_twice");
    progress.note(
      job.name,
      `an earlier request to submit ${search} had no response, so the service may have the search twice; submitting is never billed`,
    );
  }
}

/** Makes asynchronous person searches: submits, waits, unlocks if allowed, and reads the members. */
export const audienceSearchJob: FeedJobType<AudienceSearchJobConfig> = {
  type: "audience_search",
  settings: searchSettings,
  isBilled: false,
  findProblems: findSearchProblems,
  endpoints: [submit],
  writes: [
    "audience_search",
    "audience_search_coverage",
    "audience_search_distribution",
    "audience_search_member",
  ],
  checkpoints: {
    meaning:
      "search: its name; segment_id: its ID at the service; is_pending: true while a submit has no response; status: its last state; " +
      "unlock: an unlock whose charge is not known yet; pages: offset of the next page of its members; " +
      "stored_segment_id: newest segment whose members are stored. One stream per text. Without a checkpoint, the search is submitted again",
    cursor: audienceCursor,
    dependent: { on: "segment_id", keys: ["is_pending", "status", "error_code", "unlock", "pages"] },
    example: { segment_id: "123e4567-e89b-12d3-a456-426614174000" },
    streams: async ({ searches }) => Object.values(searches).map(({ query }) => streamOf(query)),
    noStream: "it has no searches",
  },
  plannedCalls: ({ searches }) => ({
    least: 0,
    more:
      `up to ${Object.keys(searches).length} submits, one every 2 to 5 s while a search runs, and one for each 100 members of an ` +
      "unlocked audience",
  }),
  plan: planSearches,
  run: (context) =>
    runTasks(context, audiencesOf(context), {
      async submit(audience) {
        if (isToSubmit(context, audience)) await submitSearch(context, audience);
      },
      isOpen: (audience) => isOpen(context.request.fullRefresh, audience),
      complete: (audience, body) => completeAudience(context, audience, body),
    }),
};
