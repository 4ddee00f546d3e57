import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { nextCallNumber } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { findLostClaims } from "../lookups/claims.ts";
import type { LookupRecord } from "../lookups/lookup.ts";
import type { RunRef } from "../runs/fence.ts";
import { type BilledInMonth, type MoneyBudget, moneyLeft, type Price, type Tier } from "../../money.ts";
import { type Attempt, billedRecords } from "../../schemas/ledger.ts";

/** Maximum records to send; null for no limit. */
export interface SendingLimits {
  /** Per UTC day, for all jobs of the type on all machines. */
  readonly perDay: number | null;
  /** Per UTC month, for all jobs of the type on all machines. */
  readonly perMonth: number | null;
  /** Per job and run id, for all shards of any division. */
  readonly perRun: number | null;
  /** Per shard and run id; ignored without shards. */
  readonly perShard: number | null;
  /** Amounts per UTC day and month, for all jobs of the type on all machines; null for none. */
  readonly money: MoneyBudget | null;
}

export type BudgetPeriod = "day" | "month" | "run" | "shard";

export interface RunUse {
  /** All shards of any division. */
  readonly run: number;
  /** This shard; 0 for a run of the whole input. */
  readonly shard: number;
}

/** Use of a budget on the current UTC day and in the month. */
export interface BudgetUse {
  /** Records counted in budgets. */
  readonly day: number;
  readonly month: number;
  readonly billed: BilledInMonth;
}

const NONE_BILLED = { least: 0, most: 0 };
export const unused: BudgetUse = {
  day: 0,
  month: 0,
  billed: { beforeToday: NONE_BILLED, today: NONE_BILLED },
};

interface BudgetRow {
  readonly budget: string;
  readonly period: BudgetPeriod;
  readonly period_key: string;
}

/**
 * Rows that count a call, each with its limit; `reservedAt` is ISO 8601, UTC. Runs with different shard counts can share an ID: the row of
 * the run limits them together.
 */
function rowsOf(
  { job, jobType, runId, shard }: RunRef,
  reservedAt: string,
  { perDay, perMonth, perRun, perShard }: SendingLimits,
): readonly (BudgetRow & { readonly most: number | null })[] {
  const ofShard = { budget: job, period: "shard", period_key: `${runId} ${shard}`, most: perShard } as const;
  return [
    { budget: jobType, period: "month", period_key: reservedAt.slice(0, 7), most: perMonth },
    { budget: jobType, period: "day", period_key: reservedAt.slice(0, 10), most: perDay },
    { budget: job, period: "run", period_key: runId, most: perRun },
    ...(shard === "0/1" ? [] : [ofShard]),
  ];
}

/** Creates missing rows, at zero. */
async function makeBudgetRows(session: Session, run: RunRef, rows: readonly BudgetRow[]): Promise<void> {
  await session.change(sql`
    INSERT INTO ${session.table("budget_use")} (budget, period, period_key, records_reserved, _synced_at, _run_id)
    SELECT budget, period, period_key, 0, now(), ${run.runId}
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS r(budget text, period text, period_key text)
    ORDER BY budget COLLATE "C", period COLLATE "C", period_key COLLATE "C"
    ON CONFLICT DO NOTHING`);
}

/** Use of each budget that has any. */
export async function readBudgetUse(db: Db): Promise<ReadonlyMap<string, BudgetUse>> {
  return db.transaction(async (session) => {
    const counted = await session.rows<{ budget: string; period: "day" | "month"; records: number }>(sql`
    SELECT budget, period, records_reserved AS records FROM ${db.table("budget_use")}
    WHERE (period, period_key) IN (('day', ${session.now.slice(0, 10)}), ('month', ${session.now.slice(0, 7)}))
    ORDER BY budget, period`);
    const uses = new Map<string, BudgetUse>();
    for (const { budget, ...billed } of await readBilledInMonth(session)) {
      uses.set(budget, { ...unused, billed });
    }
    for (const { budget, period, records } of counted) {
      uses.set(budget, { ...(uses.get(budget) ?? unused), [period]: records });
    }
    return uses;
  });
}

