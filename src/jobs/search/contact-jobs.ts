import { z } from "zod";
import type { JobOf } from "../../config/config.ts";
import { listOf, settings } from "../../config/schema/settings.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { duration } from "../../config/schema/times.ts";
import { connectionName, sqlText, uuid } from "../../config/schema/values.ts";
import { StopJobError } from "../../errors.ts";
import { readPages, type ResultPage } from "../../extract/pages.ts";
import { countText } from "../../figures.ts";
import type { Db } from "../../load/db/db.ts";
import { readKeys } from "../../load/inputs/read.ts";
import { cursorCount } from "../../load/write/commit.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { RESULTS_PAGE_SIZE } from "../../schemas/audience-search.ts";
import {
  contactJobEndpoints,
  finishedContactStates,
  flattenContactJob,
  flattenContactResults,
} from "../../schemas/contact-jobs.ts";
import { booleanOf, countOf, DriftLog } from "../../schemas/convert.ts";
import { isJsonObject, type JsonObject } from "../../schemas/flatten.ts";
import {
  collectErrors,
  type FeedContext,
  type FeedJobType,
  type FeedPlanContext,
  readCursor,
  upsertRejects,
} from "../feed.ts";
import { type IdQuery, idReadSource, idSourceOf } from "../sources.ts";
import type { JobPlan } from "../job-type.ts";
import {
  isFinal,
  planOfTasks,
  readCharged,
  readFree,
  rejectItems,
  runTasks,
  type State,
  recordCharge,
  store,
  type Task,
  taskCursor,
  unlockSetting,
} from "./tasks.ts";

const { unlock, results } = contactJobEndpoints;

const contactSettings = jobSettings("contact_jobs", {
  job_ids: z.union([
    listOf(uuid(), "a list of IDs, or { sql: SELECT … }", 1),
    settings({ sql: sqlText("a SELECT statement that returns job_id") }),
  ]),
  /** Where the query of `job_ids` runs; the warehouse by default. */
  connection: connectionName().optional(),
  unlock: unlockSetting(),
  /** Longest wait of a run for the service. */
  deadline: duration().prefault("15m"),
});

type ContactJobsConfig = JobOf<typeof contactSettings>;
type Context = FeedContext<ContactJobsConfig>;
type PlanContext = FeedPlanContext<ContactJobsConfig>;

