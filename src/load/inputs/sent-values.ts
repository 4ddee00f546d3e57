import { FENCE } from "./foreign-input.ts";
import { BLANKS } from "./input-fields.ts";
import type { InputSource, Part } from "./input-source.ts";
import { isSentSql, trimmedSql } from "./normalize.ts";

/** The expression, or NULL if it is empty or blank. */
function blankToNull(expression: string): string {
  return `CASE WHEN btrim(${expression}, '${BLANKS}') <> '' THEN ${expression} END`;
}

function elements({ name }: Part): string {
  return `unnest(${name}::text[]) WITH ORDINALITY AS u(e, o)`;
}

/** Values of raw rows as they are sent. */
interface SentValues {
  /** Each part by its name: a text, or a `text[]` without nulls; blanks as NULL. */
  readonly columns: readonly string[];
  /** FROM item over `raw_row`, with all of its columns. */
  readonly from: string;
}

/** Values of the raw rows in `raw_row` as they are sent. Only here `normalize` applies, before anything is hashed or compared. */
export function sentValues(
  parts: readonly Part[],
  { normalize }: Pick<InputSource, "normalize">,
): SentValues {
  if (!normalize) {
    const columns = parts.map((part) =>
      part.isArray
        ? `ARRAY(SELECT e FROM ${elements(part)} WHERE ${blankToNull("e")} IS NOT NULL ORDER BY o) AS ${part.name}`
        : `${blankToNull(part.name)} AS ${part.name}`,
    );
    return { columns, from: "raw_row" };
  }
  // Not fenced, values would be trimmed once per use.
  const trimmed = parts
    .filter(({ isArray }) => !isArray)
    .map(({ field, name }) => `, ${trimmedSql(field, name)} AS trimmed_${name}`);
  const columns = parts.map((part) => {
    const { field, name } = part;
    if (!part.isArray)
      return `CASE WHEN ${isSentSql(field, `trimmed_${name}`)} THEN trimmed_${name} END AS ${name}`;
    const texts = `SELECT ${trimmedSql(field, "e")} AS e, o FROM ${elements(part)} ${FENCE}`;
    return `ARRAY(SELECT e FROM (${texts}) AS t WHERE ${isSentSql(field, "e")} ORDER BY o) AS ${name}`;
  });
  return { columns, from: `(SELECT raw_row.*${trimmed.join("")} FROM raw_row ${FENCE}) AS trimmed_row` };
}