/** Sums the ledger of the current UTC month by budget. */
async function readBilledInMonth(session: Session, budget?: string) {
  const day = sql`${session.now.slice(0, 10)}::date`;
  const isToday = sql`reserved_at >= ${day}::timestamp AT TIME ZONE 'UTC'`;
  const billed = sql.raw(billedRecords);
  const rows = await session.rows<
    Readonly<Record<"before" | "beforeDoubt" | "today" | "todayDoubt", number>> & { budget: string }
  >(sql`
    SELECT budget, coalesce(sum(${billed}) FILTER (WHERE NOT ${isToday}), 0)::bigint AS before,
      coalesce(sum(records_in_doubt) FILTER (WHERE NOT ${isToday}), 0)::bigint AS "beforeDoubt",
      coalesce(sum(${billed}) FILTER (WHERE ${isToday}), 0)::bigint AS today,
      coalesce(sum(records_in_doubt) FILTER (WHERE ${isToday}), 0)::bigint AS "todayDoubt"
    FROM ${session.table("api_call")}
    WHERE reserved_at >= date_trunc('month', ${day}::timestamp) AT TIME ZONE 'UTC' AND ${budget === undefined ? sql`budget IS NOT NULL` : sql`budget = ${budget}`}
    GROUP BY budget`);
  return rows.map(({ budget: name, before, beforeDoubt, today, todayDoubt }) => ({
    budget: name,
    beforeToday: { least: before, most: before + beforeDoubt },
    today: { least: today, most: today + todayDoubt },
  }));
}

/** Records reserved by a job in all runs of one ID. */
export async function readRunUse(db: Db, run: RunRef): Promise<RunUse> {
  const rows = await db.rows(
    db.query
      .selectFrom("state.budget_use")
      .select(["period", "records_reserved as records"])
      .where("budget", "=", run.job)
      .where(
        sql<boolean>`(period, period_key) IN (('run', ${run.runId}), ('shard', ${`${run.runId} ${run.shard}`}))`,
      ),
  );
  const usedIn = (period: BudgetPeriod) => rows.find((row) => row.period === period)?.records ?? 0;
  return { run: usedIn("run"), shard: usedIn("shard") };
}

/** True if certainly nothing was billed: no answer, and an unambiguous outcome. */
function isUncharged({ possiblyBilled, recordsMatched }: Attempt): boolean {
  return !possiblyBilled && recordsMatched === null;
}

const NO_LIMITS = { perDay: null, perMonth: null, perRun: null, perShard: null, money: null };

/**
 * Releases the reservations of attempts that cost nothing, in their original periods. Runs near the end of a
 * transaction, because every other call waits for these rows.
 */
export async function releaseReservations(
  session: Session,
  run: RunRef,
  entries: readonly Attempt[],
): Promise<void> {
  const ids = entries.filter(isUncharged).map(({ callId }) => callId);
  if (ids.length === 0) return;
  const calls = await session.rows<Reserved>(sql`
    WITH back AS (
      SELECT call_id, run_id, budget, reserved_at, records_reserved FROM ${session.table("api_call")}
      WHERE call_id = ANY(${ids}::uuid[]) AND records_reserved > 0 ORDER BY call_id FOR UPDATE),
    emptied AS (
      UPDATE ${session.table("api_call")} AS c SET records_reserved = 0 FROM back WHERE c.call_id = back.call_id)
    SELECT run_id, budget, reserved_at, records_reserved AS records FROM back`);
  await lowerBudgets(session, run, calls);
}

/** Reservation that was released. */
interface Reserved {
  readonly run_id: string;
  readonly budget: string;
  readonly reserved_at: string;
  /** Released records; negative for records billed in addition. */
  readonly records: number;
}

