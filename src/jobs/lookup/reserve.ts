import { crashPoint } from "../../crash-point.ts";
import { LimitReachedError } from "../../errors.ts";
import type { Db } from "../../load/db/db.ts";
import { reserveCall } from "../../load/ledger/reserve-call.ts";
import { type JobLimits, nameOfLimit } from "./caps.ts";
import type { Outage } from "../outage.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";
import type { Price } from "../../money.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";

/** Run and limits of a reservation. */
interface Reserving {
  readonly run: RunRef;
  readonly limits: JobLimits;
  readonly price: Price | null;
  readonly kind: string;
  readonly outage: Outage;
}

/** Call about to be sent. */
export interface PlannedCall {
  /** UUID. */
  readonly callId: string;
  readonly items: readonly LookupRecord[];
  /** Number of calls that contained these records, including this one. */
  readonly attempt: number;
  readonly plannedAtMs: number;
}

/**
 * Reserves a call in the budgets before it is sent, and waits out outages. Returns how many of its records are granted,
 * starting with the first, or the records whose claim it lost, such as those of erased people. Throws a LimitReachedError if a limit
 * is used up.
 */
export async function reserve(
  db: Db,
  endpoint: string,
  { run, limits, price, kind, outage }: Reserving,
  planned: PlannedCall,
): Promise<{ readonly granted: number; readonly erased: readonly string[] }> {
  crashPoint("before_reserve");
  const { callId, attempt, items, plannedAtMs } = planned;
  const startedAt = new Date(plannedAtMs).toISOString();
  const call = { callId, endpoint, attempt, startedAt, records: items.length, claimed: { kind, records: items }, limits, price };
  const { granted, limitedBy, lost = [] } = await outage.outlast(() => reserveCall(db, run, call));
  crashPoint("after_reserve");
  if (limitedBy === null) return { granted, erased: lost };
  const code = nameOfLimit(limits, limitedBy);
  throw new LimitReachedError(code, `${run.job}: ${code} is used up; no more records can be sent.`);
}
