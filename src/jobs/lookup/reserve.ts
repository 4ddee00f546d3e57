import type { Db } from "../../load/db/db.ts";
import { reserveCall } from "../../load/ledger/reserve-call.ts";
import { crashPoint } from "../../crash-point.ts";
import { LimitReachedError } from "../../errors.ts";
import type { CallToReserve } from "../../extract/lookup.ts";
import type { LookupRecord, RunRef } from "../../load/lookup.ts";
import { type JobLimits, nameOfLimit } from "./caps.ts";
import type { Outage } from "../outage.ts";

/** For which run calls are reserved, and within which limits. */
export interface Reserving {
  readonly run: RunRef;
  readonly limits: JobLimits;
  readonly outage: Outage;
}

/**
 * Makes what reserves each call of a job's run before it is sent; it rejects once a limit leaves nothing. While the warehouse
 * can't be reached it waits: nothing is sent that isn't reserved.
 */
export function reserveIn(
  db: Db,
  endpoint: string,
  { run, limits, outage }: Reserving,
): (call: CallToReserve<LookupRecord>) => Promise<number> {
  return async ({ callId, attempt, startedAt, items }) => {
    crashPoint("before_reserve");
    const recordHashes = items.map((record) => record.sentHash);
    const call = { callId, endpoint, attempt, startedAt, recordHashes, limits };
    const { granted, limitedBy } = await outage.outlast(() => reserveCall(db, run, call));
    crashPoint("after_reserve");
    if (limitedBy !== null) {
      const code = nameOfLimit(limits, limitedBy);
      throw new LimitReachedError(code, `${run.job}: ${code} leaves no further record to send.`);
    }
    return granted;
  };
}
