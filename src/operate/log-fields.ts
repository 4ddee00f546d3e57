import { codeOf } from "../errors.ts";

/** Log fields of a thrown value: class and code only, since drivers quote values in their messages. */
export function describeForLog(error: unknown): {
  readonly error_name: string;
  readonly code: string | null;
} {
  return { error_name: error instanceof Error ? error.name : typeof error, code: codeOf(error) };
}
