import { selectLookup } from "../../load/due/lookup-selection.ts";
import { readBudgetUse, readRunUse } from "../../load/ledger/budget-rows.ts";
import { recordAttempts } from "../../load/ledger/record-attempts.ts";
import { beginRun, endRun, lastRuns, recordDue } from "../../load/runs/runs.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import { LockLostError } from "../../errors.ts";
import type {
  Coverage,
  LookupCounts,
  LookupSelection,
  LookupSpec,
  PastRun,
  RunRef,
} from "../../load/lookup.ts";
import { type AnswerKeeper, createAnswerKeeper } from "./answer-keeper.ts";
import type { Spool } from "../../spool/spool.ts";
import { agree } from "../agree.ts";
import { type Cap, type JobLimits, limitsOf, tightestCap, type Used, usedOf } from "./caps.ts";
import { decideSending } from "./decide.ts";
import { forecastOf, forecastText } from "./forecast.ts";
import { holdJob } from "../hold-job.ts";
import type { JobResult } from "../job-type.ts";
import { endOfError, type JobEnd, locked } from "../job-end.ts";
import { openJobSpool } from "./job-spool.ts";
import { judgeEnd } from "./judge-end.ts";
import { keptText } from "./kept-text.ts";
import { loadKept } from "./load-kept.ts";
import { lookupSpecOf } from "./lookup-spec.ts";
import { bindLookup } from "./lookup-types.ts";
import { createOutage, type Outage } from "../outage.ts";
import { type Counters, zeroCounters } from "../run-report.ts";
import { sendDue } from "./send-due.ts";
import type { JobServices, RunRequest } from "../services.ts";
import { settleMissing } from "./settle-missing.ts";
import { shardText } from "../shard.ts";
import { createTally, type Tally } from "./tally.ts";

/** Runs read back for `confirm_above`: enough for some nights of many shards. */
const PAST_RUNS = 500;

interface WorkResult extends JobResult {
  readonly coverage: Coverage | null;
  /** Checkpoint to store if nothing is left. */
  readonly checkpoint: LookupSelection["checkpoint"];
}

interface Task {
  readonly job: LookupJobConfig;
  readonly request: RunRequest;
  readonly run: RunRef;
  readonly spec: LookupSpec;
  readonly pastRuns: readonly PastRun[];
  readonly outage: Outage;
}

/** Runs one job once and keeps the books, unless another process runs it. Throws only when it could not begin. */
export async function runLookupJob(
  services: JobServices,
  job: LookupJobConfig,
  request: RunRequest,
): Promise<JobResult> {
  const { runId, shard } = request;
  const wanted = { runId, job: job.name, jobType: job.type, shard: shardText(shard) };
  const hold = await holdJob(services, wanted, request);
  if (hold.kind === "refused") return { end: locked("locked", hold.message), counters: zeroCounters };
  const { run, signal, release } = hold.held;
  try {
    return await runHeld({ ...services, signal }, job, request, run);
  } finally {
    await release();
  }
}

async function runHeld(
  services: JobServices,
  job: LookupJobConfig,
  request: RunRequest,
  run: RunRef,
): Promise<JobResult> {
  const { db } = services;
  const spec = await lookupSpecOf(job, request);
  // Before this run is noted: one that goes on under the same id has to see its predecessor.
  const pastRuns = await lastRuns(db, job.name, PAST_RUNS);
  await beginRun(db, run);
  const outage = outageOf(services, job);
  const done = await work(services, { job, request, run, spec, pastRuns, outage });
  const { counters, coverage, checkpoint } = done;
  const end = await settleMissing(services, { job, run, spec, end: done.end, counters });
  const { status, limitedBy, error } = end;
  // The books are with the process that has taken the job over.
  if (status === "locked") return { end, counters };
  try {
    const runEnd = { status, limitedBy, error: error?.message ?? null, counters };
    await outage.outlast(() => endRun(db, run, runEnd, coverage, checkpoint));
  } catch (failure) {
    if (failure instanceof LockLostError) return { end: endOfError(failure), counters };
    // A warehouse that can't even note the end is of no use to the jobs that follow.
    return { end: { ...(status === "failed" ? end : endOfError(failure)), stopsRun: true }, counters };
  }
  return { end, counters };
}

