import { codeOf } from "../errors.ts";

/** What a log line tells of something thrown: class and code. Drivers quote values in their messages. */
export function describeForLog(error: unknown): {
  readonly error_name: string;
  readonly code: string | null;
} {
  return { error_name: error instanceof Error ? error.name : typeof error, code: codeOf(error) };
}
