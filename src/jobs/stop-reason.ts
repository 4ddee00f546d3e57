import { InterruptedError, LockLostError } from "../errors.ts";

/** Why a job that was told to stop stops: another process has it, or the user wants it. */
export function stopReason({ reason }: AbortSignal): Error {
  return reason instanceof LockLostError ? reason : new InterruptedError("Stopped by a signal.");
}
