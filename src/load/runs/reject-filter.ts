import type { RowKey } from "../erasure/people.ts";

/** Selects rejects; an empty list selects all. */
export interface RejectFilter {
  readonly jobs: readonly string[];
  readonly codes: readonly string[];
  readonly rows: readonly RowKey[];
}

/** Rejects of one job and cause. */
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

/** Result of a retry. */
export interface RejectRetry {
  /** Selected rejects. */
  readonly rejects: number;
  /** Selected rejects whose row becomes due in the next run; resolved when the row is answered. */
  readonly due: number;
  /** Rejects resolved immediately, because every run checks their row again. */
  readonly resolved: number;
}
