import { z } from "zod";
import type { JobOf } from "../../config/config.ts";
import { listOf, settings } from "../../config/schema/settings.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { connectionName, duration, sqlText, uuid } from "../../config/schema/values.ts";
import { StopJobError } from "../../errors.ts";
import { statusCall } from "../../extract/pages.ts";
import { countText } from "../../figures.ts";
import type { Db } from "../../load/db/db.ts";
import { readKeys } from "../../load/inputs/read.ts";
import type { Upsert } from "../../load/write/upsert.ts";
import { contactJobEndpoints, finishedContactStates } from "../../schemas/contact-jobs.ts";
import { booleanOf, countOf } from "../../schemas/convert.ts";
import {
  type FeedContext,
  type FeedJobType,
  type FeedPlanContext,
  readCursor,
  upsertRejects,
} from "../feed.ts";
import { type IdQuery, idReadSource, idSourceOf } from "../sources.ts";
import type { JobPlan } from "../job-type.ts";
import { pollAll, unlockSetting, workOnSeveral } from "./charges.ts";
import {
  type Contact,
  contactCursor,
  contactGone,
  settle,
  storeContact,
  storeResults,
} from "./contact-results.ts";

const { status } = contactJobEndpoints;

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

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/iu;

/** Query of the IDs; null if they are listed. */
function queryOf({ name, jobIds, connection }: ContactJobsConfig): IdQuery | null {
  return "sql" in jobIds
    ? { name, path: `jobs.${name}.job_ids`, sql: jobIds.sql, connection, key: "job_id" }
    : null;
}

async function idsOf(job: ContactJobsConfig, db: Db): Promise<readonly string[]> {
  const query = queryOf(job);
  if (query === null) return "sql" in job.jobIds ? [] : job.jobIds;
  const ids = await readKeys(db, await idSourceOf(query));
  return [...new Set(ids.map((id) => id.toLowerCase()))];
}

/** Maximum number of kept characters of a wrong ID. */
const MAX_KEPT_ID = 100;

async function run(context: Context): Promise<void> {
  const { job, checkpoints } = context;
  const several = workOnSeveral();
  const endMs = context.clock.now() + job.deadlineMs;
  const ids = await context.retryWhileDown(() => idsOf(job, context.db));
  const wrong = ids.filter((id) => !UUID.test(id));
  const open: Contact[] = [];
  let unchanged = 0;
  for (const id of ids.filter((one) => UUID.test(one))) {
    await several.attempt(async () => {
      const cursor = readCursor({ checkpoints, job, request: { fullRefresh: false } }, id, contactCursor);
      const contact = { id, cursor: cursor ?? contactCursor.parse({}) };
      if (isOpen(job, context.request.fullRefresh, contact)) open.push(contact);
      else {
        unchanged += 1;
        throwIfFailed(context, contact);
      }
    });
  }
  const started = open.length;
  if (queryOf(job) !== null) await context.commit({ upserts: [rejectWrong(context, wrong)] });
  context.count({
    records_read: ids.length,
    records_unchanged: unchanged,
    records_rejected: wrong.length,
    records_rejected_before_sending: wrong.length,
  });
  try {
    await pollAll(context, several, open, {
      endMs,
      nameOf: ({ id }) => id,
      advance: (contact) => advance(context, contact),
    });
  } finally {
    context.count({ records_sent: started - open.length, records_remaining: open.length });
  }
  await several.attempt(async () => {
    if (wrong.length === 0) return;
    throw new StopJobError(
      "bad_job_id",
      `${job.name}: the query of job_ids returned ${countText(wrong.length, "ID")} that are not UUIDs. They were left out; the table \`reject\` lists them.`,
    );
  });
  several.end();
}

function rejectWrong({ job, run, clock }: Context, wrong: readonly string[]): Upsert {
  const at = new Date(clock.now()).toISOString();
  return upsertRejects({ run, source: job.name, code: "bad_job_id", apiRequestId: null, at }, () =>
    wrong.map((id) => ({
      identity: ["bad_job_id", job.name, id],
      sourceKey: id.slice(0, MAX_KEPT_ID),
      message: "The query returned an ID that is not a UUID.",
    })),
  );
}

/** Counts what is left to do, and the ceilings of its unlocks. */
async function planContacts(context: FeedPlanContext<ContactJobsConfig>): Promise<Partial<JobPlan>> {
  const { job, db, checkpoints } = context;
  const request = { fullRefresh: false };
  const ids = await idsOf(job, db);
  const due = ids.filter((id) => {
    if (!UUID.test(id)) return false;
    const cursor = readCursor({ checkpoints, job, request }, id, contactCursor) ?? contactCursor.parse({});
    return isOpen(job, false, { id, cursor });
  });
  const high = due.length * (job.unlock?.maxBillable ?? 0);
  return {
    records_read: ids.length,
    records_due: due.length,
    due_reasons: { never_answered: due.length },
    records_unchanged: ids.length - due.length,
    records_to_send: due.length,
    calls: due.length,
    estimated_billable: { low: 0, expected: 0, high, basis: "ceilings of `unlock`" },
    ...(due.length === 0 ? { remarks: [] } : {}),
  };
}

/** True if something is left to do: to wait, to unlock, to read results. */
function isOpen({ unlock }: ContactJobsConfig, fullRefresh: boolean, { cursor }: Contact): boolean {
  if (cursor.status === null || !finishedContactStates.has(cursor.status) || fullRefresh) return true;
  return cursor.status === "completed" && !cursor.is_stored && (unlock !== null || cursor.unlock !== null);
}

/** Reads the state of a contact job, and does what follows once it is finished. Returns false if there is something to wait for. */
async function advance(context: Context, contact: Contact): Promise<boolean> {
  const { job } = context;
  const reply = await context.call({ ...statusCall(status, contact.id), expects: [404, 503] });
  if (reply.kind === "refused") {
    if (reply.status === 503) return false;
    throw contactGone(context, contact, status.name);
  }
  await storeContact(context, contact, { body: reply.value, drift: reply.drift });
  if (!finishedContactStates.has(contact.cursor.status ?? "")) return false;
  throwIfFailed(context, contact);
  const count = countOf(reply.value["result_count"]);
  if (count === 0) await storeContact(context, contact, { cursor: { is_stored: true } });
  if (job.unlock === null) {
    const { unlock: intent } = contact.cursor;
    await settle(
      context,
      contact,
      intent && booleanOf(reply.value["results_unlocked"]) ? intent.records : null,
    );
  }
  if (job.unlock === null || contact.cursor.is_stored) return true;
  if (count === null) {
    throw new StopJobError(
      "count_unknown",
      `${job.name}: the contact job ${contact.id} has no result_count, so an unlock could cost anything. Nothing was unlocked.`,
    );
  }
  return storeResults(context, contact, { count, ceiling: job.unlock });
}

function throwIfFailed({ job }: Context, { id, cursor }: Contact): void {
  if (cursor.status !== "failed") return;
  const code = cursor.error_code === null ? "" : ` (${cursor.error_code})`;
  throw new StopJobError(
    "search_failed",
    `${job.name}: the contact job ${id} failed${code}. The table contact_job has its message. Submit it again, and put the new ID ` +
      "in place of this one.",
  );
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
    noStream: () => "its query names no contact job yet",
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
