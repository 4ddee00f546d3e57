import { LimitReachedError } from "../errors.ts";
import type { SendDecision } from "./lookup/decide.ts";
import type { JobServices, RunRequest } from "./services.ts";
import { stopReason } from "./stop-reason.ts";

/** Asks the user for confirmation if required; throws if nothing may be sent. */
export async function agree(
  services: Pick<JobServices, "signal">,
  job: string,
  request: Pick<RunRequest, "yes" | "confirm">,
  decision: SendDecision,
): Promise<void> {
  if (decision.kind === "send") return;
  if (decision.kind === "stop")
    throw new LimitReachedError("parameters_changed", `${job}: ${decision.message}`);
  if (request.yes) return;
  const reason = `${job}: ${decision.reason}`;
  if (!request.confirm) {
    throw new LimitReachedError(
      "confirmation",
      `${reason}. Nothing was sent; run again with --yes to confirm.`,
    );
  }
  const agreed = await request.confirm(`${reason}. Continue?`);
  if (services.signal.aborted) throw stopReason(services.signal);
  if (!agreed)
    throw new LimitReachedError("confirmation", `${reason}. Nothing was sent, because you declined.`);
}
