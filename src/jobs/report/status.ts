import { DAY_MS, dayText } from "../usage/calendar.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { readSegments } from "../../load/feeds/members.ts";
import { readPushedMembers } from "../../load/feeds/push.ts";
import { readGaps, readQuotas } from "../../load/feeds/usage.ts";
import { type PublicationStatus, readPublicationStatus } from "../../load/publication/publication-status.ts";
import { readCopiedDestinations } from "../../load/publication/registration.ts";
import { readBudgetUse } from "../../load/ledger/budget-rows.ts";
import type { Db } from "../../load/db/db.ts";
import { type BilledDay, type LedgerDay, readBilledSince, readLedgerDays } from "../../load/ledger/costs.ts";
import { type Cost, costOfBilled } from "../price.ts";
import type { JobConfig } from "../../config/config.ts";
import { nextSlot } from "../../schedule/slots.ts";
import { type AttentionReport, attentionOf, note } from "./attention.ts";
import { type BudgetOutlook, budgetOutlooks } from "./budget-outlook.ts";
import { budgetReports } from "./budget-report.ts";
import { type CheckpointReport, readCheckpointReport } from "./checkpoints.ts";
import { type Freshness, freshnessOf, schedulesByJob } from "./freshness.ts";
import type { Counters } from "../run-report.ts";
import { reportWaiting } from "../lookup/waiting-answers.ts";
import { copiedText } from "../publish/publication.ts";
import { unusualRejects } from "../lookup/decide.ts";
import { type SegmentReport, segmentReports } from "./segment-report.ts";
import type { JobServices } from "../services.ts";
import type { LockHolder } from "../../load/runs/job-lock.ts";
import {
  type JobStatus,
  type PastRun,
  type TableFreshness,
  jobStatus,
  tableFreshness,
} from "../../load/runs/job-status.ts";

/** Past run, in `status --json`. */
export interface PastRunReport extends Counters {
  readonly run_id: string;
  readonly shard: string;
  readonly status: string;
  readonly limited_by: string | null;
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly records_due: number;
  readonly error: string | null;
}

/** Process that runs a job, in `status --json`. */
interface HolderReport {
  readonly shard: string;
  readonly run_id: string;
  readonly host: string;
  readonly pid: number;
  readonly since: string;
  readonly last_heartbeat_at: string;
  readonly expires_at: string;
  /** True after too long without a heartbeat: the next run takes over the job. */
  readonly is_expired: boolean;
}

/** Destination, in `status --json`. */
interface PublicationReport extends PublicationStatus {
  /** False if it was removed from the configuration but not dropped: its changes are still recorded. */
  readonly is_configured: boolean;
}

/** One job, in `status --json`. */
export interface JobStatusReport {
  readonly job: string;
  readonly type: string;
  readonly enabled: boolean;
  /** Five cron fields; null for a job that runs with other jobs or manually. */
  readonly schedule: string | null;
  readonly timezone: string;
  /** Next slot in its own schedule, or in that of the job it runs with. */
  readonly next_slot_at: string | null;
  /**
   * `fresh`: succeeded since it was last due (without a schedule: in the last run), also at the user's own cap or budget;
   * `running`; `stale`; `never` succeeded; `off`: disabled.
   */
  readonly freshness: Freshness;
  /** Null before the first run. */
  readonly last_run: PastRunReport | null;
  /** Newest run of each shard, for the shard count of `last_run`; only `last_run` without shards. */
  readonly last_pass: readonly PastRunReport[];
  /** A run that ended at the user's own cap or budget is a success. */
  readonly last_success_at: string | null;
  /** Null before the first completed run. */
  readonly coverage: {
    readonly source: string;
    readonly input_rows: number;
    readonly answered: number;
    readonly matched: number;
    readonly unmatched: number;
    readonly rejected: number;
    readonly due: number;
    readonly oldest_answer_at: string | null;
    /** Number of shards included in the sums. */
    readonly shards: number;
    /** Less than `shards` only before the first complete pass of all shards. */
    readonly shards_counted: number;
  } | null;
  /** Open rejects by code. */
  readonly open_rejects: Readonly<Record<string, number>>;
  /** Checkpoints by stream; empty before the first commit. */
  readonly checkpoints: CheckpointReport["checkpoints"];
  /** Known segments of the job; empty for jobs without segments. */
  readonly segments: readonly SegmentReport[];
  /** Received answers in this data_dir that the next run loads. */
  readonly waiting_answers: { readonly calls: number; readonly bytes: number };
  /** Processes that run the job; more than one only for shards. */
  readonly held_by: readonly HolderReport[];
}

