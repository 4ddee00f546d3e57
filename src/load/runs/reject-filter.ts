import type { RowKey } from "../erasure/people.ts";

/** Which rejects are meant; an empty list means all. */
export interface RejectFilter {
  readonly jobs: readonly string[];
  readonly codes: readonly string[];
  readonly rows: readonly RowKey[];
}

/** Rejects of one job for one cause. */
export interface RejectGroup {
  readonly job: string;
  readonly stage: string;
  readonly code: string;
  readonly rejects: number;
  readonly firstAt: string;
  readonly lastAt: string;
}

/** One reject. */
export interface StoredReject {
  readonly job: string;
  readonly source: string;
  readonly sourceKey: string | null;
  readonly stage: string;
  readonly code: string;
  readonly message: string;
  readonly details: unknown;
  readonly createdAt: string;
  readonly resolvedAt: string | null;
}

/** What a retry has done. */
export interface RejectRetry {
  /** Rejects that it was about. */
  readonly rejects: number;
  /** Of them those whose row is due at the next run; their rejects are resolved when the row is answered. */
  readonly due: number;
  /** Of them those that were resolved, because the next run looks at them anyway and rejects them anew if need be. */
  readonly resolved: number;
}
