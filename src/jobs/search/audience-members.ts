import { z } from "zod";
import { StopJobError } from "../../errors.ts";
import { readPages, type ResultPage } from "../../extract/pages.ts";
import { countListed, noteReading } from "../../load/feeds/searches.ts";
import { cursorCount, cursorInstant } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { booleanOf, countOf, DriftLog, instantAt, pidOf } from "../../schemas/convert.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import { readPids } from "../../schemas/person-search.ts";
import type { FeedContext } from "../feed.ts";
import { readCharged, readFree, recordCharge, rejectItems, store, type Task, taskCursor } from "./tasks.ts";

export const audienceCursor = taskCursor.extend({
  search: z.string("must be the name of a search"),
  submitted_at: cursorInstant,
  /** True while a submit has no answer; the rest is about the search before it. */
  is_pending: z.boolean("must be true or false").default(false),
  /** Null before the first answer. */
  segment_id: z.string("must be the ID of a segment").nullable().default(null),
  /** Position of the reading of the members; null if none is in progress. */
  pages: z.object({ offset: cursorCount, total: cursorCount }).nullable().default(null),
  /** Newest segment whose members are all stored. */
  stored_segment_id: z.string("must be the ID of a segment").nullable().default(null),
});

type AudienceCursor = Readonly<z.output<typeof audienceCursor>>;

export interface Audience extends Task<AudienceCursor> {
  readonly query: string;
}

export function isStored({ segment_id: id, stored_segment_id: stored }: AudienceCursor): boolean {
  return id !== null && id === stored;
}

const PAGES_PER_COMMIT = 20;
/** Maximum readings of members that change under way, in one run. */
const MAX_READINGS = 3;

/**
 * Unlocks a completed search if that is allowed, and stores its members. Returns false if the service refuses the unlock at the
 * moment.
 */
export async function completeAudience(
  context: FeedContext,
  audience: Audience,
  body: JsonObject,
): Promise<boolean> {
  const { cursor } = audience;
  const total = countOf(body["total_count"]);
  if (booleanOf(body["results_unlocked"])) {
    await recordCharge(context, audience, countOf(body["billable_count"]) ?? cursor.unlock?.records ?? 0);
    await readMembers(context, audience, null);
    return true;
  }
  if (audience.unlock === null || total === 0) {
    await recordCharge(context, audience, null);
    if (total === 0 && !isStored(cursor)) await storeEnd(context, audience, {});
    return true;
  }
  const first = await unlockMembers(context, audience, body, total);
  if (first === null) return false;
  await readMembers(context, audience, first);
  return true;
}

/** Makes the unlock, which may be repeated: it charges once. Returns the first page; null if it is refused for the moment. */
async function unlockMembers(
  context: FeedContext,
  audience: Audience,
  body: JsonObject,
  total: number | null,
): Promise<ResultPage | null> {
  const { job, log } = context;
  const { name } = audience;
  if (body["materialization_extent"] !== "full") {
    throw new StopJobError(
      "preview_only",
      `${job.name}: the audience ${name} is only a preview, which has no results to unlock. Remove its unlock, or search again in the ` +
        "service's web application for the full audience.",
    );
  }
  const records = total === null ? null : Math.max(total, countOf(body["estimated_billable_count"]) ?? 0);
  const charge = { records, before: 0, offset: 0 };
  const page = await readCharged(context, audience, audience.endpoints.unlock, charge);
  if (page === null) return null;
  const { reserved } = page;
  const billed = page.billableCount ?? reserved.records;
  await store(context, audience, {
    upserts: [unlockedRow(audience.id, { ...page, billableCount: billed })],
    charge: { callId: reserved.call_id, billed },
    cursor: { unlock: null, pages: { offset: 0, total: page.total } },
  });
  log.info({ job: job.name, search: name, billable_count: billed }, "audience_unlocked");
  return page;
}

function unlockedRow(id: string, { billableCount, unlockedAt }: ResultPage): Upsert {
  const facts = {
    results_unlocked: "true",
    ...(billableCount === null ? {} : { billable_count: String(billableCount) }),
    ...(unlockedAt === null ? {} : { unlocked_at: unlockedAt }),
  };
  return {
    table: "audience_search",
    columns: ["segment_id", ...Object.keys(facts)],
    rows: [[id, ...Object.values(facts)]],
  };
}

