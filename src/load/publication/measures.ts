import { sql } from "kysely";
import type { ColumnType } from "../../schemas/field.ts";
import { quoteIdentifier, quoteLiteral, type SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { FileFormat } from "./copy-files.ts";
import { type PublishableTable, sourceText, stateText } from "./names.ts";
import { writtenValue } from "./row-query.ts";

/** Count and contents of a table; see `Measure` of `src/publish`. */
export interface SourceMeasure {
  readonly table: string;
  readonly rows: bigint;
  readonly hash: string;
}

const micros = (value: string) =>
  `(extract(epoch FROM date_trunc('second', ${value}))::bigint * 1000000 + extract(microseconds FROM ${value})::bigint % 1000000)`;

/** Texts of values for the hash of a row; by default the value's own. */
const hashed: Partial<Readonly<Record<ColumnType, (value: string) => string>>> = {
  date: (value) => `(${value} - DATE '1970-01-01')`,
  timestamp: micros,
  timestamptz: micros,
  "text[]": (value) => `coalesce(array_to_string(${value}, E'\\x01'), '')`,
};

function hashText({ columns }: PublishableTable, format: FileFormat): string {
  const texts = columns.map(({ name, type }) => {
    const column = `t.${quoteIdentifier(name)}`;
    if (type === "json" && format === "json") return `CASE WHEN ${column} IS NOT NULL THEN '' END`;
    const value = type === "bytes" ? `encode(${column}, 'hex')` : writtenValue(type, column);
    return `${hashed[type]?.(value) ?? value}::text`;
  });
  const md5 = `md5(array_to_string(ARRAY[${texts.join(", ")}], E'\\x01', E'\\x02'))`;
  return `coalesce(sum(('x0' || left(${md5}, 15))::bit(64)::bigint), 0)::text`;
}

/** Counts the rows of tables and hashes their contents. */
export async function readMeasures(
  session: Session,
  names: SchemaNames,
  tables: readonly PublishableTable[],
  format: FileFormat,
): Promise<readonly SourceMeasure[]> {
  const measures: SourceMeasure[] = [];
  for (const table of tables) {
    const [row] = await session.rows<{ rows: number; hash: string }>(
      sql.raw(
        `SELECT count(*) AS rows, ${hashText(table, format)} AS hash FROM ${sourceText(names, table)} AS t`,
      ),
    );
    measures.push({ table: table.name, rows: BigInt(row?.rows ?? 0), hash: row?.hash ?? "0" });
  }
  return measures;
}

/** Records the outcome of a comparison. */
export async function recordVerification(
  session: Session,
  names: SchemaNames,
  destination: string,
  differing: readonly string[],
): Promise<void> {
  await session.change(
    sql`UPDATE ${sql.raw(stateText(names, "destination"))}
      SET last_verified_at = now(), tables_differing = ${[...differing]}::text[] WHERE name = ${sql.raw(quoteLiteral(destination))}`,
  );
}

/** Makes the next publication end with a batch without pending changes, even if nothing has changed. */
export async function requestSnapshot(
  session: Session,
  names: SchemaNames,
  destination: string,
): Promise<void> {
  await session.change(
    sql`UPDATE ${sql.raw(stateText(names, "destination"))} SET needs_freshness = true WHERE name = ${destination}`,
  );
}
