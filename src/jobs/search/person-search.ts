import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { JobOf } from "../../config/config.ts";
import { byName, settings, wholeNumber } from "../../config/schema/settings.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { age } from "../../config/schema/times.ts";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { type FreeCall, mayBeDone } from "../../extract/free-call.ts";
import { type Commit, cursorInstant } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { type DriftLog, instantAt } from "../../schemas/convert.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import { METERED_SEARCH } from "../../schemas/ledger.ts";
import { flattenPersonSearch, MAX_SEARCH_SIZE, personSearchEndpoints } from "../../schemas/person-search.ts";
import {
  collectErrors,
  type FeedContext,
  type FeedJobType,
  type FeedPlanContext,
  isOver,
  readCursor,
} from "../feed.ts";
import { reserveWhole } from "../lookup/lookup-spec.ts";
import { planOfTasks } from "./tasks.ts";
import {
  queryRefused,
  queryText,
  type Quota,
  readQuota,
  readSearch,
  searchCall,
  findSearchProblems,
  streamOf,
  throwIfOverQuota,
} from "./search.ts";

const { create, read } = personSearchEndpoints;

const searchSettings = jobSettings("person_search", {
  searches: byName(
    settings({ query: queryText(), size: wholeNumber(1, MAX_SEARCH_SIZE).default(MAX_SEARCH_SIZE) }),
  ),
  /** Time after which a search is made again; never by default. */
  refresh_after: age().optional(),
});

type PersonSearchJobConfig = JobOf<typeof searchSettings>;
type Context = FeedContext<PersonSearchJobConfig>;

const cursorSchema = z.object({
  search: z.string("must be the name of a search"),
  search_id: z.string("must be the ID of a search"),
  searched_at: cursorInstant,
});

interface Search {
  readonly name: string;
  readonly query: string;
  readonly size: number;
  readonly stream: string;
  readonly stored: z.output<typeof cursorSchema> | null;
  readonly isDue: boolean;
}

function searchesOf({ job, checkpoints, clock }: FeedPlanContext<PersonSearchJobConfig>): readonly Search[] {
  const { refreshAfterMs } = job;
  return Object.entries(job.searches).map(([name, { query, size }]) => {
    const stream = streamOf(query, size);
    const stored = readCursor(checkpoints, job, stream, cursorSchema);
    const isExpired =
      stored !== null && refreshAfterMs !== null && isOver(stored.searched_at, refreshAfterMs, clock.now());
    return { name, query, size, stream, stored, isDue: stored === null || isExpired };
  });
}

async function run(context: Context): Promise<void> {
  const errors = collectErrors();
  const searches = searchesOf(context);
  const due = searches.filter(({ isDue }) => isDue);
  context.count({ records_read: searches.length, records_unchanged: searches.length - due.length });
  let sent = 0;
  try {
    for (const search of context.request.fullRefresh ? searches : []) {
      if (!search.isDue) await readAgain(context, search).catch(errors.keep);
    }
    const quota = due.length === 0 ? null : await readQuota(context);
    for (const search of due) {
      try {
        if (sent >= (context.request.maxRecords ?? Number.POSITIVE_INFINITY)) {
          throw new LimitReachedError("max_records", `${context.job.name}: --max-records was reached.`);
        }
        throwIfOverQuota(quota, context.job.name, search);
        const reserved = await reservePeople(context, search);
        sent += 1;
        await make(context, search, { quota, reserved });
      } catch (error) {
        errors.keep(error);
      }
    }
  } finally {
    context.count({ records_remaining: due.length - sent });
  }
  errors.throwIfAny();
}

async function make(
  context: Context,
  search: Search,
  { quota, reserved }: { readonly quota: Quota | null; readonly reserved: Reserved },
): Promise<void> {
  const { job, clock, log } = context;
  const { name, query, size, stream } = search;
  context.count({ records_sent: 1 });
  const searchedAt = instantAt(clock.now());
  const call = { ...searchCall({ query, size }), reserved };
  const reply = await context.call(call).catch(async (error: unknown) => {
    if (!mayBeDone(error)) await context.commit({ charge: { callId: reserved.callId, billed: null } });
    throw error;
  });
  // The people of an earlier attempt without a response count as delivered.
  const before = reply.mayBeDone ? size : 0;
  if (reply.kind === "refused") {
    await context.commit({
      charge: { callId: reserved.callId, billed: before || null },
      counters: { records_rejected: 1 },
    });
    throw queryRefused(`${job.name}: the query of ${name}`, reply);
  }
  if (reply.mayBeDone) log.warn({ job: job.name, search: name }, "search_possibly_made_twice");
  const found = await store(context, search, reply, {
    cursor: { search: name, searched_at: searchedAt },
    charge: (people) => ({ callId: reserved.callId, billed: people + before }),
  });
  if (quota) quota.left -= found;
  log.info({ job: job.name, search: name, stream, results: found }, "search_made");
}

