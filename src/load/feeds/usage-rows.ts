/** Latest reading of an organization's person search quota. */
export interface StoredQuota {
  readonly orgId: string;
  readonly observedAt: string;
  /** Records per UTC day; null if the service did not report it. */
  readonly limit: number | null;
  readonly left: number | null;
}

/** Period of a feed that can no longer be read. */
export interface StoredGap {
  readonly job: string;
  readonly stream: string;
  /** Inclusive. */
  readonly gapStart: string;
  /** Exclusive. */
  readonly gapEnd: string;
  readonly noticedAt: string;
}
