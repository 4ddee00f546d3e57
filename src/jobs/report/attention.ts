import { adviceFor } from "../../advice.ts";
import type { Config, JobConfig } from "../../config/config.ts";
import { countText, timeText } from "../../figures.ts";
import { unusualRejects } from "../confirm.ts";
import { scheduledJobs } from "../job-selection.ts";
import { priceOf } from "../price.ts";
import { DAY_MS } from "../usage/calendar.ts";
import type { LedgerDay } from "../../load/ledger/costs.ts";
import { type BudgetUse, unused } from "../../load/ledger/reserve.ts";
import type { JobStatus } from "../../load/runs/status.ts";
import { isSuccess } from "../../load/runs/runs.ts";
import { type BilledInMonth, costOf, moneyLeft, type Price, tiersAfter } from "../../money.ts";
import { nextSlot, type Schedule } from "../../schedule/schedule.ts";

export interface AttentionReport {
  readonly subject: string;
  readonly code: string;
  readonly message: string;
  readonly what_to_do: string;
}

export interface JobState {
  readonly job: JobConfig;
  readonly status: JobStatus;
  readonly freshness: Freshness;
}

/** Part of a budget whose use needs attention. */
const NEARLY_USED = 0.9;

/** Problems to show at the top of `status`. */
export function attentionOf(
  config: Pick<Config, "maxRejectRatio">,
  jobs: readonly JobState[],
  budgets: readonly BudgetOutlook[],
): readonly AttentionReport[] {
  const enabled = jobs.filter(({ job }) => job.enabled);
  return [
    ...enabled.flatMap(jobAttention),
    ...enabled.flatMap(({ job, status: { lastRun } }) => {
      const message = lastRun && unusualRejects(job, lastRun, config);
      return message === null ? [] : [note(job.name, "many_rejects", message)];
    }),
    ...budgets.flatMap((budget) => {
      const { used, limit, left, period } = budget;
      if (limit === 0 || (left > 0 && used < NEARLY_USED * limit)) return [];
      const code = left === 0 ? "used_up" : "nearly_used";
      const until =
        budget.lasts_until === null ? "" : `, used up at ${timeText(budget.lasts_until)} at this pace`;
      const message = `${used} of ${limit} records of the ${period} are used${left === 0 ? "" : until}; renewed at ${timeText(budget.resets_at)}.`;
      return [note(`budget ${budget.budget} ${period}`, code, message)];
    }),
  ];
}

function jobAttention({ job: { name }, status, freshness }: JobState): readonly AttentionReport[] {
  const { lastRun: run, lastSuccessAt } = status;
  const dead = status.holders.filter(({ isExpired }) => isExpired);
  const found = dead.map(({ runId, host }) =>
    note(
      name,
      "lock_expired",
      `Run ${runId} on ${host} has sent no heartbeat for too long; the next run takes over.`,
    ),
  );
  if (run?.status === "failed" || run?.status === "skipped") {
    found.push(note(name, run.status, run.error ?? "The job did not succeed."));
  } else if (run?.status === "limited" && !isSuccess(run)) {
    const code = run.limited_by ?? "limited";
    found.push(note(name, code, run.error ?? `The job stopped at ${code}.`));
  }
  if (freshness === "stale" && found.length === 0) {
    const since = lastSuccessAt === null ? "never" : `at ${timeText(lastSuccessAt)}`;
    found.push(
      note(name, "stale", `The last success was ${since}; the job has been late since its last due time.`),
    );
  }
  return found;
}

export function note(subject: string, code: string, message: string): AttentionReport {
  return { subject, code, message, what_to_do: adviceFor(code).next };
}

export type Freshness = "fresh" | "limited" | "running" | "stale" | "never" | "off";

/** Names of the states of jobs, for people. */
export const freshnessNames: Readonly<Record<Freshness, string>> = {
  fresh: "up to date",
  limited: "limited",
  running: "running",
  stale: "stale",
  never: "no success yet",
  off: "disabled",
};

interface GlanceJob {
  readonly enabled: boolean;
  readonly freshness: Freshness;
  readonly coverage: { readonly due: number } | null;
}

/** Summary of the jobs: `1 of 3 jobs up to date, 2 limited (4,196 rows due)`. */
export function glanceOf(
  jobs: readonly GlanceJob[],
  attention: readonly AttentionReport[],
): { readonly isWell: boolean; readonly text: string } {
  const on = jobs.filter(({ enabled }) => enabled);
  const groups = Map.groupBy(on, ({ freshness }) => freshness);
  const sizeOf = (name: Freshness) => groups.get(name)?.length ?? 0;
  const due = (groups.get("limited") ?? []).reduce((sum, { coverage }) => sum + (coverage?.due ?? 0), 0);
  const others = (["running", "limited", "stale", "never"] as const).flatMap((name) => {
    const rest = name === "limited" && due > 0 ? ` (${countText(due, "row")} due)` : "";
    return sizeOf(name) === 0 ? [] : [`, ${sizeOf(name)} ${freshnessNames[name]}${rest}`];
  });
  return {
    isWell: attention.length === 0 && sizeOf("fresh") + sizeOf("running") === on.length,
    text: `${sizeOf("fresh")} of ${countText(on.length, "job")} up to date${others.join("")}`,
  };
}

/** A slot may start this late. */
const GRACE_MS = 15 * 60_000;

/** Schedule of each job: its own, or that of the job it runs with. */
export function schedulesByJob(config: Pick<Config, "jobs">): ReadonlyMap<string, Schedule> {
  const schedules = new Map<string, Schedule>();
  for (const { name, schedule, companions } of scheduledJobs(config)) {
    for (const companion of companions) if (!schedules.has(companion)) schedules.set(companion, schedule);
    schedules.set(name, schedule);
  }
  return schedules;
}

