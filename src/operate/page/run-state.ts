import { isSuccess } from "../../load/runs/success.ts";
import type { StateKind } from "./elements.ts";

/** End of a run of a job, as shown. */
interface RunState {
  readonly kind: StateKind;
  /** `succeeded`, `limited (budget)`. */
  readonly text: string;
  /** Higher for what needs more attention. */
  readonly rank: number;
}

/** Returns how the end of a run is shown. */
export function runState(run: { readonly status: string; readonly limited_by: string | null }): RunState {
  const { status, limited_by: limit } = run;
  const text = limit === null ? status : `${status} (${limit})`;
  if (isSuccess({ status, limitedBy: limit })) return { kind: "good", text, rank: 0 };
  if (status === "running") return { kind: "busy", text, rank: 1 };
  if (status === "failed") return { kind: "bad", text, rank: 3 };
  return { kind: "warn", text, rank: 2 };
}
