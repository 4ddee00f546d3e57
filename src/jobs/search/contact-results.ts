import { LimitReachedError, StopJobError } from "../../errors.ts";
import { readPages, type ResultPage, resultsCall } from "../../extract/result-pages.ts";
import { RESULTS_PAGE_SIZE } from "../../schemas/audience-search.ts";
import { contactJobEndpoints, flattenContactResults } from "../../schemas/contact-jobs.ts";
import { DriftLog } from "../../schemas/drift.ts";
import type { FeedContext } from "../feed-type.ts";
import { type Contact, storeContact } from "./contact.ts";
import { checkCeiling, newIntent, reserveIntent } from "./unlock.ts";
import type { Deadline } from "./wait.ts";

const { unlock, results } = contactJobEndpoints;

/** Largest charge that the user accepts for a contact job. */
interface Ceiling {
  readonly maxBillable: number;
}

/** A reserved charge. */
interface Reserved {
  readonly callId: string;
  /** True if an earlier run reserved it, and may have sent its call. */
  readonly isInDoubt: boolean;
}

/**
 * Unlocks the results of a completed contact job and stores them. Section 8 leaves open whether the unlock or each page is
 * billed, so pages are read free of reservations only once the service has shown that it bills the unlock.
 */
export async function storeResults(
  context: FeedContext,
  contact: Contact,
  {
    count,
    ceiling,
    deadline,
  }: { readonly count: number; readonly ceiling: Ceiling; readonly deadline: Deadline },
): Promise<void> {
  const { job, log, config, progress } = context;
  progress.start(job.name, count - contact.cursor.offset, results.name);
  try {
    if (contact.cursor.billing === null) await unlockFirst(context, contact, { count, ceiling, deadline });
    if (contact.cursor.billing === "page") {
      while (!contact.cursor.is_stored) await readBilled(context, contact, { count, ceiling });
    } else if (!contact.cursor.is_stored) {
      const read = (offset: number) => readFree(context, contact, offset);
      const from = { from: contact.cursor.offset, total: count, ahead: 2 * config.service.concurrency };
      for await (const page of readPages(read, from)) await storePage(context, contact, page);
    }
  } finally {
    progress.end(job.name);
  }
  log.info(
    { job: job.name, job_id: contact.id, billable_count: contact.cursor.billable_count },
    "contacts_stored",
  );
}

