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

/** What a warehouse tells of usage. Lists are empty before the migration that makes their tables. */
export interface UsageWarehouse {
  /** The organization whose feeds were read first, by the service's id; null while none is known. */
  readOrganization(): Promise<string | null>;
  /**
   * Up to a day (`YYYY-MM-DD`, inclusive), the one after the last stored day of an organization's person search that is
   * final; the first stored one where none is, null where none is stored.
   */
  firstOpenSearchDay(orgId: string, upTo: string): Promise<string | null>;
  readQuotas(): Promise<readonly StoredQuota[]>;
  /** Newest first, at most a hundred. */
  readGaps(): Promise<readonly StoredGap[]>;
}
