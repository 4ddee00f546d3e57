import { LimitReachedError, StopJobError } from "../../errors.ts";
import { readPages, type ResultPage, resultsCall } from "../../extract/pages.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { countListed } from "../../load/feeds/searches.ts";
import { audienceSearchEndpoints } from "../../schemas/audience-search.ts";
import { booleanOf, countOf, DriftLog, instantAt } from "../../schemas/convert.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import { readPids } from "../../schemas/person-search.ts";
import type { FeedContext } from "../feed.ts";
import { isStored, store, type SubmittedAudience } from "./audience.ts";
import { checkCeiling, newIntent, reserveIntent, type UnlockIntent } from "./charges.ts";

const { unlock, results } = audienceSearchEndpoints;

const PAGES_PER_COMMIT = 20;
/** Maximum readings of members that change under way, in one run. */
const MAX_READINGS = 3;

/**
 * Unlocks the members of a completed search if that is allowed. Returns the first page if it was answered, null if the
 * members were unlocked before, `locked` if they stay locked, and `busy` if the service refuses it at the moment.
 */
export async function unlockMembers(
  context: FeedContext,
  audience: SubmittedAudience,
  body: JsonObject,
): Promise<ResultPage | null | "locked" | "busy"> {
  const { cursor, unlock: wanted } = audience;
  const total = countOf(body["total_count"]);
  if (booleanOf(body["results_unlocked"])) {
    await settle(context, audience, countOf(body["billable_count"]) ?? cursor.unlock?.records ?? 0);
    return null;
  }
  if (wanted === null || total === 0) {
    await settle(context, audience, null);
    if (total === 0 && !isStored(cursor)) {
      await store(context, audience, {
        upserts: [storedRow(context, audience)],
        cursor: { stored_segment_id: cursor.segment_id },
      });
    }
    return "locked";
  }
  const intent = await prepare(context, audience, body, wanted);
  return send(context, audience, intent);
}

/** Records what the unlock under way was billed, if there is one. */
async function settle(
  context: FeedContext,
  audience: SubmittedAudience,
  billed: number | null,
): Promise<void> {
  const { unlock: intent } = audience.cursor;
  if (intent === null) return;
  await store(context, audience, { settled: { callId: intent.call_id, billed }, cursor: { unlock: null } });
}

/** Checks the conditions of an unlock, writes down the intent, and reserves its largest charge. */
async function prepare(
  context: FeedContext,
  audience: SubmittedAudience,
  body: JsonObject,
  wanted: { readonly maxBillable: number },
): Promise<UnlockIntent> {
  const subject = `${context.job.name}: the audience ${audience.name}`;
  if (body["materialization_extent"] !== "full") {
    throw new StopJobError(
      "preview_only",
      `${subject} is only a preview, which has no results to unlock. Remove its unlock, or search again in the service's web ` +
        "application for the full audience.",
    );
  }
  const total = countOf(body["total_count"]);
  if (total === null) {
    throw new StopJobError(
      "count_unknown",
      `${subject} has no total_count, so an unlock could cost anything. Nothing was unlocked.`,
    );
  }
  const records = Math.max(total, countOf(body["estimated_billable_count"]) ?? 0);
  // If this refuses, an earlier intent stays: its unlock may be in progress, and is charged once the state says so.
  checkCeiling(subject, records, wanted);
  if (audience.cursor.unlock?.records !== records) {
    await settle(context, audience, null);
    await store(context, audience, { cursor: { unlock: newIntent(records) } });
  }
  const { unlock: intent } = audience.cursor;
  if (intent === null) throw new Error("an intent was stored");
  await reserveIntent(context, unlock.name, intent);
  return intent;
}

/** Sends an unlock, which may be repeated: it charges once. */
async function send(
  context: FeedContext,
  audience: SubmittedAudience,
  intent: UnlockIntent,
): Promise<ResultPage | "busy"> {
  const { job, log } = context;
  const { name, cursor } = audience;
  const call = resultsCall(unlock, { id: cursor.segment_id, list: "pids", offset: 0 });
  const reply = await context.call({ ...call, asUser: true, expects: [402, 404, 409] });
  if (reply.kind === "answer") {
    const billed = reply.value.billableCount ?? intent.records;
    await store(context, audience, {
      upserts: [unlockedRow(cursor.segment_id, { ...reply.value, billableCount: billed })],
      settled: { callId: intent.call_id, billed },
      cursor: { unlock: null, pages: { offset: 0, total: reply.value.total, suppressed: 0 } },
    });
    log.info({ job: job.name, search: name, billable_count: billed }, "audience_unlocked");
    return reply.value;
  }
  // Not finished, or another unlock is in progress: the state is read again first.
  if (reply.status === 409) return "busy";
  await settle(context, audience, null);
  if (reply.status === 402) {
    throw new LimitReachedError(
      "credits",
      `${job.name}: the plan doesn't cover the ${intent.records} records of ${name} (402). Nothing was unlocked; run again when ` +
        "there are new credits.",
    );
  }
  throw new StopJobError(
    "search_gone",
    `${job.name}: ${unlock.name}: the service has no search ${cursor.segment_id} (404).`,
  );
}

