import { failureOf } from "../failure.ts";
import type { Problem } from "../../errors.ts";

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