const contactCursor = taskCursor.extend({
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
type Contact = Task<ContactCursor>;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;

/** Query of the IDs; null if they are listed. */
function queryOf({ name, jobIds, connection }: ContactJobsConfig): IdQuery | null {
  return "sql" in jobIds
    ? { name, path: `jobs.${name}.job_ids`, sql: jobIds.sql, connection, key: "job_id" }
    : null;
}

async function contactsOf(
  { job, checkpoints }: Pick<PlanContext, "job" | "checkpoints">,
  db: Db,
): Promise<{ readonly contacts: readonly Contact[]; readonly wrong: readonly string[] }> {
  const query = queryOf(job);
  const listed = "sql" in job.jobIds ? [] : job.jobIds;
  const found = query === null ? listed : await readKeys(db, await idSourceOf(query));
  const ids = [...new Set(found.map((id) => id.toLowerCase()))];
  const contacts = ids
    .filter((id) => UUID.test(id))
    .map(
      (id): Contact => ({
        endpoints: contactJobEndpoints,
        list: "results",
        finalStates: finishedContactStates,
        noun: "contact job",
        name: id,
        ifFailed:
          "The table contact_job has its message. Submit it again, and put the new ID in place of this one.",
        ifGone: "Remove it from the configuration, or correct its ID.",
        stream: id,
        unlock: job.unlock,
        id,
        cursor: readCursor(checkpoints, job, id, contactCursor) ?? contactCursor.parse({}),
        rowsOf: (cursor, state) => [rowOf(id, cursor, state)],
      }),
    );
  return { contacts, wrong: ids.filter((id) => !UUID.test(id)) };
}

function rowOf(id: string, cursor: ContactCursor, state: State | null): Upsert {
  const billable = cursor.billable_count === null ? null : String(cursor.billable_count);
  const charged = { billable_count: billable, unlocked_at: cursor.unlocked_at };
  if (state) return flattenContactJob({ ...state.body, job_id: id }, charged, state.drift);
  // A page was answered, so the results are unlocked, whatever the state said before.
  const known = { job_id: id, ...charged, ...(cursor.billing === null ? {} : { results_unlocked: "true" }) };
  return { table: "contact_job", columns: Object.keys(known), rows: [Object.values(known)] };
}

/** Maximum number of kept characters of a wrong ID. */
const MAX_KEPT_ID = 100;

async function run(context: Context): Promise<void> {
  const { job, request } = context;
  const { contacts, wrong } = await contactsOf(context, context.db);
  const errors = collectErrors();
  if (queryOf(job) !== null) {
    const rejects = wrong.map((id) => ({
      identity: ["bad_job_id", job.name, id],
      sourceKey: id.slice(0, MAX_KEPT_ID),
      message: "The query returned an ID that is not a UUID.",
    }));
    const source = { source: job.name, code: "bad_job_id" } as const;
    await context.commit({ upserts: [upsertRejects(context, source, () => rejects)] });
  }
  if (wrong.length > 0) {
    const ids = countText(wrong.length, "ID");
    const message = `${job.name}: the query of job_ids returned ${ids} that are not UUIDs. They were skipped; the table \`reject\` lists them.`;
    errors.keep(new StopJobError("bad_job_id", message));
    const counts = { records_rejected: wrong.length, records_rejected_before_sending: wrong.length };
    context.count({ records_read: wrong.length, ...counts });
  }
  const steps = {
    isOpen: (contact: Contact) => isOpen(request.fullRefresh, contact),
    complete: (contact: Contact, body: JsonObject) => complete(context, contact, body),
  };
  await runTasks(context, contacts, steps, errors);
}

async function planContacts(context: PlanContext): Promise<Partial<JobPlan>> {
  const { contacts, wrong } = await contactsOf(context, context.db);
  const due = contacts.filter((contact) => isOpen(false, contact)).length;
  const high = due * (context.job.unlock?.maxBillable ?? 0);
  return {
    ...planOfTasks(contacts.length + wrong.length, due),
    calls: due,
    estimated_billable: { low: 0, expected: 0, high, basis: "ceilings of `unlock`" },
  };
}

function isOpen(fullRefresh: boolean, contact: Contact): boolean {
  const { status, is_stored: isStored, unlock: charge } = contact.cursor;
  if (!isFinal(contact) || fullRefresh) return true;
  return status === "completed" && !isStored && (contact.unlock !== null || charge !== null);
}

/**
 * Unlocks the results of a completed contact job if that is allowed, and stores them. Section 8 leaves open whether the unlock or
 * each page is billed, so pages are read without reservations only once the service has shown that it bills the unlock. Returns false
 * if the service refuses the unlock for the moment.
 */
async function complete(context: Context, contact: Contact, body: JsonObject): Promise<boolean> {
  const { job, log, config, progress } = context;
  const count = countOf(body["result_count"]);
  if (count === 0) await store(context, contact, { cursor: { is_stored: true } });
  if (contact.unlock === null) {
    const isUnlocked = booleanOf(body["results_unlocked"]) === true;
    await recordCharge(context, contact, isUnlocked ? (contact.cursor.unlock?.records ?? null) : null);
  }
  if (contact.unlock === null || contact.cursor.is_stored) return true;
  progress.start(job.name, (count ?? 0) - contact.cursor.offset, results.name);
  try {
    if (contact.cursor.billing === null && !(await unlockFirst(context, contact, count))) return false;
    const { billing, offset, total, is_stored: isStored } = contact.cursor;
    const isBilled = billing === "page";
    const read = (at: number) =>
      isBilled ? readBilled(context, contact, at) : readFree(context, contact, at);
    const ahead = isBilled ? 1 : 2 * config.service.concurrency;
    if (!isStored) {
      for await (const page of readPages(read, { from: offset, total, ahead })) {
        await storePage(context, contact, page);
      }
    }
  } finally {
    progress.end(job.name);
  }
  const { billable_count: billed } = contact.cursor;
  log.info({ job: job.name, job_id: contact.id, billable_count: billed }, "contacts_stored");
  return true;
}

/** Page of results, with its charge unless it is free. */
interface ContactPage extends ResultPage {
  readonly charge?: {
    readonly callId: string;
    readonly billing: "unlock" | "page";
    readonly billed: number;
  };
}

/** Reads and stores the first page, which unlocks the job and may charge all of its results. Returns false if it is refused. */
async function unlockFirst(context: Context, contact: Contact, count: number | null): Promise<boolean> {
  const page = await readCharged(context, contact, unlock, { records: count, before: 0, offset: 0 });
  if (page === null) return false;
  const { billableCount, returned, total, reserved, isChargeUnknown } = page;
  const isLost = isChargeUnknown && (billableCount ?? 0) === 0;
  const charge = {
    callId: reserved.call_id,
    // The charge of a lost answer is unknown, but the reservation covers all results, whatever is billed.
    billing: isLost ? ("unlock" as const) : await billingOf(context, contact, page),
    billed: isLost ? Math.max(count ?? 0, total) : (billableCount ?? returned),
  };
  await storePage(context, contact, { ...page, charge });
  return true;
}

/** Finds out what the service bills: a page that was charged costs nothing the second time, an unlock states the same charge. */
async function billingOf(
  context: Context,
  contact: Contact,
  { billableCount, returned, total }: ResultPage,
): Promise<"unlock" | "page"> {
  if (returned >= total || (billableCount !== null && billableCount > returned)) return "unlock";
  if (billableCount === null || billableCount === 0) return "page";
  const again = await readFree(context, contact, 0);
  return again.billableCount === billableCount ? "unlock" : "page";
}

async function readBilled(context: Context, contact: Contact, offset: number): Promise<ContactPage> {
  const { billable_count: before, total } = contact.cursor;
  const records = Math.min(RESULTS_PAGE_SIZE, (total ?? 0) - offset);
  const page = await readCharged(context, contact, results, { records, before: before ?? 0, offset });
  if (page === null) {
    throw new StopJobError(
      "results_locked",
      `${context.job.name}: ${results.name}: the results of ${contact.id} are locked (409), although they were unlocked. Run again.`,
    );
  }
  const { billableCount, returned, reserved, isChargeUnknown } = page;
  // The charge of a lost answer is unknown, but at most the records of its page.
  const billed = isChargeUnknown && billableCount === 0 ? returned : (billableCount ?? returned);
  return { ...page, charge: { callId: reserved.call_id, billing: "page", billed } };
}

async function storePage(context: Context, contact: Contact, page: ContactPage): Promise<void> {
  const { offset, returned, total, items, charge } = page;
  const drift = new DriftLog(results.name);
  const end = offset + returned;
  const before = charge?.billing === "page" ? (contact.cursor.billable_count ?? 0) : 0;
  await store(context, contact, {
    upserts: [flattenContactResults(items, { jobId: contact.id, offset }, drift)],
    drift,
    received: items.length,
    rejects: rejectItems(context, contact, [page], isJsonObject),
    charge,
    cursor: {
      offset: end,
      total,
      is_stored: end >= total,
      ...(charge ? { billing: charge.billing, unlock: null, billable_count: before + charge.billed } : {}),
      ...(page.unlockedAt === null ? {} : { unlocked_at: page.unlockedAt }),
    },
  });
  context.progress.advance(context.job.name, items.length);
}

/** Waits for contact jobs, unlocks them if allowed, and reads their results. */
export const contactJobsJob: FeedJobType<ContactJobsConfig> = {
  type: "contact_jobs",
  settings: contactSettings,
  isBilled: false,
  // Without an ID, no free call can show whether the key has access.
  endpoints: [],
  writes: ["contact_job", "contact_job_result"],
  checkpoints: {
    meaning:
      "status: the last state; billing: what the service bills, the unlock or each page; offset: position of the next page; " +
      "total: number of results; billable_count: charge so far; unlock: a charge that is not known yet. One stream per contact job",
    cursor: contactCursor,
    example: { offset: 100 },
    streams: async (job) => ("sql" in job.jobIds ? [] : job.jobIds),
    noStream: "its query names no contact job yet",
  },
  reads(job, config) {
    const query = queryOf(job);
    return query === null ? [] : [idReadSource(query, config)];
  },
  plannedCalls: () => ({
    least: 0,
    more: "one every 2 to 5 s while a contact job runs, and one for each 100 unlocked results",
  }),
  plan: planContacts,
  run,
};
