import type { LookupSpec } from "../lookup.ts";

/** What is to be done about the mapping and parameters of a job. */
export type ParametersDecision =
  | "accepted" // the ones that answers were bought with, or accepted before
  | "first" // nothing was ever bought
  | "undecided" // changed, and the user has not said what to do
  | "resend"
  | "keep";

/** The refresh ages of a job as one text, by which a change of them is noticed. */
export function refreshPolicy(spec: LookupSpec): string {
  return `${spec.refreshAfterMs ?? "never"}/${spec.refreshUnmatchedAfterMs ?? "never"}`;
}