/** Remaining quota at the service. */
export interface QuotaReport {
  readonly org_id: string;
  readonly observed_at: string;
  readonly limit: number | null;
  readonly left: number | null;
}

/** Period of a feed that can no longer be read. */
interface GapReport {
  readonly job: string;
  readonly stream: string;
  /** Inclusive. */
  readonly gap_start: string;
  /** Exclusive. */
  readonly gap_end: string;
  readonly noticed_at: string;
}

/** One table, in `status --json`. */
interface TableFreshnessReport {
  readonly table_name: string;
  readonly last_success_at: string | null;
  readonly last_changed_at: string | null;
  readonly safe_until: string | null;
}

/** Records sent by a job on one day (UTC), in `status --json`. */
interface LedgerDayReport {
  readonly day: string;
  readonly job: string;
  /** Attempts. */
  readonly calls: number;
  /** Records in calls that were answered or may have been billed. */
  readonly records_sent: number;
  readonly records_matched: number;
  /** Rows rejected, before or after sending. */
  readonly records_rejected: number;
  readonly possibly_billed: number;
  readonly possibly_billed_twice: number;
  /** With `prices`, if the job can be billed. */
  readonly cost?: Cost;
}

/** Output of `status --json`. */
export interface StatusReport {
  /** Address and schemas of the warehouse. */
  readonly warehouse: string;
  /** Service host that the warehouse's data comes from; null before the first run. */
  readonly service_host: string | null;
  readonly jobs: readonly JobStatusReport[];
  /** Problems; empty if there are none. */
  readonly attention: readonly AttentionReport[];
  /** Quotas of the service, if a job has read them. */
  readonly quotas: readonly QuotaReport[];
  /** Unavailable periods of feeds, newest first. */
  readonly gaps: readonly GapReport[];
  /** Empty without a budget. */
  readonly budgets: readonly BudgetOutlook[];
  /** With `prices`: cost of the current UTC month (`2026-11`). */
  readonly spent?: Cost & { readonly month: string };
  /** Recent days with records sent or rejected, newest first. */
  readonly days: readonly LedgerDayReport[];
  readonly tables: readonly TableFreshnessReport[];
  /** Destinations, including those no longer configured. */
  readonly publications: readonly PublicationReport[];
  /** Received answers in this data_dir that are damaged, or that no run of this configuration loads. */
  readonly answers_left_behind: readonly {
    readonly folder: string;
    readonly message: string;
    readonly hint: string;
  }[];
}

/** Default of `alerts.budget_ratio`: a budget used to this ratio needs attention. */
const BUDGET_RATIO = 0.9;
/** Days of the ledger to show. */
const DAYS = 7;

/** Reads the status of all configured jobs; changes nothing. */
export async function readStatus(
  { config, db, clock }: Pick<JobServices, "config" | "db" | "clock">,
  options: {
    /** False: `members_own` and `members_in_doubt` are null, so that the time doesn't grow with the members. */
    readonly countsMembers?: boolean;
  } = {},
): Promise<StatusReport> {
  const waiting = await reportWaiting(config, db);
  const schedules = schedulesByJob(config);
  const nowMs = clock.now();
  const configured = config.publish.map(({ name }) => name);
  const [segments, pushed, ...checkpoints] = await Promise.all([
    readSegments(db),
    options.countsMembers === false ? null : readPushedMembers(db),
    ...config.jobs.map((job) => readCheckpointReport(db, job)),
  ]);
  const jobs: JobStatusReport[] = [];
  const rejects = new Map<string, string>();
  for (const [i, job] of config.jobs.entries()) {
    const status = await jobStatus(db, job.name);
    const unusual = status.lastRun && unusualRejects(job, status.lastRun.counters);
    if (unusual !== null) rejects.set(job.name, unusual);
    jobs.push({
      ...statusReport(job, status, {
        schedule: (job.enabled ? schedules.get(job.name) : null) ?? null,
        staleAfterMs: config.alerts?.staleAfterMs ?? null,
        nowMs,
      }),
      checkpoints: checkpoints[i]?.checkpoints ?? [],
      segments: segmentReports(config, job, { segments, pushed, checkpoints }),
      waiting_answers: waiting.byJob.get(job.name) ?? { calls: 0, bytes: 0 },
    });
  }
  const days = await readLedgerDays(db, DAYS);
  const billed = config.prices && (await readSpent(db, config.prices.currency, nowMs));
  const budgets = budgetOutlooks(config, budgetReports(config, await readBudgetUse(db)), days, nowMs);
  return {
    warehouse: db.description,
    service_host: (await readIdentity(db))?.serviceHost ?? null,
    jobs,
    attention: [
      ...attentionOf(jobs, rejects, budgets, config.alerts?.budgetRatio ?? BUDGET_RATIO),
      ...(await readCopiedDestinations(db)).map((name) =>
        note(`destination ${name}`, "publication_refused", copiedText(name)),
      ),
    ],
    quotas: (await readQuotas(db)).map(({ orgId, observedAt, limit, left }) => ({
      org_id: orgId,
      observed_at: observedAt,
      limit,
      left,
    })),
    gaps: (await readGaps(db)).map((gap) => ({
      job: gap.job,
      stream: gap.stream,
      gap_start: gap.gapStart,
      gap_end: gap.gapEnd,
      noticed_at: gap.noticedAt,
    })),
    budgets,
    ...(billed ? { spent: billed.spent } : {}),
    days: days.map((day) => dayReport(day, billed?.rows ?? [], config.prices?.currency ?? null)),
    tables: (await tableFreshness(db)).map(freshnessReport),
    publications: (await readPublicationStatus(db)).map((row) => publicationReport(row, configured)),
    answers_left_behind: waiting.remarks.map(({ path, message, hint = "" }) => ({
      folder: path,
      message,
      hint,
    })),
  };
}

