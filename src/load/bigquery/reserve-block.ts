import { sql } from "kysely";
import type { BudgetPeriod, RunRef, SendingLimits } from "../warehouse.ts";
import { counterRows, countersOf } from "./budget-rows.ts";
import { giveBackRest } from "./give-back.ts";
import { tableId } from "./names.ts";
import { inRunTransaction } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";

/** Records that a process may send without asking again. */
export interface Block {
  readonly granted: number;
  /** The tightest limit, where less was granted than wanted. */
  readonly limitedBy: BudgetPeriod | null;
  /** When it was reserved, by the warehouse's clock. */
  readonly reservedAt: string;
}

/** Raises every counter by as many records as all limits allow, and gives back what is left of an earlier block. */
export async function reserveBlock(
  session: Session,
  run: RunRef,
  wanted: { readonly records: number; readonly limits: SendingLimits },
  earlier: { readonly records: number; readonly reservedAt: string },
): Promise<Block> {
  const { names } = session;
  const use = tableId(names, "ops", "budget_use");
  const counters = counterRows(countersOf(run, wanted.limits));
  const isSame = sql`u.budget = w.budget AND u.period = w.period AND u.period_key = w.period_key`;
  const [block] = await inRunTransaction<{ granted: number; limited_by: BudgetPeriod | null; at: string }>(
    session,
    run,
    {
      declare: [sql`granted INT64 DEFAULT 0`, sql`limited_by STRING`],
      statements: [
        ...giveBackRest(names, run, earlier),
        sql`INSERT INTO ${use} (budget, period, period_key, records_reserved, _synced_at, _run_id)
          SELECT w.budget, w.period, w.period_key, 0, ${NOW}, ${run.runId} FROM (${counters}) AS w
          WHERE NOT EXISTS (SELECT 1 FROM ${use} AS u WHERE ${isSame})`,
        sql`SET granted = (SELECT GREATEST(0, LEAST(${wanted.records}, IFNULL(MIN(w.most - u.records_reserved), ${wanted.records})))
          FROM ${use} AS u JOIN (${counters}) AS w ON ${isSame} WHERE w.most IS NOT NULL)`,
        sql`SET limited_by = IF(granted = ${wanted.records}, NULL, (
          SELECT w.period FROM ${use} AS u JOIN (${counters}) AS w ON ${isSame} WHERE w.most IS NOT NULL
          ORDER BY w.most - u.records_reserved, w.period IN ('run', 'shard'), w.period = 'day' LIMIT 1))`,
        sql`IF granted > 0 THEN
          UPDATE ${use} AS u SET records_reserved = u.records_reserved + granted, _synced_at = ${NOW}, _run_id = ${run.runId}
          FROM (${counters}) AS w WHERE ${isSame};
          END IF`,
      ],
      outcome: sql`SELECT granted, limited_by, ${NOW} AS at`,
    },
  );
  if (!block) throw new Error("BigQuery did not tell what was reserved.");
  return { granted: block.granted, limitedBy: block.limited_by, reservedAt: block.at };
}