/** Reads and stores the first page, which unlocks the job and may charge all of its results. */
async function unlockFirst(
  context: FeedContext,
  contact: Contact,
  {
    count,
    ceiling,
    deadline,
  }: { readonly count: number; readonly ceiling: Ceiling; readonly deadline: Deadline },
): Promise<void> {
  const reserved = await reserve(context, contact, unlock.name, { records: count, ceiling });
  for (;;) {
    const first = await readCharged(context, contact, unlock, 0);
    if (first !== null) {
      const billing = await billingOf(context, contact, first);
      await storePage(context, contact, first, { billing, reserved, mayBeDone: first.mayBeDone });
      return;
    }
    // Not completed, or another unlock is in progress.
    await deadline.pause([contact.id]);
  }
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
async function readBilled(
  context: FeedContext,
  contact: Contact,
  { count, ceiling }: { readonly count: number; readonly ceiling: Ceiling },
): Promise<void> {
  const { offset, billable_count: billed } = contact.cursor;
  const records = Math.max(1, Math.min(RESULTS_PAGE_SIZE, count - offset));
  const left = { maxBillable: ceiling.maxBillable - (billed ?? 0) };
  const reserved = await reserve(context, contact, results.name, { records, ceiling: left });
  const page = await readCharged(context, contact, results, offset);
  if (page === null) {
    throw new StopJobError(
      "results_locked",
      `${context.job.name}: ${results.name}: the results of ${contact.id} are locked (409), although they were unlocked. Run again.`,
    );
  }
  await storePage(context, contact, page, { billing: "page", reserved, mayBeDone: page.mayBeDone });
}

/** Writes down the intent of a charge and reserves it, or finds the one of an earlier run. */
async function reserve(
  context: FeedContext,
  contact: Contact,
  endpoint: string,
  { records, ceiling }: { readonly records: number; readonly ceiling: Ceiling },
): Promise<Reserved> {
  try {
    checkCeiling(`${context.job.name}: the contact job ${contact.id}`, records, ceiling);
  } catch (error) {
    if (error instanceof LimitReachedError) await settle(context, contact, null);
    throw error;
  }
  const { unlock: earlier } = contact.cursor;
  const intent = earlier?.records === records ? earlier : newIntent(records);
  if (intent !== earlier) {
    await settle(context, contact, null);
    await storeContact(context, contact, { cursor: { unlock: intent } });
  }
  await reserveIntent(context, endpoint, intent);
  return { callId: intent.call_id, isInDoubt: intent === earlier };
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

/** A page whose reading may have been charged twice. */
interface ChargedPage extends ResultPage {
  /** True if an attempt without an answer may have been charged, so that the answer doesn't state it. */
  readonly mayBeDone: boolean;
}

/** Reads a page that may be charged; null if the service refuses it for the moment (409). */
async function readCharged(
  context: FeedContext,
  contact: Contact,
  endpoint: typeof unlock | typeof results,
  offset: number,
): Promise<ChargedPage | null> {
  const { job } = context;
  const call = resultsCall(
    endpoint,
    { id: contact.id, list: "results", offset },
    new DriftLog(endpoint.name),
  );
  const reply = await context.call({ ...call, expects: [402, 404, 409] });
  if (reply.kind === "answer") return { ...reply.value, mayBeDone: reply.mayBeDone };
  if (reply.status === 409) return null;
  await settle(context, contact, null);
  if (reply.status === 402) {
    throw new LimitReachedError(
      "credits",
      `${job.name}: the plan doesn't cover the results of ${contact.id} from position ${offset} on (402). Earlier pages are kept; ` +
        "run again when there are new credits.",
    );
  }
  throw contactGone(context, contact, endpoint.name);
}

/** Reads a page that is not charged. */
async function readFree(context: FeedContext, { id }: Contact, offset: number): Promise<ResultPage> {
  const reply = await context.call(
    resultsCall(results, { id, list: "results", offset }, new DriftLog(results.name)),
  );
  if (reply.kind === "refused") throw new Error("a call without expected refusals was refused");
  return reply.value;
}

/** Stores a page, and what it was charged. */
async function storePage(
  context: FeedContext,
  contact: Contact,
  page: ResultPage,
  charged?: { readonly billing: "unlock" | "page"; readonly reserved: Reserved; readonly mayBeDone: boolean },
): Promise<void> {
  const { offset, returned, total, items, billableCount } = page;
  if (returned === 0 && offset < total) {
    throw new StopJobError(
      "page_not_advancing",
      `${context.job.name}: the page of results at offset ${offset} is empty, but the service reports ${total}. Run again.`,
    );
  }
  const drift = new DriftLog(results.name);
  const end = offset + returned;
  const { billing, reserved, mayBeDone } = charged ?? {};
  // What a lost attempt was charged is unknown, but at most the records of its page.
  const isInDoubt = billing === "page" && (reserved?.isInDoubt === true || mayBeDone === true);
  const billed = Math.max(billableCount ?? returned, isInDoubt ? returned : 0);
  const before = billing === "page" ? (contact.cursor.billable_count ?? 0) : 0;
  await storeContact(context, contact, {
    upserts: [flattenContactResults(items, { jobId: contact.id, offset }, drift)],
    drift,
    received: items.length,
    ...(reserved ? { settled: { callId: reserved.callId, billed } } : {}),
    cursor: {
      offset: end,
      is_stored: end >= total,
      ...(charged ? { billing: charged.billing, unlock: null, billable_count: before + billed } : {}),
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
