import { createHash } from "node:crypto";
import type { BudgetConfig, Config } from "../../config/config.ts";
import { crashPoint } from "../../crash-point.ts";
import { type LimitedBy, LimitReachedError } from "../../errors.ts";
import type { JobContext } from "../job.ts";
import { type LookupJobConfig, lookupOf } from "./lookup-types.ts";
import { type Shard, shareOf, wholeInput } from "../services.ts";
import { inputSourceOf } from "../sources.ts";
import type { LookupType } from "../../load/inputs/input.ts";
import { NORMALIZATION } from "../../load/inputs/columns.ts";
import {
  type BudgetPeriod,
  type BudgetUse,
  type CallGrant,
  type CallReservation,
  reserveCall,
  type RunUse,
  type SendingLimits,
  unused,
} from "../../load/ledger/reserve.ts";
import type { LookupSpec } from "../../load/lookups/lookup.ts";
import { moneyLeft } from "../../money.ts";

/** Parts of a request that affect which records are due; `maxRecords` is the lowest of all limits. */
type SpecRequest = Pick<LookupSpec, "resend" | "acceptParameters" | "maxRecords"> & {
  readonly shard: Shard;
};

export async function lookupSpecOf(job: LookupJobConfig, request: SpecRequest): Promise<LookupSpec> {
  const lookup = lookupOf(job);
  const { shard } = request;
  const input = await inputSourceOf(job.input, lookup.inputFields);
  const mapping = Object.entries(input.fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const normalization = input.normalize ? [NORMALIZATION] : [];
  return {
    job: job.name,
    type: job.type,
    source: job.input.name,
    kind: kindOf(job.type, lookup.requestParameters),
    mapping: hashOf([
      mapping,
      [job.pidFrom !== null, job.validEmailsFrom !== null, normalization[0] ?? null],
    ]),
    // Version 2 hashed this form, by which its answers are recognized.
    legacyParameters: hashOf([LEGACY_FORM, job.type, mapping, ...legacySettings(job), ...normalization]),
    input,
    refreshAfterMs: job.refreshAfterMs,
    refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs,
    pidFrom: job.pidFrom,
    dropsInvalidEmails: job.validEmailsFrom !== null,
    erasesMissing: job.input.onMissing === "erase",
    resend: request.resend,
    acceptParameters: request.acceptParameters,
    maxRecords: request.maxRecords,
    shard: shard.count === 1 ? null : shard,
  };
}

/** Kind of the answers to requests with these parameters besides the records. The order of a list makes no difference. */
export function kindOf(type: LookupType, parameters: Readonly<Record<string, unknown>>): string {
  const sorted = Object.entries(parameters)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => [name, Array.isArray(value) ? distinct(value.map(String)) : value]);
  return `${type}:${hashOf(sorted).slice(0, 12)}`;
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** Order and repetition of these values make no difference. */
function distinct(values: readonly string[]): readonly string[] {
  return [...new Set(values)].toSorted();
}

/** Number of settings in the hash of version 2. */
const LEGACY_SETTINGS: Readonly<Record<LookupType, number>> = { resolve: 1, validate_emails: 0, enrich: 5 };

function legacySettings(job: LookupJobConfig): readonly unknown[] {
  const settings = [
    job.validEmailsFrom !== null,
    job.pidFrom !== null,
    distinct(job.returnFields),
    distinct(job.matchConditionFields),
    job.includePremiumFields,
  ];
  return settings.slice(0, LEGACY_SETTINGS[job.type]);
}

const LEGACY_FORM = "person-etl/parameters/1";

/**
 * Reserves a call in the budgets before it is sent. Throws a LimitReachedError if a limit is used up.
 * @param message text of the error, for the name of the limit
 */
export async function reserve(
  { db, run }: Pick<JobContext, "db" | "run">,
  call: CallReservation & { readonly limits: JobLimits },
  message: (limit: LimitedBy) => string,
): Promise<CallGrant> {
  crashPoint("before_reserve");
  const grant = await reserveCall(db, run, call);
  crashPoint("after_reserve");
  if (grant.limitedBy === null) return grant;
  const limit = nameOfLimit(call.limits, grant.limitedBy);
  throw new LimitReachedError(limit, message(limit));
}

/**
 * Reserves in a budget all records that a call may be charged, or none. Throws a LimitReachedError if it has fewer left.
 * @param call `maxRecords`: cap of the command, null for none
 */
export async function reserveWhole(
  context: Pick<JobContext, "config" | "clock" | "db" | "run">,
  call: Pick<CallReservation, "callId" | "endpoint" | "records" | "price"> & {
    readonly budget: string;
    readonly maxRecords: number | null;
  },
  message: (limit: LimitedBy) => string,
): Promise<CallGrant> {
  const { config, clock } = context;
  const { maxRecords, ...given } = call;
  const limits = limitsOf(config, { type: call.budget, maxRecordsPerRun: null }, maxRecords, wholeInput);
  const startedAt = new Date(clock.now()).toISOString();
  return reserve(context, { ...given, attempt: 1, startedAt, limits, isWhole: true }, message);
}

const NO_BUDGET: BudgetConfig = { perDay: null, perMonth: null, money: null };

export interface JobLimits extends SendingLimits {
  /** Name of the lower one of the two caps per run. */
  readonly perRunBy: "max_records" | "max_records_per_run";
}

/** Maximum records that can be sent now, with the limit responsible. */
export interface Cap {
  readonly records: number;
  readonly limitedBy: LimitedBy;
}

/**
 * Limits of a job: the budget of its type, the lower one of the job's and the command's cap, and this shard's part of it.
 */
export function limitsOf(
  config: Pick<Config, "budgets">,
  job: { readonly type: string; readonly maxRecordsPerRun: number | null },
  maxRecords: number | null,
  shard: Shard,
): JobLimits {
  const { maxRecordsPerRun } = job;
  const isOfCommand = maxRecords !== null && maxRecords <= (maxRecordsPerRun ?? maxRecords);
  const perRun = isOfCommand ? maxRecords : maxRecordsPerRun;
  return {
    ...(config.budgets[job.type] ?? NO_BUDGET),
    perRun,
    perShard: perRun === null ? null : shareOf(perRun, shard),
    perRunBy: isOfCommand ? "max_records" : "max_records_per_run",
  };
}

function nameOfLimit(limits: JobLimits, period: BudgetPeriod): LimitedBy {
  if (period === "month") return "budget_month";
  return period === "day" ? "budget_day" : limits.perRunBy;
}

/** Records counted in each period so far, and those billed in the month. */
export interface Used extends BudgetUse, RunUse {}

/** Records currently counted in the budgets of a job type and in the run. */
export function usedOf(uses: ReadonlyMap<string, BudgetUse>, type: string, run: RunUse): Used {
  return { ...(uses.get(type) ?? unused), ...run };
}

/** Limit with the fewest records left; if equal, the one with the longest period. Null if nothing is limited. */
export function tightestCap(limits: JobLimits, used: Used): Cap | null {
  const { perMonth, perDay, perRun, perShard, money } = limits;
  const inRecords = (limit: number | null, period: BudgetPeriod) =>
    limit === null ? null : Math.max(0, limit - used[period]);
  const inMoney = (period: "day" | "month") => money && moneyLeft(money, period, used.billed)?.records;
  const left = [
    ["month", inRecords(perMonth, "month")],
    ["month", inMoney("month")],
    ["day", inRecords(perDay, "day")],
    ["day", inMoney("day")],
    ["run", inRecords(perRun, "run")],
    ["shard", inRecords(perShard, "shard")],
  ] as const;
  let tightest: Cap | null = null;
  for (const [period, records] of left) {
    if (typeof records === "number" && (tightest === null || records < tightest.records)) {
      tightest = { records, limitedBy: nameOfLimit(limits, period) };
    }
  }
  return tightest;
}
