import type { LookupSpec } from "./lookup-spec.ts";

/** Decision about changed mapping or parameters of a job. */
export type ParametersDecision =
  | "accepted" // unchanged, or accepted earlier
  | "first" // nothing was bought yet
  | "undecided" // changed, and not confirmed by the user
  | "resend"
  | "keep";

/** Refresh ages of a job as text, to detect a change. */
export function refreshPolicy(spec: LookupSpec): string {
  return `${spec.refreshAfterMs ?? "never"}/${spec.refreshUnmatchedAfterMs ?? "never"}`;
}
