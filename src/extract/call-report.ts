/** Outcome of a call, to adjust rates and detect outages. */
export type CallReport =
  /** Answered. */
  | { readonly kind: "answered" }
  /** Another 4xx: the service works but rejected this request. */
  | { readonly kind: "declined" }
  /** 429: too fast, or the quota is used up. */
  | { readonly kind: "refused"; readonly startedAtMs: number; readonly afterMs: number }
  /** 503. */
  | { readonly kind: "unavailable" }
  /** No connection. */
  | { readonly kind: "not_sent"; readonly code: string }
  /** Anything else: the service was reached. */
  | { readonly kind: "other" };
