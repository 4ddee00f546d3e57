import { codeOf } from "../../errors.ts";

/** Codes of a conflict with another loader, after which the same commit can succeed when retried. */
const CONFLICTS: ReadonlySet<string> = new Set(["23505", "40001", "40P01", "55P03"]);

/** SQLSTATE classes and system errors of a lost connection or server; 25006: it has become a standby. */
const LOST =
  /^(08...|25006|57P0[1-5]|53300|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENOENT)$/;

/** Data that the database rejects: out of range, not representable, too deep, too long for an index. */
const DATA_FAULT = /^(22...|54000|54001)$/;

/** Refusals that no other value would avoid: a constraint, a column or a trigger that isn't ours. */
const TABLE_FAULT = /^(23...|42...|P0001)$/;

function isLost(error: unknown): boolean {
  if (LOST.test(codeOf(error) ?? "")) return true;
  return (
    error instanceof Error &&
    /Connection terminated|connection timeout|timeout exceeded|not queryable/i.test(error.message)
  );
}

/** Maximum attempts after conflicts. */
const MAX_TRIES = 8;
/** Maximum attempts after lost connections; for longer outages the caller waits. */
const MAX_LOST_TRIES = 4;

/** True if a retry can succeed; `attempt` is 1-based. */
function isRetryable(error: unknown, attempt: number): boolean {
  if (CONFLICTS.has(codeOf(error) ?? "")) return attempt < MAX_TRIES;
  return isLost(error) && attempt < MAX_LOST_TRIES;
}

/** True if a value of the data is invalid, so that other rows can be loaded without it. */
export function isDataFault(error: unknown): boolean {
  return DATA_FAULT.test(codeOf(error) ?? "");
}

/** True if a constraint, a column or a trigger refuses the row, whatever its other values. */
export function isTableFault(error: unknown): boolean {
  return TABLE_FAULT.test(codeOf(error) ?? "");
}

/** Pause before the next attempt. */
function retryPauseMs(error: unknown, attempt: number): number {
  return isLost(error) ? 125 * 2 ** attempt : 10 * attempt;
}

/** Retries work until it succeeds, fails permanently, or runs out of attempts. `attempt` is 1-based. */
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
