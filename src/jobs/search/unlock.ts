import { randomUUID } from "node:crypto";
import { z } from "zod";
import { choice, wholeNumber } from "../../config/schema/described.ts";
import { UNLOCK } from "../../config/schema/document.ts";
import { settings } from "../../config/schema/settings.ts";
import { crashPoint } from "../../crash-point.ts";
import { LimitReachedError } from "../../errors.ts";
import { reserveCall } from "../../load/ledger/reserve-call.ts";
import type { FeedContext } from "../feed-type.ts";
import { priceOf } from "../price.ts";
import { nameOfLimit } from "../lookup/caps.ts";

/** `never`, or the largest charge that the user accepts. */
export function unlockSetting() {
  const ceiling = settings({ max_billable: wholeNumber(0, Number.MAX_SAFE_INTEGER) });
  return z
    .union([choice(["never"], "or { max_billable: 5000 }"), ceiling])
    .default("never")
    .transform((unlock) => (unlock === "never" ? null : unlock));
}

/** A charge that was reserved before its call, and is not known yet. */
export const unlockIntent = z.object({
  /** Reservation in the ledger. */
  call_id: z.uuid(),
  /** Largest possible charge. */
  records: z.int().min(0),
});

/** Parsed {@link unlockIntent}. */
export type UnlockIntent = Readonly<z.output<typeof unlockIntent>>;

/** Throws if a charge may exceed the ceiling. */
export function checkCeiling(
  subject: string,
  records: number,
  { maxBillable }: { readonly maxBillable: number },
): void {
  if (records <= maxBillable) return;
  throw new LimitReachedError(
    "unlock_ceiling",
    `${subject} may be billed up to ${records} records when unlocked: more than max_billable (${maxBillable}) allows. Nothing was ` +
      "unlocked. Raise max_billable to unlock it.",
  );
}

/** Makes an intent, to be stored before its records are reserved. */
export function newIntent(records: number): UnlockIntent {
  return { call_id: randomUUID(), records };
}

/** Reserves the records of an intent in the budgets, once. Throws a LimitReachedError if a budget lacks some of them. */
export async function reserveIntent(
  { config, db, run, clock, outage, request }: FeedContext,
  endpoint: string,
  { call_id: callId, records }: UnlockIntent,
): Promise<void> {
  crashPoint("before_reserve");
  const limits = {
    ...(config.budgets[UNLOCK] ?? { perDay: null, perMonth: null }),
    perRun: request.maxRecords,
    perShard: null,
    perRunBy: "max_records" as const,
  };
  const startedAt = new Date(clock.now()).toISOString();
  const call = {
    callId,
    endpoint,
    attempt: 1,
    startedAt,
    records,
    limits,
    price: priceOf(config, UNLOCK),
    budget: UNLOCK,
    isWhole: true as const,
  };
  const { granted, limitedBy } = await outage.outlast(() => reserveCall(db, run, call));
  crashPoint("after_reserve");
  if (limitedBy === null) {
    if (granted !== records) throw new Error(`${granted} of ${records} records of an unlock were reserved`);
    return;
  }
  const code = nameOfLimit(limits, limitedBy);
  throw new LimitReachedError(
    code,
    `${run.job}: less is left of ${code} than the ${records} records that may be billed.`,
  );
}
