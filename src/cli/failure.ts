import type { LineOf } from "../config/config.ts";
import {
  FixConfigurationError,
  InterruptedError,
  JobLockedError,
  LimitReachedError,
  LockLostError,
  OWN_LIMITS,
  type Problem,
  StopJobError,
  StopRunError,
  unexpectedMessage,
} from "../errors.ts";

/** Failure of a command, for JSON output and for messages. */
export interface Failure {
  readonly exitCode: number;
  readonly code: string;
  readonly message: string;
  /** Problems to fix; empty if the message is complete. */
  readonly problems: readonly Problem[];
  /** False for foreign errors, which after a signal count as its consequence. */
  readonly isOurs: boolean;
}

/** Invalid command line. Exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Describes anything thrown: no stack trace, and no text of foreign errors, which may quote a record.
 * @param doing work that an unknown error interrupted
 */
export function failureOf(error: unknown, doing = "running the command"): Failure {
  if (error instanceof UsageError) return failure(2, "usage", error.message);
  if (error instanceof FixConfigurationError) return failure(2, error.code, error.message, error.problems);
  if (error instanceof InterruptedError) return { ...interrupted(130), isOurs: false };
  if (error instanceof LimitReachedError)
    return failure(OWN_LIMITS.includes(error.code) ? 0 : 3, error.code, error.message);
  if (error instanceof LockLostError || error instanceof JobLockedError)
    return failure(4, error.code, error.message);
  if (error instanceof StopRunError || error instanceof StopJobError)
    return failure(1, error.code, error.message);
  if (isSystemError(error)) return { ...explainSystemError(error), isOurs: error.code !== "ABORT_ERR" };
  return {
    ...failure(1, "internal", unexpectedMessage(error, doing)),
    isOurs: false,
  };
}

/** Failure of a command that a signal stopped before its result. */
export function interrupted(exitCode: number): Failure {
  return failure(exitCode, "interrupted", "Stopped by a signal. Committed work is kept.");
}

/** Formats a failure: the message, then each problem with its location and hint. */
export function renderFailure({ message, problems }: Failure): string {
  const lines = [`✗ ${message}`];
  for (const problem of problems) {
    lines.push(`  ${placeOf(problem)}: ${problem.message}`);
    if (problem.hint !== undefined) lines.push(`    → ${problem.hint}`);
  }
  return lines.join("\n");
}

/** Completes problems with their line in the configuration file. */
export function withLines(failure: Failure, lineOf: LineOf): Failure {
  const problems = failure.problems.map((problem) => {
    const line = problem.line ?? lineOf(problem.path);
    return line === null ? problem : { ...problem, line };
  });
  return { ...failure, problems };
}

/** Place of a problem: `jobs.enrich_customers.input (line 14)`. */
export function placeOf({ path, line }: Problem): string {
  return line === undefined ? path : `${path} (line ${line})`;
}

function failure(
  exitCode: number,
  code: string,
  message: string,
  problems: readonly Problem[] = [],
): Failure {
  return { exitCode, code, message, problems, isOurs: true };
}

/** True for an operating system error, whose message contains only a system call and a path. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error && "errno" in error;
}

function explainSystemError(error: NodeJS.ErrnoException): Failure {
  const place = error.path === undefined ? "" : ` at ${error.path}`;
  const { code = "" } = error;
  switch (code) {
    case "ENOSPC":
    case "EDQUOT":
      return failure(
        1,
        "disk_full",
        `The disk is full${place}. Committed work is kept. Free some space and run the command again.`,
      );
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return failure(
        2,
        "no_access",
        `This user has no permission to ${error.syscall ?? "write"}${place} (${code}). Grant it, or choose another path.`,
      );
    case "EMFILE":
    case "ENFILE":
      return failure(1, code, unexpectedMessage(error, ""));
    default:
      return failure(1, "system", `The operating system reported: ${error.message}.`);
  }
}
