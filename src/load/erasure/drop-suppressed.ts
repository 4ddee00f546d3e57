import { type RawBuilder, sql } from "kysely";
import type { Table } from "../../schemas/table.ts";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { mentionsAny, type SuppressedSql } from "./suppressed-sql.ts";

/**
 * Deletes rows that name erased people from the staging table of a declared table;
 * clears columns that only mention them. Returns the number of deleted rows.
 */
export async function dropSuppressed(
  session: Session,
  suppressed: SuppressedSql,
  stage: string,
  { table, columns }: { readonly table: Table; readonly columns: readonly string[] },
): Promise<number> {
  const { people } = table;
  if (people === null || typeof people === "string") return 0;
  const own = (names: readonly string[] = []) =>
    names.filter((name) => columns.includes(name)).map(quoteIdentifier);
  for (const column of own(people.clears)) {
    await session.change(
      sql`UPDATE ${sql.raw(stage)} SET ${sql.raw(column)} = NULL WHERE ${suppressed.pid(column)}`,
    );
  }
  const tests: RawBuilder<unknown>[] = [
    ...own(people.pids).map((column) => suppressed.pid(column)),
    ...own(people.emails).map((column) => suppressed.email(column)),
    ...own(people.mentions).map((column) => mentionsAny(column, suppressed)),
    ...(people.isOfInputRow && columns.includes("source") && columns.includes("source_key")
      ? [suppressed.anySourceKey("source", "source_key")]
      : []),
  ];
  if (tests.length === 0) return 0;
  return session.change(sql`DELETE FROM ${sql.raw(stage)} WHERE ${sql.join(tests, sql` OR `)}`);
}
