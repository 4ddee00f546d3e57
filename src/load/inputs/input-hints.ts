import { FixConfigurationError, type Problem } from "../../errors.ts";
import type { InputSource } from "./input-source.ts";

/** Setting with the location of an input's rows. */
export function settingOf({ relation }: InputSource): "table" | "sql" {
  return "table" in relation ? "table" : "sql";
}

/** Hint for an input that has all columns but can't be queried. */
export function lookAt({ where, orderBy, fields, key }: InputSource): string {
  const types =
    Object.keys(fields).length > 0 ? "the types of the mapped columns" : `the type of ${key.join(", ")}`;
  const settings = [...(where === null ? [] : ["`where`"]), ...(orderBy === null ? [] : ["`order_by`"])];
  return `Check ${[...(settings.length > 0 ? [settings.join(", ")] : []), types].join(" and ")}.`;
}

/** Problem of a cursor that is not a time: low numbers may be committed after higher ones. */
function cursorProblem({ name, cursor }: InputSource, typeName: string): Problem {
  return {
    path: `inputs.${name}.cursor`,
    message: `${cursor?.column ?? ""} is of type ${typeName}, but a cursor must be a date or a time`,
    hint: "Remove `cursor`: then every row is compared.",
  };
}

/** Problems of the cursor's type. @param temporal matches the types of dates and times */
export function cursorProblems(
  input: InputSource,
  typeName: string | undefined,
  temporal: RegExp,
): readonly Problem[] {
  return typeName === undefined || temporal.test(typeName) ? [] : [cursorProblem(input, typeName)];
}

/** Throws unless the cursor is a date or a time. */
export function requireTemporal(input: InputSource, typeName: string | undefined, temporal: RegExp): void {
  const problems = cursorProblems(input, typeName, temporal);
  if (problems.length === 0) return;
  throw new FixConfigurationError("bad_cursor", `The cursor of input ${input.name} can't be used.`, problems);
}
