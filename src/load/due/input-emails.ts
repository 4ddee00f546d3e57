import { sql } from "kysely";
import { raw } from "../inputs/input.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { ownsKey } from "./shard-rows.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/**
 * Updates `input_email` from the temporary table `input_address`: writes only rows that differ and belong to the shard.
 * Keeps rows whose key has left the input. Returns the number of rows written or removed.
 */
export async function syncInputEmails(
  session: Session,
  names: SchemaNames,
  { input: { name: source }, shard }: LookupSpec,
): Promise<number> {
  const table = tableId(names, "input_email");
  const removed = await session.change(sql`
    DELETE FROM ${table} AS t
    WHERE t.source = ${source} AND ${raw(ownsKey(shard, "t.source_key"))}
      AND EXISTS (SELECT FROM pg_temp.input_address AS a WHERE a.source_key = t.source_key)
      AND NOT EXISTS (SELECT FROM pg_temp.input_address AS a WHERE a.copy = 1
        AND NOT a.is_suppressed AND a.source_key = t.source_key AND a.position = t.position AND a.email_address IS NOT NULL)`);
  const written = await session.change(sql`
    INSERT INTO ${table} AS t (source, source_key, position, email_address, _synced_at, _run_id)
    SELECT ${source}, source_key, position, email_address, now(), current_setting('person_etl.run_id')
    FROM pg_temp.input_address
    WHERE copy = 1 AND NOT is_suppressed AND ${raw(ownsKey(shard, "source_key"))} AND source_key IS NOT NULL AND octet_length(source_key) <= 2000 AND email_address IS NOT NULL
    ORDER BY source_key COLLATE "C", position
    ON CONFLICT (source, source_key, position) DO UPDATE
      SET email_address = excluded.email_address, _synced_at = excluded._synced_at, _run_id = excluded._run_id
      WHERE t.email_address <> excluded.email_address`);
  return removed + written;
}
