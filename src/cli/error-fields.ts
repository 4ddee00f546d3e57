import { codeOf, isOwnError, languageOwnMessage } from "../errors.ts";
import { isSystemError, UsageError } from "./failure.ts";

/** Maximum depth of causes, in case of a cycle. */
const MAX_CAUSES = 8;

/**
 * Fields of an error for the log, with its causes. Omits messages of foreign errors, because drivers and parsers quote
 * values in them. Keeps only the locations of the stack trace, because its first lines repeat the message.
 */
export function errorFields(error: unknown, options: { readonly withStack: boolean }): object {
  return describe(error, options.withStack, MAX_CAUSES);
}

function describe(error: unknown, withStack: boolean, causesLeft: number): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const isKnown = error instanceof UsageError || isSystemError(error) || isOwnError(error);
  return {
    type: error.name,
    code: codeOf(error),
    message: isKnown ? error.message : languageOwnMessage(error),
    ...(withStack ? { places: placesOf(error) } : {}),
    ...(error.cause !== undefined && causesLeft > 0
      ? { cause: describe(error.cause, withStack, causesLeft - 1) }
      : {}),
  };
}

function placesOf(error: Error): string[] {
  return (error.stack ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => /^at .*:\d+:\d+\)?$/.test(line));
}
