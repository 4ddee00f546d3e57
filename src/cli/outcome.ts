import { type Failure, failureDocument, renderFailure } from "./failure.ts";

/** Result of a command. */
export interface Outcome {
  /** Printed with `--json`; null if the result was already announced. */
  readonly document: object | null;
  /** Printed without `--json`; no line end at the end. */
  readonly text: string;
  readonly exitCode: number;
  /** Present if the whole command failed. */
  readonly failure?: Failure;
}

/** Outcome of a failed command. `rest` has more keys of its document that programs rely on. */
export function failedOutcome(failure: Failure, rest: object = {}): Outcome {
  return {
    document: { ...rest, error: failureDocument(failure) },
    text: renderFailure(failure),
    exitCode: failure.exitCode,
    failure,
  };
}
