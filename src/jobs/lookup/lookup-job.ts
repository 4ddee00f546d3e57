import { selectLookup } from "../../load/due/lookup-selection.ts";
import { readBudgetUse, readRunUse } from "../../load/ledger/budget-rows.ts";
import { recordAttempts } from "../../load/ledger/record-attempts.ts";
import { recordDue } from "../../load/runs/runs.ts";
import type { Db } from "../../load/db/db.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import type { LookupCounts, LookupSelection, LookupSpec, RunRef } from "../../load/lookup.ts";
import { type AnswerKeeper, createAnswerKeeper } from "./answer-keeper.ts";
import type { Spool } from "../../spool/spool.ts";
import { agree } from "../agree.ts";
import { type Cap, type JobLimits, limitsOf, tightestCap, type Used, usedOf } from "./caps.ts";
import { decideSending, lastSendingRun } from "./decide.ts";
import { forecastOf, forecastText } from "./forecast.ts";
import type { JobContext, Worked } from "../job.ts";
import { endOfError, type JobEnd } from "../job-end.ts";
import { openJobSpool } from "./job-spool.ts";
import { judgeEnd } from "./judge-end.ts";
import { keptText } from "./kept-text.ts";
import { loadKept } from "./load-kept.ts";
import { lookupSpecOf } from "./lookup-spec.ts";
import { bindLookup } from "./lookup-types.ts";
import type { Counters } from "../run-report.ts";
import { sendDue } from "./send-due.ts";
import { settleMissing } from "./settle-missing.ts";
import { createTally, type Tally } from "./tally.ts";

/** A lookup's run with its spec. */
type Task = JobContext<LookupJobConfig> & { readonly spec: LookupSpec };

/** Does a lookup's work, from the selection to the missing rows. */
export async function runLookup(context: JobContext<LookupJobConfig>): Promise<Worked> {
  const task = { ...context, spec: await lookupSpecOf(context.job, context.request) };
  const worked = await sendSelected(task);
  const end = await settleMissing(task, { ...task, end: worked.end, counters: context.totals.counters() });
  return { ...worked, end };
}

/** Selects and sends; whatever is thrown on the way becomes the end. */
async function sendSelected(task: Task): Promise<Worked> {
  const { job, request, run, outage, totals } = task;
  const limits = limitsOf(task.config, job, request.maxRecords, request.shard);
  let cap: Cap | null;
  let spool: Spool | null = null;
  let selection: LookupSelection;
  try {
    spool = await openJobSpool(task.config, task.db, run);
    await loadKept(task, { ...task, spool });
    cap = tightestCap(limits, await readUsed(task));
    selection = await selectLookup(task.db, { ...task.spec, maxRecords: cap?.records ?? null }, run);
  } catch (error) {
    return { end: reportKept(task, endOfError(error), spool && textOf(job, spool)) };
  }
  const keeper = keeperOf(task, spool, selection.workTable);
  const { parametersChanged } = selection.counts;
  const counts = parametersChanged > 0 ? untouched(selection.counts) : selection.counts;
  const tally = createTally(counts);
  tally.add({ rows_written: selection.rowsWritten });
  let thrown: { readonly error: unknown } | null = null;
  try {
    await send(task, { selection, tally, keeper, limits, cap });
  } catch (error) {
    thrown = { error };
  }
  try {
    await outage.outlast(() => selection.close());
  } catch (error) {
    thrown ??= { error };
  }
  const counters = tally.counters();
  totals.addRecorded(counters);
  const judged = judgeEnd({
    job: job.name,
    thrown,
    isStopped: task.signal.aborted,
    counts,
    counters,
    open: tally.open,
    unanswered: tally.unanswered,
    cap,
    maxRejectRatio: job.maxRejectRatio,
  });
  return {
    end: reportKept(task, judged, keeper.tellKept()),
    coverage: parametersChanged > 0 ? null : tally.coverage(task.spec.input.name),
    checkpoint: selection.checkpoint,
  };
}

/** Counts while the run waits for confirmation: everything due is reported as remaining. */
function untouched(counts: LookupCounts): LookupCounts {
  const remaining = counts.read - counts.unchanged - counts.waiting - counts.suppressed - counts.toSend;
  return { ...counts, rejectedBeforeSending: 0, reused: 0, remaining };
}

function keeperOf(task: Task, spool: Spool, workTable: string): AnswerKeeper {
  const { job, run, spec, outage } = task;
  return createAnswerKeeper({
    spool,
    asked: { run, spec, workTable, bound: bindLookup(job) },
    outage,
  });
}

function textOf({ name }: LookupJobConfig, { folder, calls }: Spool): string | null {
  return calls === 0 ? null : keptText(name, folder, { calls, records: null });
}

/** Adds to an end what the user has to know about answers that are still on disk. */
function reportKept({ log, progress, job }: Task, end: JobEnd, kept: string | null): JobEnd {
  if (kept === null) return end;
  log.info({ job: job.name, kept }, "answers_kept");
  if (!end.error) progress.note(job.name, kept);
  return end.error ? { ...end, error: { ...end.error, message: `${end.error.message} ${kept}` } } : end;
}

/** The selection, and what may be sent of it. */
interface Selected {
  readonly selection: LookupSelection;
  readonly tally: Tally;
  readonly keeper: AnswerKeeper;
  readonly limits: JobLimits;
  readonly cap: Cap | null;
}

/** Use of this run, earlier attempts at it included, and of the budget of its type. */
async function readUsed({ db, job, run }: Task): Promise<Used> {
  return usedOf(await readBudgetUse(db), job.type, await readRunUse(db, run));
}

async function send(task: Task, selected: Selected): Promise<void> {
  const { config, db, progress, signal, job, request, run, spec, pastRuns, outage } = task;
  const { selection, tally, cap } = selected;
  const { counts } = selection;
  await recordDue(db, run, counts.due);
  await recordFound(db, run, tally.counters());
  const forecast = forecastOf(config, job, counts, { cap });
  task.log.info(
    { job: job.name, records_due: counts.due, records_to_send: counts.toSend, calls: forecast.calls },
    "planned",
  );
  progress.note(job.name, forecastText(job, counts, forecast, cap));
  const decision = decideSending({
    counts,
    billable: forecast.billable,
    lastRun: lastSendingRun(pastRuns, request.shard),
    confirmAbove: config.confirmAbove,
    resend: request.resend,
    acceptParameters: request.acceptParameters,
  });
  await agree(task, job.name, request, decision);
  if (counts.toSend === 0 || signal.aborted) return;
  const bound = bindLookup(job);
  progress.start(job.name, counts.toSend, bound.endpoint.name);
  try {
    await sendDue(task, { run, spec, bound, outage, ...selected });
  } finally {
    progress.end(job.name);
  }
}

/** Records what the selection found and did, for a run that is killed. */
async function recordFound(db: Db, run: RunRef, counters: Counters): Promise<void> {
  // The rest is not known yet.
  const { records_remaining: _remaining, ...found } = counters;
  await recordAttempts(db, run, [], found);
}
