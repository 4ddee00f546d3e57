import type { RetentionRule } from "../../schemas/retention.ts";

/** A rule and its retention period. */
export interface Retention {
  readonly rule: RetentionRule;
  readonly keepMs: number;
}
