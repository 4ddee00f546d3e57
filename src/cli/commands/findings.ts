import { failureOf, placeOf, withLines } from "../failure.ts";
import type { LineOf } from "../../config/config.ts";
import type { Problem } from "../../errors.ts";

/** One line of `check`. */
export interface Finding {
  readonly subject: string;
  /**
   * `warning`: works but is risky, or can't be verified for free. `wrong`: the user has to fix something, exit code 2.
   * `unreachable`: exit code 1.
   */
  readonly status: "ok" | "warning" | "wrong" | "unreachable";
  readonly message: string;
  readonly hint?: string;
}

/** Builds a finding; an empty hint is none. */
export function finding(subject: string, status: Finding["status"], message: string, hint = ""): Finding {
  return { subject, status, message, ...(hint === "" ? {} : { hint }) };
}

function findingsOf(subject: string, problems: readonly Problem[]): readonly Finding[] {
  return problems.map((problem) =>
    finding(subject, "wrong", `${placeOf(problem)}: ${problem.message}`, problem.hint),
  );
}

/** Runs one check and converts a thrown error to a finding, so that the other checks also run. */
export async function attempt(
  subject: string,
  lineOf: LineOf,
  verify: () => readonly Finding[] | Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await verify();
  } catch (error) {
    const { exitCode, message, problems } = withLines(failureOf(error), lineOf);
    if (problems.length > 0) return findingsOf(subject, problems);
    return [finding(subject, exitCode === 2 ? "wrong" : "unreachable", message)];
  }
}

const MARKS: Readonly<Record<Finding["status"], string>> = {
  ok: "✓",
  warning: "!",
  wrong: "✗",
  unreachable: "✗",
};

/** Formats each finding as one line, with a second line for the hint. */
export function renderFindings(findings: readonly Finding[]): string {
  const width = Math.max(0, ...findings.map(({ subject }) => subject.length));
  const lines = findings.flatMap(({ subject, status, message, hint }) => [
    `${MARKS[status]} ${subject.padEnd(width)}  ${message}`,
    ...(hint === undefined ? [] : [`  ${" ".repeat(width)}  → ${hint}`]),
  ]);
  return lines.join("\n");
}
