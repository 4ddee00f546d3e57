import { type Failure, failureDocument, renderFailure } from "./failure.ts";

/** Result of a command, for programs and for people. */
export interface Outcome {
  /** Printed with `--json`; null when the command announced its result already. */
  readonly document: object | null;
  /** Printed without it; without a line end at its end. */
  readonly text: string;
  readonly exitCode: number;
  /** Set when the command as a whole could not do its work. */
  readonly failure?: Failure;
}

/** The outcome of a command that failed; `rest` are further keys of its document, which programs rely on. */
export function failedOutcome(failure: Failure, rest: object = {}): Outcome {
  return {
    document: { ...rest, error: failureDocument(failure) },
    text: renderFailure(failure),
    exitCode: failure.exitCode,
    failure,
  };
}
