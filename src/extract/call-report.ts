/** What a call told about the service's mood. */
export type CallReport =
  /** An answer. */
  | { readonly kind: "answered" }
  /** Another 4xx: the service is well, it only minds this request. */
  | { readonly kind: "declined" }
  /** 429: too fast, or the quota is used up. */
  | { readonly kind: "refused"; readonly startedAtMs: number; readonly afterMs: number }
  /** 503. */
  | { readonly kind: "unavailable" }
  /** No connection. */
  | { readonly kind: "not_sent"; readonly code: string }
  /** Anything else: it was reached, which is all that it tells. */
  | { readonly kind: "other" };
