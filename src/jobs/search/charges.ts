import { randomUUID } from "node:crypto";
import { z } from "zod";
import { choice, settings, wholeNumber } from "../../config/schema/settings.ts";
import { UNLOCK } from "../../config/schema/document.ts";
import { LimitReachedError, OWN_LIMITS, StopJobError } from "../../errors.ts";
import type { FeedContext } from "../feed.ts";
import { limitsOf, reserve } from "../lookup/lookup-spec.ts";
import { priceOf } from "../price.ts";
import { wholeInput } from "../services.ts";
import type { JsonObject } from "../../schemas/flatten.ts";

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
  context: FeedContext,
  endpoint: string,
  { call_id: callId, records }: UnlockIntent,
): Promise<void> {
  const { config, clock, request, job } = context;
  const call = {
    callId,
    endpoint,
    attempt: 1,
    startedAt: new Date(clock.now()).toISOString(),
    records,
    limits: limitsOf(config, { type: UNLOCK, maxRecordsPerRun: null }, request.maxRecords, wholeInput),
    price: priceOf(config, UNLOCK),
    budget: UNLOCK,
    isWhole: true as const,
  };
  const tooFew = (limit: string) =>
    `${job.name}: less is left of ${limit} than the ${records} records that may be billed.`;
  const { granted } = await reserve(context, call, tooFew);
  if (granted !== records) throw new Error(`${granted} of ${records} records of an unlock were reserved`);
}

/** Recommended interval between two readings of a state (section 4.2). */
const [LEAST_MS, MOST_MS] = [2000, 5000];

/**
 * Advances open searches or jobs of the service until none is left, with a pause between two rounds. `open` then has those that are left:
 * the time is over at `endMs`, and the next run resumes. @param advance returns false for one to wait for
 */
export async function pollAll<Item>(
  { clock, random, signal, job, progress }: FeedContext,
  several: Several,
  open: Item[],
  {
    endMs,
    nameOf,
    advance,
  }: {
    readonly endMs: number;
    readonly nameOf: (item: Item) => string;
    readonly advance: (item: Item) => Promise<boolean>;
  },
): Promise<void> {
  await several.attempt(async () => {
    for (let isNoted = false; open.length > 0; ) {
      const unfinished: Item[] = [];
      for (const item of open) {
        await several.attempt(async () => {
          if (!(await advance(item))) unfinished.push(item);
        });
      }
      open.splice(0, open.length, ...unfinished);
      if (open.length === 0) return;
      const names = open.map(nameOf).join(", ");
      if (clock.now() >= endMs) {
        throw new LimitReachedError(
          "deadline",
          `${job.name}: ${names} did not finish in time. The next run resumes.`,
        );
      }
      if (!isNoted) progress.note(job.name, `waiting for the service to finish ${names}`);
      isNoted = true;
      await clock.sleep(LEAST_MS + random() * (MOST_MS - LEAST_MS), signal);
    }
  });
}

type Several = ReturnType<typeof workOnSeveral>;

/** Starts the work of a job on several searches or jobs of the service, where the failure of one doesn't end the others. */
export function workOnSeveral() {
  const failures: StopJobError[] = [];
  const limits: LimitReachedError[] = [];
  return {
    /** Does the work; keeps a StopJobError or LimitReachedError for the end. */
    async attempt(work: () => Promise<unknown>): Promise<void> {
      try {
        await work();
      } catch (error) {
        if (error instanceof StopJobError) failures.push(error);
        else if (error instanceof LimitReachedError) limits.push(error);
        else throw error;
      }
    },
    /** Throws the errors that were kept, if any, as one; a failure outranks a limit. */
    end(): void {
      const message = [...new Set([...failures, ...limits].map((error) => error.message))].join(" ");
      const [failure] = failures;
      if (failure) throw new StopJobError(failure.code, message, { cause: failure });
      // A limit of the service outranks the user's own.
      const limit = limits.find(({ code }) => !OWN_LIMITS.includes(code)) ?? limits[0];
      if (limit) throw new LimitReachedError(limit.code, message, { cause: limit });
    },
  };
}

/** State of a search or contact job, and the code of its error, as a checkpoint keeps them: words, never free text. */
export function stateOf(body: JsonObject, code: unknown) {
  return { status: wordOf(body["status"]) ?? "unknown", error_code: wordOf(code) };
}

function wordOf(value: unknown): string | null {
  return typeof value === "string" && /^\w{1,60}$/u.test(value) ? value : null;
}
