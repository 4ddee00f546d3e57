import { selectLookup, type LookupSelection } from "../../load/due/lookup-selection.ts";
import { readBudgetUse, readRunUse } from "../../load/ledger/budget-rows.ts";
import { noOutcomes, type Outcomes } from "../../load/due/outcomes.ts";
import { readCommitted, recordFound } from "../../load/runs/runs.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import { agree } from "../agree.ts";
import { loadLeftovers } from "./answers.ts";
import { type Cap, type JobLimits, limitsOf, tightestCap, type Used, usedOf } from "./caps.ts";
import { readDecision } from "./read-decision.ts";
import { countText } from "../../figures.ts";
import { forecastOf, forecastText } from "./forecast.ts";
import type { JobContext, Worked } from "../job.ts";
import { endOfError, type JobEnd } from "../job-end.ts";
import { type JobSpool, openJobSpool } from "./job-spool.ts";
import { judgeEnd } from "./judge-end.ts";
import { lookupSpecOf } from "./lookup-spec.ts";
import { bindLookup } from "./lookup-types.ts";
import { unaccountedRows } from "../run-report.ts";
import { coverageOf, foundCounters, recordCounters } from "./run-counters.ts";
import { createTally, sendDue, type Tally } from "./send.ts";
import { settleMissing } from "./settle-missing.ts";
import type { LookupCounts } from "../../load/due/lookup-counts.ts";
import type { LookupSpec } from "../../load/due/lookup-spec.ts";
import type { Spool } from "../../spool/spool.ts";

/** Run of a lookup with its spec. */
type Task = JobContext<LookupJobConfig> & { readonly spec: LookupSpec };

/** Runs a lookup, from the selection to the check for missing rows. */
export async function runLookup(context: JobContext<LookupJobConfig>): Promise<Worked> {
  const task = { ...context, spec: await lookupSpecOf(context.job, context.request) };
  const worked = await sendSelected(task);
  const end = await settleMissing(task, { ...task, end: worked.end, counters: context.totals.counters() });
  return { ...worked, end };
}

/** Selects and sends; maps a thrown error to the job's end. */
async function sendSelected(task: Task): Promise<Worked> {
  const { job, request, run, outage, totals } = task;
  const limits = limitsOf(task.config, job, request.maxRecords, request.shard);
  let cap: Cap | null;
  let jobSpool: JobSpool | null = null;
  let selection: LookupSelection;
  let doing = "opening the spool";
  try {
    jobSpool = await openJobSpool(task.config, task.db, run);
    doing = "loading answers of earlier runs";
    await loadLeftovers(task, { run, outage, spool: jobSpool.spool });
    doing = "selecting what is due";
    cap = tightestCap(limits, await readUsed(task));
    selection = await selectLookup(task.db, { ...task.spec, maxRecords: cap?.records ?? null }, run);
  } catch (error) {
    return { end: mentionSpooled(task, endOfError(error, doing), jobSpool) };
  }
  const { parametersChanged } = selection.counts;
  const counts = parametersChanged > 0 ? untouched(selection.counts) : selection.counts;
  const tally = createTally();
  let thrown: { readonly error: unknown } | null = null;
  try {
    await send(task, { selection, tally, ...jobSpool, limits, cap });
  } catch (error) {
    thrown = { error };
  }
  const isFrozen = parametersChanged === 0;
  let outcomes: Outcomes = {
    ...noOutcomes,
    open: counts.toSend,
    remaining: isFrozen ? counts.toSend + counts.duplicate - counts.reused : counts.toSend,
  };
  try {
    if (isFrozen) outcomes = await outage.outlast(() => selection.count());
    totals.addRecorded(await outage.outlast(() => readCommitted(task.db, task.run)));
    await outage.outlast(() => selection.close());
  } catch (error) {
    thrown ??= { error };
  }
  const counters = recordCounters(counts, outcomes);
  totals.addRecorded(counters);
  const { unanswered } = tally;
  const lost = thrown || task.signal.aborted || unanswered ? 0 : outcomes.open;
  if (unaccountedRows(counters) !== 0 || lost > 0) {
    task.log.error({ job: job.name, lost, ...counters }, "counters_do_not_add_up");
  }
  const judged = judgeEnd({
    job: job.name,
    thrown,
    isStopped: task.signal.aborted,
    counts,
    counters,
    open: outcomes.open,
    unanswered,
    cap,
    maxRejectRatio: job.maxRejectRatio,
  });
  return {
    end: mentionSpooled(task, judged, jobSpool),
    coverage: isFrozen ? coverageOf(counts, outcomes, task.spec.input.name) : null,
    checkpoint: selection.checkpoint,
  };
}

/** Counts while the run waits for confirmation: everything due is reported as remaining. */
function untouched(counts: LookupCounts): LookupCounts {
  const remaining = counts.read - counts.unchanged - counts.waiting - counts.suppressed - counts.toSend;
  return { ...counts, rejectedBeforeSending: 0, reused: 0, remaining };
}

/** Adds the location of received answers that are not loaded yet. */
function mentionSpooled({ log, progress, job }: Task, end: JobEnd, jobSpool: JobSpool | null): JobEnd {
  const text = jobSpool && spooledText(job.name, jobSpool.spool);
  if (jobSpool === null || text === null) return end;
  log.info({ job: job.name, calls: jobSpool.spool.calls }, "answers_spooled");
  if (!end.error) progress.note(job.name, text);
  return end.error ? { ...end, error: { ...end.error, message: `${end.error.message} ${text}` } } : end;
}

/** Selection with its limits. */
interface Selected extends JobSpool {
  readonly selection: LookupSelection;
  readonly tally: Tally;
  readonly limits: JobLimits;
  readonly cap: Cap | null;
}

/** Records used by this run, including earlier attempts, and in the budgets of its type. */
async function readUsed({ db, job, run }: Task): Promise<Used> {
  return usedOf(await readBudgetUse(db), job.type, await readRunUse(db, run));
}

async function send(task: Task, selected: Selected): Promise<void> {
  const { config, db, progress, signal, job, request, run, spec, pastRuns, outage } = task;
  const { selection, cap } = selected;
  const { counts } = selection;
  await recordFound(db, run, {
    ...foundCounters(counts),
    records_due: counts.due,
    rows_written: selection.rowsWritten,
  });
  const forecast = forecastOf(config, job, counts, { cap });
  task.log.info(
    { job: job.name, records_due: counts.due, records_to_send: counts.toSend, calls: forecast.calls },
    "planned",
  );
  progress.note(job.name, forecastText(job, counts, forecast, cap));
  reportCursor(task, selection.cursorAhead);
  const { billable } = forecast;
  const decision = await readDecision(task, job, { ...request, counts, billable, pastRuns });
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

/** Reports rows that the checkpoint ignores. */
function reportCursor({ log, progress, job }: Task, rows: number): void {
  if (rows === 0) return;
  log.info({ job: job.name, input: job.input.name, rows }, "cursor_ahead");
  progress.note(
    job.name,
    `${job.name}: ${countText(rows, "row has", "rows have")} a cursor in the future, and every run compares ${rows === 1 ? "it" : "them"}.`,
  );
}

/** Message about answers left in a spool; null if there are none. */
function spooledText(job: string, { folder, calls }: Pick<Spool, "folder" | "calls">): string | null {
  if (calls === 0) return null;
  const [are, them] = calls === 1 ? ["is", "it"] : ["are", "them"];
  return (
    `${countText(calls, "received answer")} ${are} saved in ${folder}; the next run of ${job} loads ${them} without sending ` +
    "these records again."
  );
}
