import { z } from "zod";
import { LimitReachedError, StopJobError } from "../../errors.ts";
import { readPages, type ResultPage, resultsCall } from "../../extract/pages.ts";
import type { FeedContext } from "../feed.ts";
import { checkCeiling, newIntent, reserveIntent, stateOf, unlockIntent } from "./charges.ts";
import { type Commit, cursorCount } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { RESULTS_PAGE_SIZE } from "../../schemas/audience-search.ts";
import { contactJobEndpoints, flattenContactJob, flattenContactResults } from "../../schemas/contact-jobs.ts";
import { DriftLog } from "../../schemas/convert.ts";
import type { JsonObject } from "../../schemas/flatten.ts";

export const contactCursor = z.object({
  /** Last state; null before the first reading. */
  status: z.string("must be a state").nullable().default(null),
  error_code: z.string("must be a code").nullable().default(null),
  /** An unlock, or a page, whose charge is not known yet. */
  unlock: unlockIntent.nullable().default(null),
  /** Unit that is billed (section 8): the job when it is unlocked, or each page; null before the first page. */
  billing: z.enum(["unlock", "page"]).nullable().default(null),
  /** Position of the next page. */
  offset: cursorCount.default(0),
  /** Number of results on all pages, as the last one reported; null before the first page. */
  total: cursorCount.nullable().default(null),
  /** Charge so far; null before the first page. */
  billable_count: cursorCount.nullable().default(null),
  unlocked_at: z.string("must be an instant").nullable().default(null),
  /** True once all results are stored. */
  is_stored: z.boolean("must be true or false").default(false),
});

type ContactCursor = Readonly<z.output<typeof contactCursor>>;

export interface Contact {
  readonly id: string;
  cursor: ContactCursor;
}

/** Rows, and writes of the ledger, of one commit about a contact job. */
interface Stored extends Pick<Commit, "settled"> {
  /** State as answered. */
  readonly body?: JsonObject;
  readonly upserts?: readonly Upsert[];
  readonly drift?: DriftLog;
  /** Changes of the position. */
  readonly cursor?: Partial<ContactCursor>;
  readonly received?: number;
}

/** Commits what is known of a contact job together with its position. */
export async function storeContact(
  context: FeedContext,
  contact: Contact,
  { body, upserts = [], drift, cursor: change, received = 0, settled }: Stored,
): Promise<void> {
  const ofBody = body && stateOf(body, body["error_code"]);
  const cursor = { ...contact.cursor, ...ofBody, ...change };
  const billable = cursor.billable_count === null ? null : String(cursor.billable_count);
  const charged = { billable_count: billable, unlocked_at: cursor.unlocked_at };
  // A page was answered, so the results are unlocked, whatever the state said before.
  const known = {
    job_id: contact.id,
    ...charged,
    ...(cursor.billing === null ? {} : { results_unlocked: "true" }),
  };
  const row =
    body && drift
      ? [flattenContactJob({ ...body, job_id: contact.id }, charged, drift)]
      : [{ table: "contact_job", columns: Object.keys(known), rows: [Object.values(known)] }];
  await context.commit({
    upserts: [...row, ...upserts],
    settled,
    checkpoints: [{ stream: contact.id, cursor }],
    counters: { records_received: received },
    drift: drift?.entries() ?? [],
  });
  contact.cursor = cursor;
}

const { unlock, results } = contactJobEndpoints;

/** Limits of what a contact job may be charged. */
interface Charge {
  /** Number of results that the job's state reports. */
  readonly count: number;
  readonly ceiling: { readonly maxBillable: number };
}

interface Reserved {
  readonly callId: string;
  /** True if an earlier call, whose outcome is unknown, may have been charged. */
  readonly isInDoubt: boolean;
}

/**
 * Unlocks the results of a completed contact job and stores them. Section 8 leaves open whether the unlock or each page is
 * billed, so pages are read free of reservations only once the service has shown that it bills the unlock. Returns false if
 * the service refuses the unlock for the moment.
 */
