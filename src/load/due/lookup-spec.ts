import type { InputSource } from "../inputs/input-source.ts";
/** Type of a lookup job. */
export type LookupType = "resolve" | "validate_emails" | "enrich";

/** One of `count` disjoint parts of an input; `index` is 0-based. */
export interface InputShard {
  readonly index: number;
  readonly count: number;
  /**
   * Mapped fields that assign rows to shards, in tiers: the first tier with a value decides, so that rows with equal values
   * share a shard. Rows without any value or with an unusable key are assigned by key; addresses by their own hash.
   */
  readonly by: readonly (readonly string[])[];
}

/** Settings for storing the answers of a job. */
export interface LoadSpec {
  readonly job: string;
  readonly type: LookupType;
  readonly input: Pick<InputSource, "name">;
  /** Milliseconds after which a match (or any answer without `refreshUnmatchedAfterMs`) expires; null for never. */
  readonly refreshAfterMs: number | null;
  readonly refreshUnmatchedAfterMs: number | null;
  /** Hash of the mapping and of the request's parameters. */
  readonly parametersHash: string;
}

/** Settings for selecting and building the records of a job. */
export interface LookupSpec extends LoadSpec {
  readonly input: InputSource;
  /** `resolve` job whose PIDs are also sent. Rows that it hasn't answered yet wait. */
  readonly pidFrom: string | null;
  /** True to skip addresses found `invalid`. */
  readonly dropsInvalidEmails: boolean;
  /** True to send every record again, except rejected ones. */
  readonly resend: boolean;
  /** Confirmation of changed parameters; null without one. */
  readonly acceptParameters: "resend" | "keep" | null;
  /** Maximum records to send; null for all. With a maximum, `order_by` decides which ones. */
  readonly maxRecords: number | null;
  /** Part of the input to read; null for all. */
  readonly shard: InputShard | null;
}