function statusReport(
  job: JobConfig,
  status: JobStatus,
  given: Parameters<typeof freshnessOf>[2],
): Omit<JobStatusReport, "checkpoints" | "segments" | "waiting_answers"> {
  const { lastRun, lastPass, coverage } = status;
  const { schedule, nowMs } = given;
  const next = schedule && nextSlot(schedule, nowMs);
  return {
    job: job.name,
    type: job.type,
    enabled: job.enabled,
    schedule: job.schedule,
    timezone: job.timezone,
    next_slot_at: next && new Date(next.atMs).toISOString(),
    freshness: freshnessOf(job, status, given),
    last_run: lastRun && pastRunReport(lastRun),
    last_pass: lastPass.map(pastRunReport),
    last_success_at: status.lastSuccessAt,
    coverage: coverage && {
      source: coverage.source,
      input_rows: coverage.inputRows,
      answered: coverage.answered,
      matched: coverage.matched,
      unmatched: coverage.unmatched,
      rejected: coverage.rejected,
      due: coverage.due,
      oldest_answer_at: coverage.oldestAnswerAt,
      shards: coverage.shards,
      shards_counted: coverage.shardsCounted,
    },
    open_rejects: status.openRejects,
    held_by: status.holders.map(holderReport),
  };
}

function holderReport(holder: LockHolder): HolderReport {
  return {
    shard: holder.shard,
    run_id: holder.runId,
    host: holder.host,
    pid: holder.pid,
    since: holder.acquiredAt,
    last_heartbeat_at: holder.heartbeatAt,
    expires_at: holder.expiresAt,
    is_expired: holder.isExpired,
  };
}

function pastRunReport(run: PastRun): PastRunReport {
  return {
    run_id: run.runId,
    shard: run.shard,
    status: run.status,
    limited_by: run.limitedBy,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    records_due: run.recordsDue,
    ...run.counters,
    error: run.error,
  };
}

const dayOf = (ms: number) => dayText(Math.floor(ms / DAY_MS));

/** Reads what was billed in the last days and in the current month. */
async function readSpent(db: Db, currency: string, nowMs: number) {
  const month = dayOf(nowMs).slice(0, 7);
  const [since = ""] = [`${month}-01`, dayOf(nowMs - DAYS * DAY_MS)].toSorted();
  const rows = await readBilledSince(db, since);
  const own = rows.filter(({ day }) => day.startsWith(month));
  return { rows, spent: { month, ...costOfBilled(own, currency) } };
}

function dayReport(day: LedgerDay, billed: readonly BilledDay[], currency: string | null): LedgerDayReport {
  const rows = billed.filter((row) => row.day === day.day && row.job === day.job);
  return {
    day: day.day,
    job: day.job,
    calls: day.calls,
    records_sent: day.recordsSent,
    records_matched: day.recordsMatched,
    records_rejected: day.recordsRejected,
    possibly_billed: day.possiblyBilled,
    possibly_billed_twice: day.possiblyBilledTwice,
    ...(currency === null || rows.length === 0 ? {} : { cost: costOfBilled(rows, currency) }),
  };
}

function freshnessReport(table: TableFreshness): TableFreshnessReport {
  return {
    table_name: table.tableName,
    last_success_at: table.lastSuccessAt,
    last_changed_at: table.lastChangedAt,
    safe_until: table.safeUntil,
  };
}

function publicationReport(status: PublicationStatus, configured: readonly string[]): PublicationReport {
  return { ...status, is_configured: configured.includes(status.destination) };
}
