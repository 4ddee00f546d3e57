import type { RetentionRule } from "../../schemas/retention.ts";

/** A rule, and how long what it speaks of is kept. */
export interface Retention {
  readonly rule: RetentionRule;
  readonly keepMs: number;
}
