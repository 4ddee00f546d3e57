import { LimitReachedError } from "../../errors.ts";
import { count, countText } from "../../figures.ts";
import { confirm, decideSending, triedRecords } from "../confirm.ts";
import type { JobType } from "../job-type.ts";
import {
  capped,
  type Counters,
  ended,
  endOfError,
  interrupted,
  type JobContext,
  type JobEnd,
  succeeded,
  unaccountedRows,
  type WorkResult,
  zeroCounters,
} from "../job.ts";
import { loadSpooled } from "./load-response.ts";
import { forecastOf, forecastText } from "./estimate.ts";
import { certainlyBilled } from "../price.ts";
import { closeJobSpool, type JobSpool, openJobSpool, openOtherSpools } from "./job-spool.ts";
import { type Cap, limitsOf, lookupSpecOf, tightestCap, usedOf } from "./lookup-spec.ts";
import { isLookupJob, type LookupJobConfig, type LookupJobType, lookupOf } from "./lookup-types.ts";
import { planLookup } from "./plan-lookup.ts";
import { type Selected, sendDue, type Tally, type Task, type Unanswered } from "./send.ts";
import { allInputs, readSourceOf } from "../sources.ts";
import { findPeople } from "../../load/erasure/find.ts";
import { removeErased } from "../../load/erasure/remove.ts";
import { requestInRun } from "../../load/erasure/requests.ts";
import type { CounterDelta } from "../../load/ledger/ledger.ts";
import { readBudgetUse, readRunUse } from "../../load/ledger/reserve.ts";
import type { OpenClaims } from "../../load/lookups/claims.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import { retireJobs } from "../../load/lookups/parameters.ts";
import {
  lastCoverage,
  type LookupSelection,
  previewLookup,
  readCoverage,
  selectLookup,
} from "../../load/lookups/selection.ts";
import { countMissing, lockGoneRows, readGoneRows } from "../../load/lookups/store-input.ts";
import { readCounters, recordFound } from "../../load/runs/runs.ts";
import type { Spool } from "../../spool/spool.ts";

export function lookupJob(lookup: LookupJobType): JobType {
  const type: JobType<LookupJobConfig> = {
    ...lookup,
    endpoints: [{ ...lookup.endpoint, method: "POST" }],
    isSharded: true,
    reads: ({ input }, config) => [readSourceOf(input, config)],
    plan: planLookup,
    run: runLookup,
    checkpoints: null,
  };
  return type;
}

/** Runs a lookup, from the reading of its input to the check for missing rows. */
async function runLookup(context: JobContext<LookupJobConfig>): Promise<WorkResult> {
  const task = { ...context, spec: await lookupSpecOf(context.job, context.request) };
  const worked = await sendSelected(task);
  const isComplete = worked.end.status === "succeeded" && task.totals.counters().records_remaining === 0;
  if (!isComplete || !task.spec.erasesMissing) return worked;
  try {
    await eraseMissing(task);
    return worked;
  } catch (error) {
    return { ...worked, end: endOfError(error, "looking for rows that left the input") };
  }
}

/** Reads the input and sends what is due; maps a thrown error to the job's end. */
async function sendSelected(task: Task): Promise<WorkResult> {
  const { job, request, run, totals } = task;
  const limits = limitsOf(task.config, job, request.maxRecords, request.shard);
  let cap: Cap | null;
  let billed: number;
  let jobSpool: JobSpool | null = null;
  let selection: LookupSelection;
  let doing = "opening the spool";
  try {
    jobSpool = await openJobSpool(task.config, task.db, run);
    doing = "loading responses of earlier runs";
    await loadSpooled(task, jobSpool.spool);
    for (const spool of await openOtherSpools(task.config, task.db, jobSpool)) await loadSpooled(task, spool);
    doing = "reading the input";
    await retire(task);
    const uses = await readBudgetUse(task.db);
    const used = usedOf(uses, job.type, await readRunUse(task.db, run));
    cap = tightestCap(limits, used);
    billed = certainlyBilled(used);
    const spec = { ...task.spec, maxRecords: cap?.records ?? null };
    // A resend that the user doesn't want must leave nothing due.
    if (spec.resend && !request.yes)
      await confirmSending(task, (await previewLookup(task.db, spec, 0)).counts, { cap, billed });
    selection = await selectLookup(task.db, spec, run);
  } catch (error) {
    return { end: await closeSpool(task, endOfError(error, doing), jobSpool) };
  }
  const isStored = selection.counts.parametersChanged === 0;
  const counts = isStored ? selection.counts : withNothingSent(selection.counts);
  const tally: Tally = { matched: 0, rejected: 0, unanswered: null };
  let thrown: { readonly error: unknown } | null = null;
  let open: OpenClaims = { records: counts.toSend, rows: counts.rowsToSend, sent: 0 };
  let recorded = {};
  try {
    await recordFound(task.db, run, {
      ...foundCounters(counts),
      records_due: counts.due,
      rows_written: selection.rowsWritten,
    });
    recorded = foundCounters(counts);
    await send(task, { selection, tally, ...jobSpool, limits }, { cap, billed });
  } catch (error) {
    thrown = { error };
  }
  try {
    recorded = await readCounters(task.db, run);
    if (isStored) open = await selection.countOpen();
    await selection.close();
  } catch (error) {
    thrown ??= { error };
  }
  const counters = endCounters(counts, recorded, open);
  totals.addRecorded(counters);
  const { unanswered } = tally;
  const lost = thrown || task.signal.aborted || unanswered ? 0 : open.records;
  if (unaccountedRows(counters) !== 0 || lost > 0) {
    task.log.error({ job: job.name, lost, ...counters }, "counters_do_not_add_up");
  }
  const judged = endOfJob({
    job: job.name,
    thrown,
    isStopped: task.signal.aborted,
    counts,
    counters,
    open: open.records,
    unanswered,
    cap,
    maxRejectRatio: task.config.maxRejectRatio,
  });
  return {
    end: await closeSpool(task, judged, jobSpool),
    coverage: isStored ? await coverageOf(task, counts).catch(() => null) : null,
  };
}

