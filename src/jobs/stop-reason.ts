import { InterruptedError, LockLostError } from "../errors.ts";

/** Error for an aborted job: its lock was lost, or the user stopped it. */
export function stopReason({ reason }: AbortSignal): Error {
  return reason instanceof LockLostError ? reason : new InterruptedError("Stopped by a signal.");
}