/**
 * Records what a reservation without an attempt of its own was billed, and releases the rest; `billed` is null if certainly
 * nothing was. Changes nothing the second time.
 */
export async function recordCharge(
  session: Session,
  run: RunRef,
  { callId, billed }: { readonly callId: string; readonly billed: number | null },
): Promise<void> {
  const calls = await session.rows<Reserved>(sql`
    WITH open AS (
      SELECT call_id, run_id, budget, reserved_at, records_reserved FROM ${session.table("api_call")}
      WHERE call_id = ${callId}::uuid AND settled_at IS NULL FOR UPDATE),
    settled AS (
      UPDATE ${session.table("api_call")} AS c SET records_matched = ${billed}::bigint, records_reserved = ${billed ?? 0}::bigint,
        possibly_billed = false, records_in_doubt = 0, is_sent = coalesce(is_sent, ${billed !== null}::boolean), settled_at = now(), _synced_at = now()
      FROM open WHERE c.call_id = open.call_id)
    SELECT run_id, budget, reserved_at, records_reserved - ${billed ?? 0}::bigint AS records FROM open`);
  await lowerBudgets(session, run, calls);
}

/** Releases records in the periods and runs of their reservation. */
async function lowerBudgets(session: Session, run: RunRef, calls: readonly Reserved[]): Promise<void> {
  const rows = calls.flatMap(({ run_id: runId, budget, reserved_at, records }) =>
    rowsOf({ ...run, runId, jobType: budget }, reserved_at, NO_LIMITS).map(
      (row): BudgetRow & { readonly records: number } => ({ ...row, records }),
    ),
  );
  if (rows.length === 0) return;
  await session.change(sql`
    WITH back AS (
      SELECT budget, period, period_key, sum(records)::bigint AS records FROM json_to_recordset(${JSON.stringify(rows)}::json)
        AS r(budget text, period text, period_key text, records bigint) GROUP BY 1, 2, 3),
    locked AS (
      SELECT u.budget, u.period, u.period_key, back.records
      FROM ${session.table("budget_use")} AS u JOIN back USING (budget, period, period_key)
      ORDER BY u.budget COLLATE "C", u.period COLLATE "C", u.period_key COLLATE "C" FOR UPDATE OF u)
    UPDATE ${session.table("budget_use")} AS u
    SET records_reserved = u.records_reserved - l.records, _synced_at = now(), _run_id = ${run.runId}
    FROM locked AS l WHERE (u.budget, u.period, u.period_key) = (l.budget, l.period, l.period_key)`);
}

export interface CallReservation {
  /** UUID of its row in the ledger. */
  readonly callId: string;
  /** Method and path. */
  readonly endpoint: string;
  /** 1-based attempt of these records. */
  readonly attempt: number;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  readonly records: number;
  /** Claimed records; absent for a call without any. */
  readonly claimed?: { readonly kind: string; readonly records: readonly LookupRecord[] };
  readonly limits: SendingLimits;
  /** Recorded with the call; null or absent for none. */
  readonly price?: Price | null;
  /** Budget of the records; the job's type by default. */
  readonly budget?: string;
  /** True if part of the records is useless: all or none are granted, once per call ID in any run. */
  readonly isWhole?: true;
}

export interface CallGrant {
  /** Number of records that may be sent, starting with the first; 0 if nothing was reserved. */
  readonly granted: number;
  /** Exhausted limit; null if records were granted or claims were lost. */
  readonly limitedBy: BudgetPeriod | null;
  /** IDs of records whose claim the run lost: a person was erased since. Nothing was reserved; reserve the others again. */
  readonly lost?: readonly string[];
  /** True if the call was granted and sent before, with an outcome that is in the ledger. */
  readonly wasSent?: boolean;
}

/** Maximum attempts: the day may change between creating a row and using it. */
const MAX_TRIES = 3;

