import { sql } from "kysely";
import { quoteLiteral, type SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { type PublishableTable, sourceText, stateText } from "./names.ts";

/** Count and sum of a table. */
export interface SourceMeasure {
  readonly table: string;
  readonly rows: bigint;
  /** Sum of `_synced_at` in microseconds since the epoch; `0` without rows or without that column. */
  readonly syncedAtMicros: string;
}

const MICROS = `coalesce(sum(CASE WHEN t._synced_at BETWEEN TIMESTAMPTZ '0001-01-01 00:00:00+00' AND TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'
  THEN extract(epoch FROM date_trunc('second', t._synced_at))::numeric * 1000000
    + extract(microseconds FROM t._synced_at)::bigint % 1000000 END), 0)`;

/** Counts the rows of tables and sums their `_synced_at`. */
export async function readMeasures(
  session: Session,
  names: SchemaNames,
  tables: readonly PublishableTable[],
): Promise<readonly SourceMeasure[]> {
  const measures: SourceMeasure[] = [];
  for (const table of tables) {
    const sum = table.columns.some(({ name }) => name === "_synced_at") ? MICROS : "0";
    const [row] = await session.rows<{ rows: number; micros: string }>(
      sql.raw(
        `SELECT count(*) AS rows, trim_scale((${sum})::numeric)::text AS micros FROM ${sourceText(names, table)} AS t`,
      ),
    );
    measures.push({ table: table.name, rows: BigInt(row?.rows ?? 0), syncedAtMicros: row?.micros ?? "0" });
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
