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
  /** Stable code of the cause. */
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
    const place = problem.line === undefined ? problem.path : `${problem.path} (line ${problem.line})`;
    lines.push(`  ${place}: ${problem.message}`);
    if (problem.hint !== undefined) lines.push(`    → ${problem.hint}`);
  }
  return lines.join("\n");
}

/** Failure as `error` of a command's JSON document. */
export function failureDocument({ code, message, problems }: Failure): object {
  return { code, message, ...(problems.length === 0 ? {} : { problems }) };
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
  if (error.code === "ENOSPC" || error.code === "EDQUOT") {
    return failure(
      1,
      "disk_full",
      `The disk is full${place}. Committed work is kept. Free some space and run the command again.`,
    );
  }
  if (error.code === "EACCES" || error.code === "EPERM" || error.code === "EROFS") {
    return failure(
      2,
      "no_access",
      `This user has no permission to ${error.syscall ?? "write"}${place} (${error.code}). Grant it, or choose another path.`,
    );
  }
  if (error.code === "EMFILE" || error.code === "ENFILE") {
    return failure(1, error.code, unexpectedMessage(error, ""));
  }
  return failure(1, "system", `The operating system reported: ${error.message}.`);
}

/** Result of one check. */
type FindingStatus =
  | "ok"
  /** Works but is risky, or can't be verified for free. */
  | "warning"
  /** The user has to fix something: exit code 2. */
  | "wrong"
  /** Something is unreachable: exit code 1. */
  | "unreachable";

/** One line of `check`. */
export interface Finding {
  /** Subject of the check. */
  readonly subject: string;
  readonly status: FindingStatus;
  readonly message: string;
  /** Next step. */
  readonly hint?: string;
}

/** Builds a finding. */
export function finding(subject: string, status: FindingStatus, message: string, hint?: string): Finding {
  return { subject, status, message, ...(hint === undefined ? {} : { hint }) };
}

const MARKS: Readonly<Record<FindingStatus, string>> = {
  ok: "✓",
  warning: "!",
  wrong: "✗",
  unreachable: "✗",
};

/** Formats each finding as one line, with a second line for the hint. */
export function renderFindings(findings: readonly Finding[]): string {
  const width = Math.max(0, ...findings.map(({ subject }) => subject.length));
  return findings
    .map(({ subject, status, message, hint }) =>
      [
        `${MARKS[status]} ${subject.padEnd(width)}  ${message}`,
        ...(hint === undefined ? [] : [`  ${" ".repeat(width)}  → ${hint}`]),
      ].join("\n"),
    )
    .join("\n");
}

/** Exit code of `check`: problems to fix have precedence over unreachable parts. */
export function exitCodeOfFindings(findings: readonly Finding[]): number {
  if (findings.some(({ status }) => status === "wrong")) return 2;
  return findings.some(({ status }) => status === "unreachable") ? 1 : 0;
}

/** Runs one check and converts a thrown error to a finding, so that the other checks also run. */
export async function attempt(
  subject: string,
  verify: () => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await verify();
  } catch (error) {
    const { exitCode, message, problems } = failureOf(error);
    if (problems.length > 0) return findingsOf(subject, problems);
    return [finding(subject, exitCode === 2 ? "wrong" : "unreachable", message)];
  }
}

/** Converts problems to findings. */
export function findingsOf(subject: string, problems: readonly Problem[]): readonly Finding[] {
  return problems.map(({ path, message, hint }) => finding(subject, "wrong", `${path}: ${message}`, hint));
}