/** From the selection to its end; whatever is thrown on the way becomes the end. */
async function work(services: JobServices, task: Task): Promise<WorkResult> {
  const { job, request, run, outage } = task;
  const limits = limitsOf(services.config, job, request.maxRecords, request.shard);
  let cap: Cap | null;
  let spool: Spool | null = null;
  let selection: LookupSelection;
  try {
    spool = await openJobSpool(services.config, services.db, run);
    await loadKept(services, { ...task, spool });
    cap = tightestCap(limits, await readUsed(services, task));
    selection = await selectLookup(services.db, { ...task.spec, maxRecords: cap?.records ?? null }, run);
  } catch (error) {
    const end = tellKept(services, job, endOfError(error), spool && textOf(job, spool));
    return { end, counters: zeroCounters, coverage: null, checkpoint: null };
  }
  const keeper = keeperOf(task, spool);
  const { parametersChanged } = selection.counts;
  const counts = parametersChanged > 0 ? untouched(selection.counts) : selection.counts;
  const tally = createTally(counts);
  tally.add({ rows_written: selection.rowsWritten });
  let thrown: { readonly error: unknown } | null = null;
  try {
    await send(services, task, { selection, tally, keeper, limits, cap });
  } catch (error) {
    thrown = { error };
  }
  try {
    await outage.outlast(() => selection.close());
  } catch (error) {
    thrown ??= { error };
  }
  // What the loss of the lock made fail on the way is no failure of its own.
  if (services.signal.reason instanceof LockLostError) thrown = { error: services.signal.reason };
  const counters = tally.counters();
  const judged = judgeEnd({
    job: job.name,
    thrown,
    isStopped: services.signal.aborted,
    counts,
    counters,
    open: tally.open,
    unanswered: tally.unanswered,
    cap,
    maxRejectRatio: job.maxRejectRatio,
  });
  const end = tellKept(services, job, judged, keeper.tellKept());
  return {
    end,
    counters,
    coverage: parametersChanged > 0 ? null : tally.coverage(task.spec.input.name),
    checkpoint: selection.checkpoint,
  };
}

/** The counts of a selection that did nothing of what it found, for want of the user's word. */
function untouched(counts: LookupCounts): LookupCounts {
  const remaining = counts.read - counts.unchanged - counts.waiting - counts.suppressed - counts.toSend;
  return { ...counts, rejectedBeforeSending: 0, reused: 0, remaining };
}

function outageOf({ config, clock, log, signal }: JobServices, job: LookupJobConfig): Outage {
  return createOutage({ clock, log, signal, retryForMs: config.warehouse.retryForMs, job: job.name });
}

function keeperOf(task: Task, spool: Spool): AnswerKeeper {
  const { job, run, spec, outage } = task;
  return createAnswerKeeper({
    spool,
    asked: { run, spec, bound: bindLookup(job) },
    outage,
  });
}

function textOf({ name }: LookupJobConfig, { folder, calls }: Spool): string | null {
  return calls === 0 ? null : keptText(name, folder, { calls, records: null });
}

/** Adds to an end what the user has to know about answers that are on disk still. */
function tellKept(
  { log, progress }: JobServices,
  job: LookupJobConfig,
  end: JobEnd,
  kept: string | null,
): JobEnd {
  if (kept === null) return end;
  log.info({ job: job.name, kept }, "answers_kept");
  if (!end.error) progress.note(job.name, kept);
  return end.error ? { ...end, error: { ...end.error, message: `${end.error.message} ${kept}` } } : end;
}

/** What was selected, and what may be sent of it. */
interface Selected {
  readonly selection: LookupSelection;
  readonly tally: Tally;
  readonly keeper: AnswerKeeper;
  readonly limits: JobLimits;
  readonly cap: Cap | null;
}

/** What this run and the budget of its type have used, in this run's earlier lives as well. */
async function readUsed({ db }: JobServices, { job, run }: Task): Promise<Used> {
  return usedOf(await readBudgetUse(db), job.type, await readRunUse(db, run));
}

async function send(services: JobServices, task: Task, of: Selected): Promise<void> {
  const { config, db, progress, signal } = services;
  const { job, request, run, spec, pastRuns, outage } = task;
  const { selection, tally, cap } = of;
  const { counts } = selection;
  await recordDue(db, run, counts.due);
  await noteFound(services, run, tally.counters());
  const forecast = forecastOf(config, job, counts, { cap });
  services.log.info(
    { job: job.name, records_due: counts.due, records_to_send: counts.toSend, calls: forecast.calls },
    "planned",
  );
  progress.note(job.name, forecastText(job, counts, forecast, cap));
  const decision = decideSending({
    counts,
    billable: forecast.billable,
    pastRuns,
    hasOlderRuns: pastRuns.length === PAST_RUNS,
    confirmAbove: config.confirmAbove,
    shard: request.shard,
    resend: request.resend,
    acceptParameters: request.acceptParameters,
  });
  await agree(services, job.name, request, decision);
  if (counts.toSend === 0 || signal.aborted) return;
  const bound = bindLookup(job);
  progress.start(job.name, counts.toSend, bound.endpoint.name);
  try {
    await sendDue(services, { run, spec, bound, outage, ...of });
  } finally {
    progress.end(job.name);
  }
}

/** Notes what the selection found and did, so that the books of a run that is killed tell it. */
async function noteFound(services: JobServices, run: RunRef, counters: Counters): Promise<void> {
  // What becomes of the rest is not known yet.
  const { records_remaining: _remaining, ...found } = counters;
  await recordAttempts(services.db, run, [], found);
}
