import type { RetentionRule } from "../schemas/retention.ts";

/** A rule, and how long what it speaks of is kept. */
export interface Retention {
  readonly rule: RetentionRule;
  readonly keepMs: number;
}

/** The part of a warehouse that removes what is no longer kept. */
export interface RetentionWarehouse {
  /** Removes rows that are older than they are kept, by the warehouse's clock; returns how many of each table. */
  removeOld(retentions: readonly Retention[]): Promise<Readonly<Record<string, number>>>;
}