/**
 * Reserves as many of a call's records as all limits allow and records the call as in flight. A single statement, which
 * keeps the counters' rows locked until COMMIT.
 */
export async function reserveCall(db: Db, run: RunRef, call: CallReservation): Promise<CallGrant> {
  return db.reservations.add(() => reserve(db, run, call));
}

async function reserve(db: Db, asking: RunRef, call: CallReservation): Promise<CallGrant> {
  const run = { ...asking, jobType: call.budget ?? asking.jobType };
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const grant = await db.transaction(run, async (session, attempt) => {
      // The reply to an earlier attempt may have been lost.
      const earlier = attempt > 1 || call.isWhole ? await readGrant(session, call.callId) : null;
      if (earlier === null && call.claimed) {
        const { kind, records } = call.claimed;
        const lost = await findLostClaims(session, kind, asking, records);
        if (lost.length > 0) return { granted: 0, limitedBy: null, lost };
      }
      return earlier ?? (await tryReserve(session, run, call));
    });
    if (grant) return grant;
    // In a separate transaction: waiting for a row that another process creates while holding the existing rows would
    // deadlock.
    await db.transaction(run, (session) =>
      makeBudgetRows(session, run, rowsOf(run, session.now, call.limits)),
    );
  }
  throw new Error("A row of budget_use was deleted while in use.");
}

/** Earlier grant of the call; null if there is none. */
async function readGrant(session: Session, callId: string): Promise<CallGrant | null> {
  const calls = session.query
    .selectFrom("ops.api_call")
    .select(["records_reserved", "is_sent"])
    .where("call_id", "=", callId);
  const [call] = await session.rows(calls);
  return call ? { granted: call.records_reserved, limitedBy: null, wasSent: call.is_sent !== null } : null;
}

const least = (limit: number | null, more: number | null, counted: number) =>
  more === null ? limit : Math.min(limit ?? Number.MAX_SAFE_INTEGER, counted + more);

/**
 * Adds to the limits in records those in money. Locks the counters as {@link tryReserve} does, so that the ledger has every other
 * call; null if one is missing.
 */
async function withMoney(
  session: Session,
  run: RunRef,
  { limits, records }: CallReservation,
): Promise<SendingLimits | null> {
  const { money } = limits;
  if (money === null) return limits;
  const rows = rowsOf(run, session.now, limits);
  const counters = await session.rows<{ period: BudgetPeriod; records: number }>(sql`
    SELECT u.period, u.records_reserved AS records FROM ${session.table("budget_use")} AS u
    JOIN json_to_recordset(${JSON.stringify(rows)}::json) AS r(budget text, period text, period_key text) USING (budget, period, period_key)
    ORDER BY u.budget COLLATE "C", u.period COLLATE "C", u.period_key COLLATE "C" FOR UPDATE OF u`);
  if (counters.length < rows.length) return null;
  const countedIn = (period: BudgetPeriod) => counters.find((row) => row.period === period)?.records ?? 0;
  const [day, month] = [countedIn("day"), countedIn("month")];
  const leftIn = (billed: BilledInMonth) => ({
    day: moneyLeft(money, "day", billed)?.records ?? null,
    month: moneyLeft(money, "month", billed)?.records ?? null,
  });
  // Not more can be billed than is counted, so the ledger is read only if that much would be too much.
  let left = leftIn({
    beforeToday: { least: 0, most: Math.max(0, month - day) },
    today: { least: 0, most: day },
  });
  if ((left.day ?? records) < records || (left.month ?? records) < records) {
    const [billed] = await readBilledInMonth(session, run.jobType);
    left = leftIn(billed ?? unused.billed);
  }
  return {
    ...limits,
    perDay: least(limits.perDay, left.day, day),
    perMonth: least(limits.perMonth, left.month, month),
  };
}