/** Marks rows of jobs and inputs that are no longer configured as not present. */
async function retire({ config, db, run, log, progress }: Task): Promise<void> {
  const configured = config.jobs
    .filter(isLookupJob)
    .map(({ name, input }) => ({ job: name, source: input.name }));
  for (const { job, source, rows } of await retireJobs(db, run, configured)) {
    log.info({ job: run.job, retired_job: job, input: source, rows }, "job_retired");
    progress.note(
      run.job,
      `${job} on ${source} is no longer configured: ${countText(rows, "row is", "rows are")} marked as not present. Their results are kept, and a ` +
        "job that sends the same records will use them.",
    );
  }
}

/** Limit of the run, and records billed in the month before it. */
interface Before {
  readonly cap: Cap | null;
  readonly billed: number;
}

async function confirmSending(task: Task, counts: LookupCounts, before: Before): Promise<void> {
  const { config, job, request, pastRuns } = task;
  const { billable, cost } = forecastOf(config, job, counts, before);
  const decision = decideSending(config, { ...request, counts, billable, cost, pastRuns });
  await confirm(task, job.name, request, decision);
}

async function send(task: Task, selected: Selected, before: Before): Promise<void> {
  const { config, progress, signal, job, request } = task;
  const { counts } = selected.selection;
  const forecast = forecastOf(config, job, counts, before);
  task.log.info(
    { job: job.name, records_due: counts.due, records_to_send: counts.toSend, calls: forecast.calls },
    "planned",
  );
  progress.note(job.name, forecastText(job, counts, forecast, before.cap));
  if (!request.resend || request.yes) await confirmSending(task, counts, before);
  if (counts.toSend === 0 || signal.aborted) return;
  progress.start(job.name, counts.toSend, lookupOf(job).endpoint.name);
  try {
    await sendDue(task, selected);
  } finally {
    progress.end(job.name);
  }
}

/** Counts while the run waits for confirmation: everything due is reported as remaining. */
function withNothingSent(counts: LookupCounts): LookupCounts {
  const remaining = counts.read - counts.unchanged - counts.waiting - counts.suppressed;
  return { ...counts, rejectedBeforeSending: 0, reused: 0, toSend: 0, rowsToSend: 0, remaining };
}

/** Counters of what a reading found and did, before anything is sent. */
function foundCounters(counts: LookupCounts) {
  return {
    records_read: counts.read,
    records_unchanged: counts.unchanged,
    records_duplicate: counts.reused,
    records_suppressed: counts.suppressed,
    records_waiting: counts.waiting,
    records_rejected: counts.rejectedBeforeSending,
    records_rejected_before_sending: counts.rejectedBeforeSending,
  };
}

/**
 * Counters of a run: what its reading and its commits recorded, and the claims left without an answer. Rows whose claim is gone
 * without an answer of this run name a person erased meanwhile.
 */
function endCounters(counts: LookupCounts, recorded: CounterDelta, open: OpenClaims): Counters {
  const { records_sent: sent, records_duplicate: duplicate, ...others } = { ...zeroCounters, ...recorded };
  const answered = sent + duplicate - counts.reused;
  return {
    ...others,
    records_sent: sent + open.sent,
    records_duplicate: duplicate,
    records_suppressed: others.records_suppressed + counts.rowsToSend - answered - open.rows,
    records_remaining: counts.remaining + open.rows - open.sent,
  };
}

/** Coverage of the input after the run; that of the last run if nothing changed since. */
async function coverageOf({ db, spec, run }: Task, counts: LookupCounts) {
  const last = counts.isQuiet ? await lastCoverage(db, spec, run.shard) : null;
  return last ?? (await readCoverage(db, spec, spec.type === "validate_emails" ? 0 : counts.unusableKeys));
}

