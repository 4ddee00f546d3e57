/** A change of members between two requests for pages. */
export interface MemberChange {
  readonly add: readonly string[];
  readonly remove: readonly string[];
}

/** Random changes after every request for a page. */
export interface Churn {
  readonly seed: number;
  /** People who never were members, former members and living ones, each so many per page. */
  readonly adds: number;
  readonly readds: number;
  readonly removes: number;
}

/** What is to happen to one segment when pages of it are read. */
export interface PageHooks {
  /** Requests for pages that were answered since the hooks were set. */
  served: number;
  /** Changes by the number of the request (from 1) after which they happen. */
  readonly after: Map<number, MemberChange>;
  churn: Churn | null;
}

/** Nothing happens between two pages. */
export function createPageHooks(): PageHooks {
  return { served: 0, after: new Map(), churn: null };
}