/** Compares the age of a job's last success with its schedule. */
export function freshnessOf(
  job: Pick<JobConfig, "enabled">,
  status: JobStatus,
  given: { readonly schedule: Schedule | null; readonly staleAfterMs: number | null; readonly nowMs: number },
): Freshness {
  const { schedule, staleAfterMs, nowMs } = given;
  if (!job.enabled) return "off";
  if (status.holders.some(({ isExpired }) => !isExpired)) return "running";
  if (status.lastSuccessAt === null) return "never";
  const succeededMs = Date.parse(status.lastSuccessAt);
  if (staleAfterMs !== null && nowMs - succeededMs > staleAfterMs) return "stale";
  const next = schedule && nextSlot(schedule, succeededMs);
  if (next && next.atMs + GRACE_MS < nowMs) return "stale";
  const hasSucceeded = status.lastPass.every(isSuccess);
  const isLimited = status.lastPass.some((run) => run.status === "limited");
  if (hasSucceeded) return isLimited || (status.coverage?.due ?? 0) > 0 ? "limited" : "fresh";
  return schedule && (status.coverage?.due ?? 0) === 0 ? "fresh" : "stale";
}

export interface BudgetOutlook extends BudgetReport {
  /** End of the period, when the budget is reset. */
  readonly resets_at: string;
  /** Time at which it will be used up at the recent pace; null if it lasts for the period. */
  readonly lasts_until: string | null;
}

/** Predicts when budgets will be used up, from the ledger's last days (UTC). */
export function budgetOutlooks(
  config: Pick<Config, "jobs">,
  budgets: readonly BudgetReport[],
  use: RecentUse,
): readonly BudgetOutlook[] {
  const { nowMs } = use;
  return budgets.map((budget) => {
    const resetsMs = endOfPeriod(budget.period, nowMs);
    const pace = recordsPerMs(config, budget.budget, use);
    const lastsMs = budget.left === 0 ? nowMs : nowMs + budget.left / pace;
    return {
      ...budget,
      resets_at: new Date(resetsMs).toISOString(),
      // A job sends everything at once, so within a day only a used-up budget is meaningful.
      lasts_until:
        lastsMs < resetsMs && (budget.period === "month" || budget.left === 0)
          ? new Date(lastsMs).toISOString()
          : null,
    };
  });
}

/** Use of budgets in the last UTC days, today included. */
interface RecentUse {
  readonly days: readonly LedgerDay[];
  /** Number of UTC days. */
  readonly length: number;
  /** Start of each job's first run. */
  readonly firstRuns: ReadonlyMap<string, string>;
  readonly nowMs: number;
}

function endOfPeriod(period: BudgetReport["period"], nowMs: number): number {
  const now = new Date(nowMs);
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  return period === "day" ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1);
}

/** Mean of the days; 0 while they include the first run of a job, which sends everything. */
function recordsPerMs(
  { jobs }: Pick<Config, "jobs">,
  budget: string,
  { days, length, firstRuns, nowMs }: RecentUse,
): number {
  const ofType = days.filter(({ job }) => jobs.find(({ name }) => name === job)?.type === budget);
  const startMs = (Math.floor(nowMs / DAY_MS) - length + 1) * DAY_MS;
  const isNew = ofType.some(({ job }) => Date.parse(firstRuns.get(job) ?? "") >= startMs);
  const sent = ofType.reduce((sum, day) => sum + day.records_sent, 0);
  return isNew ? 0 : sent / (nowMs - startMs);
}

/** Use of a budget, in `plan --json` and `status --json`. */
export interface BudgetReport {
  /** Type of the jobs that share the budget. */
  readonly budget: string;
  readonly period: "day" | "month";
  /** Maximum records in the current period (UTC); of a limit in money, those used and left. */
  readonly limit: number;
  /** Records sent in the period that were or may have been billed, including calls in flight. */
  readonly used: number;
  readonly left: number;
  /** Limit as given, in money. */
  readonly limit_amount?: number;
  /** With a limit in money: the most that the period can have cost so far. */
  readonly used_amount?: number;
  /** With a price: the most that the records left can cost. */
  readonly left_amount?: number;
  /** Price of one billed record; absent if it depends on their number. */
  readonly price?: number;
  /** ISO 4217. */
  readonly currency?: string;
}

export function budgetReports(
  config: Pick<Config, "budgets" | "prices">,
  uses: ReadonlyMap<string, BudgetUse>,
): readonly BudgetReport[] {
  return Object.entries(config.budgets).flatMap(([budget, { perDay, perMonth, money }]) =>
    (["day", "month"] as const).flatMap((period): readonly BudgetReport[] => {
      const { [period]: used, billed } = uses.get(budget) ?? unused;
      const limit = period === "day" ? perDay : perMonth;
      const inMoney = money && moneyLeft(money, period, billed);
      if (limit === null && inMoney === null) return [];
      const left = inMoney?.records ?? Math.max(0, (limit ?? 0) - used);
      return [
        {
          budget,
          period,
          limit: limit ?? used + left,
          used,
          left,
          ...(inMoney ? { limit_amount: Number(money?.[period]), used_amount: Number(inMoney.spent) } : {}),
          ...costOfLeft(left, priceOf(config, budget), billed),
        },
      ];
    }),
  );
}

function costOfLeft(left: number, price: Price | null, billed: BilledInMonth): Partial<BudgetReport> {
  if (price === null) return {};
  const { beforeToday, today } = billed;
  const tiers = tiersAfter(price.tiers, beforeToday.least + today.least, beforeToday.most + today.most);
  return {
    left_amount: Number(costOf(left, tiers)),
    ...(price.tiers.length === 1 ? { price: Number(price.tiers[0]?.amount) } : {}),
    currency: price.currency,
  };
}
