import { codeOf } from "../../errors.ts";

/**
 * Codes after which the same commit can succeed as a merge: another loader was first, or in the way; or a run has
 * dropped its work table meanwhile, in which an erasure wanted to look (42P01).
 */
const CONFLICTS: ReadonlySet<string> = new Set(["23505", "40001", "40P01", "42P01", "55P03"]);

/** SQLSTATE classes and system errors of a connection or a server that went away. */
const LOST = /^(08...|57P0[1-5]|53300|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENOENT)$/;

/** Data that the database refuses: out of range, not representable, too deep, too long for an index. */
const DATA_FAULT = /^(22...|23502|54000|54001)$/;

function isLost(error: unknown): boolean {
  if (LOST.test(codeOf(error) ?? "")) return true;
  return (
    error instanceof Error &&
    /Connection terminated|connection timeout|timeout exceeded|not queryable/i.test(error.message)
  );
}

/** Tries of work that meets conflicts. */
const MAX_TRIES = 8;
/** A session that was ended is replaced at once; how long to wait for a server that is gone, the caller decides. */
const MAX_LOST_TRIES = 4;

/** Whether the same work can succeed when tried again; `attempt` counts from 1. */
export function isRetryable(error: unknown, attempt: number): boolean {
  if (CONFLICTS.has(codeOf(error) ?? "")) return attempt < MAX_TRIES;
  return isLost(error) && attempt < MAX_LOST_TRIES;
}

/** Whether a value of the data is at fault, so that its neighbours can be loaded without it. */
export function isDataFault(error: unknown): boolean {
  return DATA_FAULT.test(codeOf(error) ?? "");
}

/** How long to wait before the next try. */
export function retryPauseMs(error: unknown, attempt: number): number {
  return isLost(error) ? 125 * 2 ** attempt : 10 * attempt;
}

/** Does some work until it succeeds, fails for good, or has failed too often. `attempt` counts from 1. */
export async function withRetries<Result>(
  pause: (milliseconds: number) => Promise<void>,
  work: (attempt: number) => Promise<Result>,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work(attempt);
    } catch (error) {
      if (!isRetryable(error, attempt)) throw error;
      await pause(retryPauseMs(error, attempt));
    }
  }
}
