/** The newest reading of an organization's quota of person search. */
export interface StoredQuota {
  readonly orgId: string;
  readonly observedAt: string;
  /** Records per UTC day; null where the service didn't say. */
  readonly limit: number | null;
  readonly left: number | null;
}

/** A span of a feed that can't be read any more. */
export interface StoredGap {
  readonly job: string;
  readonly stream: string;
  /** Inclusive. */
  readonly gapStart: string;
  /** Exclusive. */
  readonly gapEnd: string;
  readonly noticedAt: string;
}