/** Adds the location of received answers that are not loaded yet; without any, no erasure needs to wait for them. */
async function closeSpool(
  { db, run, log, progress, job }: Task,
  end: JobEnd,
  jobSpool: JobSpool | null,
): Promise<JobEnd> {
  // If that fails, the next run does it.
  if (jobSpool) await closeJobSpool(db, run, jobSpool).catch(() => {});
  const text = jobSpool && spooledText(job.name, jobSpool.spool);
  if (jobSpool === null || text === null) return end;
  log.info({ job: job.name, calls: jobSpool.spool.calls }, "answers_spooled");
  if (!end.error) progress.note(job.name, text);
  return end.error ? { ...end, error: { ...end.error, message: `${end.error.message} ${text}` } } : end;
}

function spooledText(job: string, { folder, calls }: Pick<Spool, "folder" | "calls">): string | null {
  if (calls === 0) return null;
  const [are, them] = calls === 1 ? ["is", "it"] : ["are", "them"];
  return (
    `${countText(calls, "received response")} ${are} saved in ${folder}; the next run of ${job} loads ${them} without sending ` +
    "these records again."
  );
}

export interface WorkDone {
  readonly job: string;
  readonly thrown: { readonly error: unknown } | null;
  /** True after a signal. */
  readonly isStopped: boolean;
  readonly counts: LookupCounts;
  readonly counters: Counters;
  /** Records without an outcome, sent or not. */
  readonly open: number;
  readonly unanswered: Unanswered | null;
  /** Limit that cut the selection; null for none. */
  readonly cap: Cap | null;
  /** Maximum rejected / tried; null for no limit. */
  readonly maxRejectRatio: number | null;
}

/** Determines a job's end. A failure outranks every limit, and a signal only if the failure came first. */
export function endOfJob(work: WorkDone): JobEnd {
  const { thrown, counts, cap } = work;
  if (thrown) {
    const end = endOfError(thrown.error, "sending records and loading responses");
    return end.status === "limited" ? (unansweredEnd(work, end) ?? end) : end;
  }
  if (work.isStopped && work.open > 0) return interrupted;
  const failure = unansweredEnd(work, null) ?? tooManyRejects(work);
  if (failure) return failure;
  return cap === null || counts.remaining === 0 ? succeeded : capped(cap.limitedBy);
}

function unansweredEnd({ job, unanswered }: WorkDone, limit: JobEnd | null): JobEnd | null {
  if (!unanswered) return null;
  const { records, because } = unanswered;
  const also = limit?.error ? ` Also: ${limit.error.message}` : "";
  return ended(
    "failed",
    "unanswered",
    `${job}: ${countText(records, "record")} had no response and ${records === 1 ? "stays" : "stay"} due for the next run. ` +
      `Last cause: ${because}${also}`,
  );
}

function tooManyRejects({ job, counters, maxRejectRatio }: WorkDone): JobEnd | null {
  const tried = triedRecords(counters);
  if (maxRejectRatio === null || counters.records_rejected <= maxRejectRatio * tried) return null;
  return ended(
    "failed",
    "too_many_rejects",
    `${job}: ${count(counters.records_rejected)} of ${countText(tried, "record")} were rejected, more than max_reject_ratio ` +
      `(${maxRejectRatio}) allows. The others were loaded; the table \`reject\` has the reasons.`,
  );
}

/** Rows that are erased in one transaction. */
const CHUNK = 10_000;

/**
 * Erases the people of rows that left the input (`on_missing: erase`), once three different runs missed a row over at least a day.
 * Needs a complete run.
 */
async function eraseMissing({ config, db, log, progress, job, run, spec }: Task): Promise<void> {
  const { name, maxMissingRatio } = job.input;
  const { inputRows, known, missing } = await countMissing(db, spec);
  if (missing === 0) return;
  log.info({ job: job.name, input: name, missing, known }, "rows_missing");
  if (inputRows === 0 || missing > maxMissingRatio * known) {
    throw new LimitReachedError(
      "missing_rows",
      `${job.name}: ${missing} of ${known} known rows left ${name}, more than inputs.${name}.max_missing_ratio ` +
        `(${maxMissingRatio}) allows. No one was erased. If the input is complete, raise the ratio for one run; ` +
        "an empty input never erases anyone.",
    );
  }
  let erased = 0;
  const inputs = await allInputs(config);
  for (;;) {
    const keys = await readGoneRows(db, run, name, CHUNK);
    if (keys.length === 0) break;
    const rows = keys.map((sourceKey) => ({ source: name, sourceKey }));
    // People named by other rows are kept.
    const found = await findPeople(db, { pids: [], emails: [], rows }, inputs, { spareOthers: true });
    const request = await db.transaction(run, async (session) => {
      const locked = await lockGoneRows(session, run, rows);
      return locked === rows.length ? requestInRun(session, db, found) : null;
    });
    // Some rows are back; the next run checks again.
    if (request === null) break;
    const { erasureId } = request;
    await removeErased(db, erasureId);
    erased += rows.length;
    log.info({ job: job.name, erasure_id: erasureId, input_rows: rows.length }, "missing_rows_erased");
  }
  if (erased === 0) return;
  progress.note(job.name, `${job.name}: erased ${countText(erased, "row")} that left ${name}.`);
}