/** Reads and stores the members of an unlocked audience; resumes where an earlier run ended. @param first page, if already read */
async function readMembers(
  context: FeedContext,
  audience: Audience,
  first: ResultPage | null,
): Promise<void> {
  const { job, log, request } = context;
  const { name, cursor, id } = audience;
  if (isStored(cursor) && cursor.pages === null && !request.fullRefresh) return;
  if (request.fullRefresh || (cursor.pages?.offset ?? 0) === 0) await restart(context, audience);
  let before: number | null = null;
  for (let reading = 1; ; reading++) {
    const isSteady = await readAll(context, audience, reading === 1 ? first : null);
    const members = await countListed(context.db, job.name, id);
    const total = audience.cursor.pages?.total ?? 0;
    // A list with duplicates or erased people has fewer members than its total; a second reading finds the same number.
    if (isSteady && (members === total || members === before)) {
      await storeEnd(context, audience, { also: (writing) => noteReading(writing, id, { at: "end" }) });
      log.info({ job: job.name, search: name, members, total }, "audience_stored");
      return;
    }
    log.warn({ job: job.name, search: name, members, total }, "audience_read_again");
    before = isSteady ? members : null;
    await restart(context, audience);
    if (reading < MAX_READINGS) continue;
    throw new StopJobError(
      "results_changing",
      `${job.name}: the members of ${name} changed during each of ${MAX_READINGS} readings. The next run reads them again.`,
    );
  }
}

/** Starts to read all members. Stored ones are kept until the end, when those that weren't listed are deleted. */
async function restart(context: FeedContext, audience: Audience): Promise<void> {
  await store(context, audience, {
    also: (writing) => noteReading(writing, audience.id, { at: "start" }),
    cursor: { pages: { offset: 0, total: 0 } },
  });
}

async function storeEnd(
  context: FeedContext,
  audience: Audience,
  stored: Pick<Parameters<typeof store>[2], "also">,
): Promise<void> {
  const at = instantAt(context.clock.now());
  const { id } = audience;
  await store(context, audience, {
    ...stored,
    upserts: [{ table: "audience_search", columns: ["segment_id", "members_stored_at"], rows: [[id, at]] }],
    cursor: { pages: null, stored_segment_id: id },
  });
}

/** Reads the pages that are left. Returns false if their total changed under way. */
async function readAll(context: FeedContext, audience: Audience, first: ResultPage | null): Promise<boolean> {
  const { config, progress, job } = context;
  const { id } = audience;
  const { results } = audience.endpoints;
  let { offset, total } = audience.cursor.pages ?? { offset: 0, total: 0 };
  // All pages were stored before.
  if (total > 0 && offset >= total) return true;
  let drift = new DriftLog(results.name);
  let taken: ResultPage[] = [];
  const commit = async () => {
    const rows = taken.flatMap((page) => rowsOf(id, page, drift));
    const pids = rows.map(([, pid]) => pid);
    const received = taken.reduce((sum, { items }) => sum + items.length, 0);
    await store(context, audience, {
      upserts: [
        { table: "audience_search_member", columns: ["segment_id", "service_pid", "position"], rows },
        ...taken.slice(-1).map((page) => unlockedRow(id, page)),
      ],
      also: (writing) => noteReading(writing, id, { at: "page", pids }),
      drift,
      cursor: { pages: { offset, total } },
      received,
      rejects: rejectItems(context, audience, taken, (item) => pidOf(item) !== null),
    });
    progress.advance(job.name, received);
    taken = [];
    drift = new DriftLog(results.name);
  };
  const read = async (at: number) =>
    first?.offset === at ? first : await readFree(context, audience, at, drift);
  progress.start(job.name, total, results.name);
  try {
    const pages = { from: offset, total, ahead: 2 * config.service.concurrency };
    for await (const page of readPages(read, pages)) {
      if (total !== 0 && page.total !== total) return false;
      total = page.total;
      taken.push(page);
      offset = page.offset + page.returned;
      if (taken.length >= PAGES_PER_COMMIT) await commit();
    }
    await commit();
  } finally {
    progress.end(job.name);
  }
  return true;
}

function rowsOf(id: string, { items, offset }: ResultPage, drift: DriftLog): [string, string, string][] {
  return readPids(items, drift, "pids").rows.map(([position, pid]) => [
    id,
    pid,
    String(offset + Number(position)),
  ]);
}
