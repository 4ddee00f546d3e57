import type { Config, JobConfig } from "../../config/config.ts";
import { StopJobError } from "../../errors.ts";
import { reportSpooled } from "../lookup/job-spool.ts";
import { type Cost, costOfBilled } from "../price.ts";
import { copiedText } from "../publish/publication.ts";
import {
  attentionOf,
  type AttentionReport,
  type BudgetOutlook,
  budgetOutlooks,
  budgetReports,
  type Freshness,
  freshnessOf,
  type JobState,
  note,
  schedulesByJob,
} from "./attention.ts";
import { type CheckpointReport, readCheckpointReport } from "./checkpoints.ts";
import { type PlanLeft, readPlanLeft } from "./costs.ts";
import { membersJobOf } from "../segments/segment-members.ts";
import { pushJobOf } from "../segments/push-settings.ts";
import { type SegmentConfig, segmentIdOf } from "../segments/segments.ts";
import { mayBeSame, serviceHostOf } from "../service-identity.ts";
import type { JobServices } from "../services.ts";
import { DAY_MS, dayText } from "../usage/calendar.ts";
import type { Db } from "../../load/db/db.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { readSegments, type StoredSegment } from "../../load/feeds/members.ts";
import { type PushedMembers, readPushedMembers } from "../../load/feeds/push.ts";
import { readGaps, readQuotas, type StoredGap, type StoredQuota } from "../../load/feeds/searches.ts";
import {
  type BilledDay,
  type LedgerDay,
  readBilledSince,
  readLedgerDays,
  readPossiblyBilled,
} from "../../load/ledger/costs.ts";
import { readBudgetUse } from "../../load/ledger/reserve.ts";
import {
  type PublicationStatus,
  readCopiedDestinations,
  readPublicationStatus,
} from "../../load/publication/registration.ts";
import type { LockHolder } from "../../load/runs/lock.ts";
import {
  type JobStatus,
  jobStatus,
  type PastRun,
  readFirstRuns,
  type TableFreshness,
  tableFreshness,
} from "../../load/runs/status.ts";
import { nextSlot } from "../../schedule/schedule.ts";

/** Past run, in `status --json`. */
export type PastRunReport = Omit<PastRun, "job">;

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
   * `fresh`: up to date: succeeded since it was last due (without a schedule: in the last run), and nothing is due; `limited`:
   * the same, but the user's own cap or budget left records due; `running`; `stale`; `never` succeeded; `off`: disabled.
   */
  readonly freshness: Freshness;
  /** Null before the first run. */
  readonly last_run: PastRunReport | null;
  /** Newest run of each shard, for the shard count of `last_run`; only `last_run` without shards. */
  readonly last_pass: readonly PastRunReport[];
  /** Records of the last run, once it has ended, that may have been billed without a response; by all shards. */
  readonly possibly_billed: number;
  /** A run that ended at the user's own cap or budget is a success. */
  readonly last_success_at: string | null;
  readonly coverage: JobStatus["coverage"];
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

/** Records sent by a job on one day (UTC), in `status --json`. */
interface LedgerDayReport extends LedgerDay {
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
  readonly quotas: readonly StoredQuota[];
  /** Rest of the included records, and of the plan as the service last stated it. */
  readonly plan_left: readonly PlanLeft[];
  /** Unavailable periods of feeds, newest first. */
  readonly gaps: readonly StoredGap[];
  /** Empty without a budget. */
  readonly budgets: readonly BudgetOutlook[];
  /** With `prices`: cost of the current UTC month (`2026-11`). */
  readonly spent?: Cost & { readonly month: string };
  /** Recent days with records sent or rejected, newest first. */
  readonly days: readonly LedgerDayReport[];
  readonly tables: readonly TableFreshness[];
  /** Destinations, including those no longer configured. */
  readonly publications: readonly PublicationReport[];
  /** Received answers in this data_dir that are damaged, or that no run of this configuration loads. */
  readonly answers_left_behind: readonly {
    readonly folder: string;
    readonly message: string;
    readonly hint: string;
  }[];
}

const DAYS = 7;