/** Null if a counter's row is missing: the first call of a period. */
async function tryReserve(session: Session, run: RunRef, call: CallReservation): Promise<CallGrant | null> {
  const limits = await withMoney(session, run, call);
  if (limits === null) return null;
  const rows = rowsOf(run, session.now, limits);
  const { tiers = [], per = null, currency = null } = call.price ?? {};
  const [first] = tiers;
  const prices =
    tiers.length > 1 ? tiers.map(({ from, amount }) => `${amount} from ${from}`).join(", ") : null;
  if (prices !== null) await addTiers(session, run, prices, tiers);
  // FOR UPDATE in key order prevents deadlocks and sees the changes of earlier holders. The update below then finds
  // the rows already locked.
  const found = await session.one<{ rows: number; granted: number; limited_by: BudgetPeriod | null }>(sql`
    WITH wanted AS (
      SELECT budget, period, period_key, most FROM json_to_recordset(${JSON.stringify(rows)}::json)
        AS w(budget text, period text, period_key text, most bigint)),
    locked AS (
      SELECT u.budget, u.period, u.period_key, w.most - u.records_reserved AS rest
      FROM ${session.table("budget_use")} AS u JOIN wanted AS w USING (budget, period, period_key)
      ORDER BY u.budget COLLATE "C", u.period COLLATE "C", u.period_key COLLATE "C"
      FOR UPDATE OF u),
    found AS (
      SELECT count(*) AS rows,
        CASE WHEN ${call.isWhole === true}::boolean AND min(rest) < ${call.records}::bigint THEN 0
          ELSE greatest(0, least(${call.records}::bigint, min(rest))) END AS granted
      FROM locked),
    call AS (SELECT granted FROM found WHERE rows = ${rows.length} AND granted > 0),
    raised AS (
      UPDATE ${session.table("budget_use")} AS u
      SET records_reserved = u.records_reserved + call.granted, _synced_at = now(), _run_id = ${run.runId}
      FROM locked AS l CROSS JOIN call
      WHERE (u.budget, u.period, u.period_key) = (l.budget, l.period, l.period_key)),
    ledger AS (
      INSERT INTO ${session.table("api_call")} (call_id, run_id, job, call_number, endpoint, started_at, attempt, records_sent,
        response_bytes, possibly_billed, budget, reserved_at, records_reserved, records_in_doubt,
        records_possibly_billed_twice, price, currency, price_tiers, billed_per, _synced_at)
      SELECT ${call.callId}::uuid, ${run.runId}, ${run.job}, ${nextCallNumber(session.names)}, ${call.endpoint}, ${call.startedAt}::timestamptz, ${call.attempt},
        granted, 0, true, ${run.jobType}, now(), granted, granted, 0,
        ${prices === null ? (first?.amount ?? null) : null}::numeric, ${currency}::text, ${prices}::text, ${per}::text, now()
      FROM call)
    SELECT rows, granted, (SELECT period FROM locked WHERE rest IS NOT NULL
      ORDER BY rest, period IN ('run', 'shard'), period = 'day' LIMIT 1) AS limited_by
    FROM found`);
  if (found.rows < rows.length) return null;
  return { granted: found.granted, limitedBy: found.granted === 0 ? found.limited_by : null };
}

/** Records the tiers that calls refer to; nothing if they are recorded. */
async function addTiers(session: Session, run: RunRef, name: string, tiers: readonly Tier[]): Promise<void> {
  const rows = tiers.map(({ from, amount }, i) => ({ from, to: tiers[i + 1]?.from ?? null, amount }));
  await session.change(sql`
    INSERT INTO ${session.table("price_tier")} (price_tiers, records_from, records_to, amount, _synced_at, _run_id)
    SELECT ${name}, "from", "to", amount, now(), ${run.runId}
    FROM json_to_recordset(${JSON.stringify(rows)}::json) AS t("from" bigint, "to" bigint, amount numeric)
    WHERE NOT EXISTS (SELECT FROM ${session.table("price_tier")} WHERE price_tiers = ${name})
    ON CONFLICT DO NOTHING`);
}