export async function storeResults(context: FeedContext, contact: Contact, charge: Charge): Promise<boolean> {
  const { job, log, config, progress } = context;
  progress.start(job.name, charge.count - contact.cursor.offset, results.name);
  try {
    if (contact.cursor.billing === null && !(await unlockFirst(context, contact, charge))) return false;
    if (contact.cursor.billing === "page") {
      while (!contact.cursor.is_stored) await readBilled(context, contact, charge);
    } else if (!contact.cursor.is_stored) {
      const { offset, total } = contact.cursor;
      const read = (at: number) => readFree(context, contact, at);
      const from = { from: offset, total: total ?? charge.count, ahead: 2 * config.service.concurrency };
      for await (const page of readPages(read, from)) await storePage(context, contact, page);
    }
  } finally {
    progress.end(job.name);
  }
  log.info(
    { job: job.name, job_id: contact.id, billable_count: contact.cursor.billable_count },
    "contacts_stored",
  );
  return true;
}

/**
 * Reads and stores the first page, which unlocks the job and may charge all of its results. Returns false on 409: not
 * completed, or another unlock is in progress.
 */
async function unlockFirst(
  context: FeedContext,
  contact: Contact,
  { count, ceiling }: Charge,
): Promise<boolean> {
  const reserved = await reserve(context, contact, unlock.name, { records: count, ceiling });
  const first = await readCharged(context, contact, unlock, { offset: 0, reserved });
  if (first === null) return false;
  const { billableCount, returned, total } = first;
  if (first.isInDoubt && (billableCount ?? 0) === 0) {
    // The charge of the lost answer is unknown, but all results are covered by the reservation, whatever is billed.
    await storePage(context, contact, first, { billing: "unlock", reserved, billed: Math.max(count, total) });
    return true;
  }
  const billing = await billingOf(context, contact, first);
  await storePage(context, contact, first, { billing, reserved, billed: billableCount ?? returned });
  return true;
}

/** Finds out what the service bills: a page that was charged costs nothing the second time, an unlock states the same charge. */
async function billingOf(
  context: FeedContext,
  contact: Contact,
  { billableCount, returned, total }: ResultPage,
): Promise<"unlock" | "page"> {
  if (returned >= total || (billableCount !== null && billableCount > returned)) return "unlock";
  if (billableCount === null || billableCount === 0) return "page";
  const again = await readFree(context, contact, 0);
  return again.billableCount === billableCount ? "unlock" : "page";
}

/** Reads and stores a page that is charged. */
async function readBilled(context: FeedContext, contact: Contact, { count, ceiling }: Charge): Promise<void> {
  const { offset, billable_count: billed, total } = contact.cursor;
  const left = (total ?? count) - offset;
  const records = left > 0 ? Math.min(RESULTS_PAGE_SIZE, left) : RESULTS_PAGE_SIZE;
  const rest = { maxBillable: ceiling.maxBillable - (billed ?? 0) };
  const reserved = await reserve(context, contact, results.name, { records, ceiling: rest });
  const page = await readCharged(context, contact, results, { offset, reserved });
  if (page === null) {
    throw new StopJobError(
      "results_locked",
      `${context.job.name}: ${results.name}: the results of ${contact.id} are locked (409), although they were unlocked. Run again.`,
    );
  }
  const { billableCount, returned, isInDoubt } = page;
  // The charge of a lost answer is unknown, but at most the records of its page.
  const charged = isInDoubt && billableCount === 0 ? returned : (billableCount ?? returned);
  await storePage(context, contact, page, { billing: "page", reserved, billed: charged });
}

/** Writes down the intent of a charge and reserves it, or finds the one of an earlier run. */
async function reserve(
  context: FeedContext,
  contact: Contact,
  endpoint: string,
  { records, ceiling }: { readonly records: number; readonly ceiling: Charge["ceiling"] },
): Promise<Reserved> {
  checkCeiling(`${context.job.name}: the contact job ${contact.id}`, records, ceiling);
  const { unlock: earlier } = contact.cursor;
  const intent = earlier !== null && earlier.records >= records ? earlier : newIntent(records);
  if (intent !== earlier) {
    await settle(context, contact, null);
    await storeContact(context, contact, { cursor: { unlock: intent } });
  }
  try {
    await reserveIntent(context, endpoint, intent);
  } catch (error) {
    // Nothing was reserved, so nothing was sent.
    if (error instanceof LimitReachedError) await settle(context, contact, null);
    throw error;
  }
  return { callId: intent.call_id, isInDoubt: earlier !== null };
}