/** Reads the status of all configured jobs; changes nothing. */
export async function readStatus(
  { config, db, clock }: Pick<JobServices, "config" | "db" | "clock">,
  options: {
    /** False: `members_own` and `members_in_doubt` are null, so that the time doesn't grow with the members. */
    readonly countsMembers?: boolean;
  } = {},
): Promise<StatusReport> {
  const waiting = await reportSpooled(config, db);
  const schedules = schedulesByJob(config);
  const nowMs = clock.now();
  const [segments, pushed, ...checkpoints] = await Promise.all([
    readSegments(db),
    options.countsMembers === false ? null : readPushedMembers(db),
    ...config.jobs.map((job) => readCheckpointReport(db, job)),
  ]);
  const scheduleOf = ({ name, enabled }: JobConfig) => (enabled ? schedules.get(name) : null) ?? null;
  const staleAfterMs = config.alerts?.staleAfterMs ?? null;
  const states: JobState[] = [];
  for (const job of config.jobs) {
    const status = await jobStatus(db, job.name);
    const freshness = freshnessOf(job, status, { schedule: scheduleOf(job), staleAfterMs, nowMs });
    states.push({ job, status, freshness });
  }
  const ended = states.flatMap(({ status: { lastRun } }) =>
    lastRun && lastRun.status !== "running" ? [lastRun.run_id] : [],
  );
  const possiblyBilled = await readPossiblyBilled(db, ended);
  const jobs = states.map(({ job, status, freshness }, i): JobStatusReport => {
    const schedule = scheduleOf(job);
    const next = schedule && nextSlot(schedule, nowMs);
    return {
      job: job.name,
      type: job.type,
      enabled: job.enabled,
      schedule: job.schedule,
      timezone: job.timezone,
      next_slot_at: next && new Date(next.atMs).toISOString(),
      freshness,
      last_run: status.lastRun && pastRunReport(status.lastRun),
      last_pass: status.lastPass.map(pastRunReport),
      possibly_billed:
        possiblyBilled.find((one) => one.job === job.name && one.run_id === status.lastRun?.run_id)
          ?.records ?? 0,
      last_success_at: status.lastSuccessAt,
      coverage: status.coverage,
      open_rejects: status.openRejects,
      held_by: status.holders.map(holderReport),
      checkpoints: checkpoints[i]?.checkpoints ?? [],
      segments: segmentReports(config, job, { segments, pushed, checkpoints }),
      waiting_answers: waiting.byJob.get(job.name) ?? { calls: 0, bytes: 0 },
    };
  });
  const host = (await readIdentity(db))?.serviceHost ?? null;
  const publications = await readPublicationStatus(db);
  const days = await readLedgerDays(db, DAYS);
  const billed = config.prices && (await readSpent(db, config.prices.currency, nowMs));
  const uses = await readBudgetUse(db);
  const budgets = budgetOutlooks(config, budgetReports(config, uses), {
    days,
    length: DAYS,
    firstRuns: await readFirstRuns(db),
    nowMs,
  });
  return {
    warehouse: db.description,
    service_host: host,
    jobs,
    attention: [
      ...attentionOf(config, states, budgets),
      ...(await readCopiedDestinations(db)).map((name) =>
        note(`destination ${name}`, "publication_refused", copiedText(name)),
      ),
      ...missingPublications(config, publications),
      ...otherService(config, host),
    ],
    quotas: await readQuotas(db),
    plan_left: await readPlanLeft(db, config, uses, nowMs),
    gaps: await readGaps(db),
    budgets,
    ...(billed ? { spent: billed.spent } : {}),
    days: days.map((day) => dayReport(day, billed?.rows ?? [], config.prices?.currency ?? null)),
    tables: await tableFreshness(db),
    publications: publications.map((status) => ({
      ...status,
      is_configured: config.publish.some(({ name }) => name === status.destination),
    })),
    answers_left_behind: waiting.remarks.map(({ path, message, hint = "" }) => ({
      folder: path,
      message,
      hint,
    })),
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
  const { job: _, ...report } = run;
  return report;
}

const dayOf = (ms: number) => dayText(Math.floor(ms / DAY_MS));

/** Destinations that have nothing of this warehouse, though it has data: they may still show another one's. */
function missingPublications(
  { publish }: Config,
  publications: readonly { readonly destination: string }[],
): readonly AttentionReport[] {
  return publish
    .filter(({ name }) => !publications.some(({ destination }) => destination === name))
    .map(({ name }) =>
      note(
        `destination ${name}`,
        "not_published",
        `Nothing was published to ${name} from this warehouse yet, so it may still have the copy of another one. ` +
          `\`person-etl publish ${name}\` publishes now, and says what is in the way.`,
      ),
    );
}

/** A service other than the one that filled the warehouse, which every run refuses. */
function otherService(config: Config, known: string | null): readonly AttentionReport[] {
  const configured = serviceHostOf(config);
  if (known === null || mayBeSame(known, configured)) return [];
  const message = `The warehouse has data from ${known}, but service.base_url is ${configured}: no run will start. \`person-etl check\` shows the ways out.`;
  return [note("service", "another_service", message)];
}

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
    ...day,
    ...(currency === null || rows.length === 0 ? {} : { cost: costOfBilled(rows, currency) }),
  };
}

/** One segment of a job, in `status --json`. */
interface SegmentReport extends StoredSegment {
  /** Members that this `segment_push` job added; null for other jobs. */
  readonly members_own: number | null;
  /** Members that this job may have added, which it never removes; null for other jobs. */
  readonly members_in_doubt: number | null;
}

interface KnownSegments {
  readonly segments: readonly StoredSegment[];
  /** Null: not counted. */
  readonly pushed: readonly PushedMembers[] | null;
  /** Checkpoints of all jobs. */
  readonly checkpoints: readonly CheckpointReport[];
}

/** Reports the segments that a job reads or fills; empty for other jobs. */
function segmentReports(
  config: Pick<Config, "jobs">,
  job: JobConfig,
  known: KnownSegments,
): readonly SegmentReport[] {
  const push = pushJobOf(job);
  const segments: readonly SegmentConfig[] = push
    ? [{ kind: "job", job: job.name, name: push.segmentName }]
    : (membersJobOf(job)?.segments ?? []);
  return segments.flatMap((segment) => {
    const id = readableId(config, segment, known.checkpoints);
    const stored = known.segments.find((one) => one.segment_id === id);
    if (!stored) return [];
    const pushed = known.pushed?.find((found) => found.job === job.name && found.segmentId === id);
    return [
      {
        ...stored,
        name: segment.name ?? stored.name,
        removals_pending: push ? null : stored.removals_pending,
        members_own: push && known.pushed ? (pushed?.own ?? 0) : null,
        members_in_doubt: push && known.pushed ? (pushed?.inDoubt ?? 0) : null,
      },
    ];
  });
}

/** Returns a segment's ID; null if unknown or if the checkpoint of its push job is invalid, which that job reports. */
function readableId(
  config: Pick<Config, "jobs">,
  segment: SegmentConfig,
  checkpoints: readonly CheckpointReport[],
): string | null {
  try {
    return segmentIdOf(config, segment, (push) => {
      const stored = checkpoints.find((report) => report.job === push);
      return stored?.checkpoints ?? [];
    });
  } catch (error) {
    if (error instanceof StopJobError) return null;
    throw error;
  }
}