/** Facts of the unlock, as far as a page has them. */
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

/** Reads and stores the members of an unlocked audience; resumes where an earlier run ended. */
export async function readMembers(
  context: FeedContext,
  audience: SubmittedAudience,
  first: ResultPage | null,
): Promise<void> {
  const { job, log, request } = context;
  const { name } = audience;
  const { cursor } = audience;
  if (isStored(cursor) && cursor.pages === null && !request.fullRefresh) return;
  if (request.fullRefresh || (cursor.pages?.offset ?? 0) === 0) await restart(context, audience);
  let before: number | null = null;
  for (let reading = 1; ; reading++) {
    const isSteady = await readAll(context, audience, reading === 1 ? first : null);
    const members = await context.retryWhileDown(() => countListed(context.db, job.name, cursor.segment_id));
    const { total = 0, suppressed = 0 } = audience.cursor.pages ?? {};
    const listed = members + suppressed;
    // A list with duplicates has fewer people than its total; a second reading shows the same.
    if (isSteady && (listed === total || listed === before)) {
      await store(context, audience, {
        upserts: [storedRow(context, audience)],
        reading: { at: "end" },
        cursor: { pages: null, stored_segment_id: cursor.segment_id },
      });
      log.info({ job: job.name, search: name, members, total }, "audience_stored");
      return;
    }
    log.warn({ job: job.name, search: name, members, total }, "audience_read_again");
    before = isSteady ? listed : null;
    await restart(context, audience);
    if (reading < MAX_READINGS) continue;
    throw new StopJobError(
      "results_changing",
      `${job.name}: the members of ${name} changed during each of ${MAX_READINGS} readings. The next run reads them again.`,
    );
  }
}

/** Starts to read all members. Stored ones are kept until the end, when those that weren't listed are deleted. */
async function restart(context: FeedContext, audience: SubmittedAudience): Promise<void> {
  const pages = { offset: 0, total: 0, suppressed: 0 };
  await store(context, audience, { reading: { at: "start" }, cursor: { pages } });
}

function storedRow({ clock }: FeedContext, { cursor }: SubmittedAudience): Upsert {
  return {
    table: "audience_search",
    columns: ["segment_id", "members_stored_at"],
    rows: [[cursor.segment_id, instantAt(clock.now())]],
  };
}

/** Reads the pages that are left. Returns false if their total changed under way. */
async function readAll(
  context: FeedContext,
  audience: SubmittedAudience,
  first: ResultPage | null,
): Promise<boolean> {
  const { config, progress, job } = context;
  const id = audience.cursor.segment_id;
  let { offset, total, suppressed } = audience.cursor.pages ?? { offset: 0, total: 0, suppressed: 0 };
  let drift = new DriftLog(results.name);
  // All pages were stored before.
  if (total > 0 && offset >= total) return true;
  let taken: ResultPage[] = [];
  const commit = async () => {
    const members = taken.flatMap((page) => membersOf(page, drift));
    const rows: Upsert = {
      table: "audience_search_member",
      columns: ["segment_id", "service_pid", "position"],
      rows: members.map(({ pid, position }) => [id, pid, position]),
    };
    const upserts = [rows, ...taken.slice(-1).map((page) => unlockedRow(id, page))];
    const received = taken.reduce((sum, { items }) => sum + items.length, 0);
    const pages = { offset, total, suppressed };
    const reading = { at: "page", pids: members.map(({ pid }) => pid) } as const;
    suppressed += await store(context, audience, { upserts, reading, drift, cursor: { pages }, received });
    progress.advance(job.name, received);
    taken = [];
    drift = new DriftLog(results.name);
  };
  const read = async (at: number) => {
    if (first?.offset === at) return first;
    const call = resultsCall(results, { id, list: "pids", offset: at });
    const reply = await context.call({ ...call, asUser: true, read: (bytes) => call.read(bytes, drift) });
    if (reply.kind === "refused") throw new Error("a call without expected refusals was refused");
    return reply.value;
  };
  progress.start(job.name, total, results.name);
  try {
    for await (const page of readPages(read, {
      from: offset,
      total,
      ahead: 2 * config.service.concurrency,
    })) {
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
  // The people left out of the last commit were not known before it.
  audience.cursor = { ...audience.cursor, pages: { offset, total, suppressed } };
  return true;
}

/** PIDs of a page with their positions. */
function membersOf({ items, offset }: ResultPage, drift: DriftLog) {
  return readPids(items, drift, "pids").rows.map(([position, pid]) => ({
    pid,
    position: String(offset + Number(position)),
  }));
}