/** Records what the charge under way was, if there is one. */
export async function settle(context: FeedContext, contact: Contact, billed: number | null): Promise<void> {
  const { unlock: intent } = contact.cursor;
  if (intent === null) return;
  await storeContact(context, contact, {
    settled: { callId: intent.call_id, billed },
    cursor: { unlock: null },
  });
}

interface ChargedPage extends ResultPage {
  /** True if an earlier call without an answer may have been charged, so that this answer doesn't state it. */
  readonly isInDoubt: boolean;
}

/** Reads a page that may be charged; null if the service refuses it for the moment (409). */
async function readCharged(
  context: FeedContext,
  contact: Contact,
  endpoint: typeof unlock | typeof results,
  { offset, reserved }: { readonly offset: number; readonly reserved: Reserved },
): Promise<ChargedPage | null> {
  const { job } = context;
  const call = resultsCall(endpoint, { id: contact.id, list: "results", offset });
  const reply = await context.call({ ...call, expects: [402, 403, 404, 409] });
  const isInDoubt = reserved.isInDoubt || reply.mayBeDone;
  if (reply.kind === "answer") return { ...reply.value, isInDoubt };
  // A charge can't be repeated, so after 402 there was none. Other refusals leave the charge of a lost answer unknown.
  if (reply.status === 402 || !isInDoubt) await settle(context, contact, null);
  if (reply.status === 409) return null;
  if (reply.status === 402) {
    throw new LimitReachedError(
      "credits",
      `${job.name}: the plan doesn't cover the results of ${contact.id} from position ${offset} on (402). Earlier pages are kept; ` +
        "run again when there are new credits.",
    );
  }
  throw reply.status === 404 ? contactGone(context, contact, endpoint.name) : reply.stop;
}

async function readFree(context: FeedContext, { id }: Contact, offset: number): Promise<ResultPage> {
  const reply = await context.call(resultsCall(results, { id, list: "results", offset }));
  if (reply.kind === "refused") throw new Error("a call without expected refusals was refused");
  return reply.value;
}

/** Stores a page, and what it was charged. */
async function storePage(
  context: FeedContext,
  contact: Contact,
  page: ResultPage,
  charged?: {
    readonly billing: "unlock" | "page";
    readonly reserved: Reserved;
    readonly billed: number;
  },
): Promise<void> {
  const { offset, returned, total, items } = page;
  if (returned === 0 && offset < total) {
    throw new StopJobError(
      "page_not_advancing",
      `${context.job.name}: the page of results at offset ${offset} is empty, but the service reports ${total}. Run again.`,
    );
  }
  const drift = new DriftLog(results.name);
  const end = offset + returned;
  const before = charged?.billing === "page" ? (contact.cursor.billable_count ?? 0) : 0;
  await storeContact(context, contact, {
    upserts: [flattenContactResults(items, { jobId: contact.id, offset }, drift)],
    drift,
    received: items.length,
    ...(charged ? { settled: { callId: charged.reserved.callId, billed: charged.billed } } : {}),
    cursor: {
      offset: end,
      total,
      is_stored: end >= total,
      ...(charged ? { billing: charged.billing, unlock: null, billable_count: before + charged.billed } : {}),
      ...(page.unlockedAt === null ? {} : { unlocked_at: page.unlockedAt }),
    },
  });
  context.progress.advance(context.job.name, items.length);
}

/** Error for a contact job that the service does not have. */
export function contactGone({ job }: FeedContext, { id }: Contact, endpoint: string): StopJobError {
  return new StopJobError(
    "search_gone",
    `${job.name}: ${endpoint}: the service has no contact job ${id} (404): it was deleted, or belongs to another organization. ` +
      "Its stored rows are kept. Remove it from the configuration, or correct its ID.",
  );
}
