import { sql } from "kysely";
import { postgresTypes } from "../db/ddl.ts";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import {
  type CopiedFiles,
  copyToFiles,
  type FileFormat,
  type PublishableTable,
  rowQuery,
  sourceText,
} from "./rows.ts";

/** Rows per range; a snapshot is held only while one range is read. */
const RANGE_ROWS = 200_000;

/** Last key of a range, as a JSON array; null at the end of the table. */
export type RangeEnd = string | null;

/** Range of a table in files. */
export interface Range extends CopiedFiles {
  readonly end: RangeEnd;
}

/** Options of {@link copyRange}. */
interface RangeOptions {
  /** End of the range before; null for the first one. */
  readonly after: RangeEnd;
  /** Prefix of the files' paths. */
  readonly prefix: string;
  readonly format: FileFormat;
}

/**
 * Copies the next range of a table by key, in the caller's REPEATABLE READ transaction. Passes bounds as settings, because
 * keys of people must not appear in statement texts.
 */
export async function copyRange(
  session: Session,
  table: PublishableTable,
  { after, prefix, format }: RangeOptions,
): Promise<Range> {
  if (table.key.length === 0) {
    return {
      ...(await copyToFiles(session, rowQuery(session.names, table, "", format), prefix, format)),
      end: null,
    };
  }
  const key = table.key.map((name) => `t.${quoteIdentifier(name)}`).join(", ");
  const from = after === null ? "" : `(${key}) > (${bound(table, "from")})`;
  await setBound(session, "from", after);
  const [last] = await session.rows<{ key: string }>(
    sql.raw(
      // The inner query reads the index only; its rows would otherwise all be written as JSON.
      `SELECT jsonb_build_array(${key})::text AS key FROM (SELECT ${key} FROM ${sourceText(session.names, table)} AS t
       ${from === "" ? "" : `WHERE ${from}`} ORDER BY ${key} OFFSET ${RANGE_ROWS - 1} LIMIT 1) AS t`,
    ),
  );
  const end = last?.key ?? null;
  await setBound(session, "to", end);
  const conditions = [from, end === null ? "" : `(${key}) <= (${bound(table, "to")})`].filter(
    (c) => c !== "",
  );
  const where = conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "";
  return {
    ...(await copyToFiles(session, rowQuery(session.names, table, where, format), prefix, format)),
    end,
  };
}

async function setBound(session: Session, name: "from" | "to", key: RangeEnd): Promise<void> {
  await session.rows(sql`SELECT set_config(${`person_etl.${name}`}, ${key ?? ""}, true)`);
}

/** Columns of a bound, cast to the key's types. */
function bound({ key, columns }: PublishableTable, name: "from" | "to"): string {
  const types = new Map(columns.map((c) => [c.name, postgresTypes[c.type]]));
  return key
    .map(
      (column, index) =>
        `(current_setting('person_etl.${name}')::jsonb ->> ${index})::${types.get(column) ?? "text"}`,
    )
    .join(", ");
}