type Reserved = NonNullable<FreeCall<JsonObject>["reserved"]>;

/** Reserves the most that a search may deliver in its budget. */
async function reservePeople(context: Context, { name, size }: Search): Promise<Reserved> {
  const reserved = { callId: randomUUID(), records: size };
  const call = { ...reserved, endpoint: create.name, budget: METERED_SEARCH, maxRecords: null };
  await reserveWhole(
    context,
    call,
    (limit) => `${context.job.name}: ${name} may return ${size} people, but ${limit} has fewer left.`,
  );
  return reserved;
}

/** Reads a stored search again by its ID, which makes no new search. */
async function readAgain(context: Context, search: Search): Promise<void> {
  const { job } = context;
  const { stored } = search;
  if (stored === null) return;
  const reply = await context.call({
    endpoint: read,
    path: read.path.replace("{search_id}", encodeURIComponent(stored.search_id)),
    expects: [404, 422],
    read: readSearch,
  });
  if (reply.kind === "refused") {
    throw new StopJobError(
      "search_gone",
      `${job.name}: ${read.name}: the service has no search ${stored.search_id} (${reply.status}). Its stored rows are kept; ` +
        `\`checkpoint reset ${job.name} --stream ${search.stream}\` makes the search again.`,
    );
  }
  await store(context, search, reply, { cursor: { ...stored, search: search.name } });
}

/** Stores an answer; returns the number of people. */
async function store(
  context: Context,
  { name, stream }: Search,
  { value: answer, drift }: { readonly value: JsonObject; readonly drift: DriftLog },
  {
    cursor,
    charge,
  }: {
    readonly cursor: { readonly search: string; readonly searched_at: string };
    readonly charge?: (people: number) => Commit["charge"];
  },
): Promise<number> {
  const id = String(answer["search_id"]);
  const tables = flattenPersonSearch(answer, name, drift);
  const people = tables.find(({ table }) => table === "person_search_result")?.rows.length ?? 0;
  await context.commit({
    upserts: tables.map(
      (rows): Upsert => (rows.table === "person_search" ? rows : { ...rows, replaces: { search_id: id } }),
    ),
    checkpoints: [{ stream, cursor: { ...cursor, search_id: id } }],
    counters: { records_received: people, ...(people > 0 ? { records_matched: 1 } : {}) },
    drift: drift.entries(),
    charge: charge?.(people),
  });
  return people;
}

/** Makes synchronous person searches: `POST /person-search/v0/search`. */
export const personSearchJob: FeedJobType<PersonSearchJobConfig> = {
  type: "person_search",
  settings: searchSettings,
  isBilled: false,
  findProblems: findSearchProblems,
  endpoints: [create],
  writes: ["person_search", "person_search_coverage", "person_search_result"],
  checkpoints: {
    meaning:
      "search: its name; search_id: the stored search; searched_at: when it was made. One stream per text and size. Without a " +
      "checkpoint, the search is made again",
    cursor: cursorSchema,
    example: { search_id: "123e4567-e89b-12d3-a456-426614174000", searched_at: "2026-11-21T04:00:00Z" },
    streams: async ({ searches }) => Object.values(searches).map(({ query, size }) => streamOf(query, size)),
    noStream: "it has no searches",
  },
  plannedCalls: () => ({ least: 0, more: "" }),
  async plan(context) {
    const searches = searchesOf(context);
    const due = searches.filter(({ isDue }) => isDue);
    const expired = due.filter(({ stored }) => stored !== null).length;
    return {
      ...planOfTasks(searches.length, due.length),
      due_reasons: { never_answered: due.length - expired, expired },
      calls: due.length === 0 ? 0 : due.length + 1,
      remarks: [],
    };
  },
  run,
};
