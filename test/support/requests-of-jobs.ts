/** Requests that a sandbox received, as its controls report them. */
export interface SeenRequests {
  readonly requests: number;
  /** By method and path. */
  readonly endpoints: Readonly<Record<string, { readonly requests: number }>>;
}

/** Requests of jobs. Before a run with a job that posts, one more requests the organization; the ledger leaves it out. */
export function requestsOfJobs({ requests, endpoints }: SeenRequests): number {
  return requests - (endpoints["GET /person-search/v0/usage"]?.requests ?? 0);
}
