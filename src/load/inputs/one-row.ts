import { FixConfigurationError } from "../../errors.ts";
import { sql } from "kysely";
import type { Session } from "../db/session.ts";
import { quoteIdentifier } from "../db/names.ts";
import { isInvalidText } from "./input.ts";
import type { Reading } from "./foreign-database.ts";
import { type InputColumn, type InputSource, narrowed } from "./input-source.ts";

/** Without its length, `character` means a single one. */
const UNBOUNDED: Readonly<Record<string, string>> = { character: "bpchar", bit: "varbit" };

/**
 * Narrows an input to the rows with a key, or replaces it by the key in the columns' types. Compares the columns themselves, so
 * that an index is used. The values are settings of the transaction, because a COPY takes no parameters.
 */
export async function narrowToKey(
  session: Session,
  input: InputSource,
  columns: readonly InputColumn[],
  { only: key, isCast }: Pick<Reading, "only" | "isCast">,
): Promise<InputSource> {
  if (!key) return input;
  const values: { readonly column: string; readonly value: string }[] = [];
  for (const [i, name] of input.key.entries()) {
    const setting = `person_etl.key_${i}`;
    const typeName = columns.find((column) => column.name === name)?.typeName ?? "text";
    const value = `current_setting('${setting}')::${UNBOUNDED[typeName] ?? typeName}`;
    await session.rows(sql`SELECT set_config(${setting}, ${key[i] ?? ""}, true)`);
    try {
      await session.rows(sql.raw(`SELECT ${value}`));
    } catch (error) {
      if (!isInvalidText(error)) throw error;
      throw notAKey(input, name, typeName);
    }
    values.push({ column: quoteIdentifier(name), value });
  }
  if (isCast) {
    const cast = values.map(({ column, value }) => `${value} AS ${column}`);
    return { ...input, relation: { sql: `SELECT ${cast.join(", ")}` }, where: null };
  }
  return narrowed(input, values.map(({ column, value }) => `input_row.${column} = ${value}`).join(" AND "));
}

function notAKey({ name }: InputSource, column: string, typeName: string): FixConfigurationError {
  return new FixConfigurationError(
    "bad_key",
    `The key can't be one of the input ${name}: its column ${column} is of type ${typeName}, and the given text is no such value.`,
  );
}
