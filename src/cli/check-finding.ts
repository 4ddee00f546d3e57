import type { Problem } from "../errors.ts";
import { failureOf } from "./failure.ts";

/** Result of one check. */
export type FindingStatus =
  | "ok"
  /** Works, but is unwise, or can't be told without paying. */
  | "warning"
  /** The user has to mend something: exit code 2. */
  | "wrong"
  /** Something doesn't answer: exit code 1. */
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

const MARKS: Readonly<Record<FindingStatus, string>> = {
  ok: "✓",
  warning: "!",
  wrong: "✗",
  unreachable: "✗",
};

/** One line each, with a second one where there is something to do. */
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

/** Exit code of `check`: what is to be mended outranks what doesn't answer. */
export function exitCodeOfFindings(findings: readonly Finding[]): number {
  if (findings.some(({ status }) => status === "wrong")) return 2;
  return findings.some(({ status }) => status === "unreachable") ? 1 : 0;
}

/** Looks, and makes whatever is thrown a finding too, so that nothing keeps the other looks from being taken. */
export async function attempt(
  subject: string,
  look: () => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await look();
  } catch (error) {
    const { exitCode, message, problems } = failureOf(error);
    if (problems.length > 0) return findingsOf(subject, problems);
    return [{ subject, status: exitCode === 2 ? "wrong" : "unreachable", message }];
  }
}

/** Problems as findings. */
export function findingsOf(subject: string, problems: readonly Problem[]): readonly Finding[] {
  return problems.map(({ path, message, hint }) => ({
    subject,
    status: "wrong",
    message: `${path}: ${message}`,
    ...(hint === undefined ? {} : { hint }),
  }));
}
