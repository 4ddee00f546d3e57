import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { stagedSql } from "./subjects.ts";

/** Kinds whose content is an address. */
const IS_ADDRESS = "kind LIKE 'validate_emails:%'";

/** Condition: the content of a validation is a staged address. */
const isStagedAddress = (alias: string): RawBuilder<unknown> =>
  sql`CASE WHEN ${sql.raw(`${alias}.${IS_ADDRESS}`)} THEN ${stagedSql.email(`convert_from(${alias}.content, 'UTF8')`)} ELSE false END`;

/** Condition: a content was of an erased row. */
const isErased = (alias: string) =>
  sql`${sql.id(alias)}.content IN (SELECT content FROM pg_temp.erased_content)`;

/**
 * Removes what is due and what was answered for the staged subjects, before their rows of `lookup_row`: the contents of their input
 * rows that no other row has (left in `pg_temp.erased_content`), records that name them, and answers with their PIDs.
 */
export async function removeLookupState(session: Session, names: SchemaNames): Promise<void> {
  const row = tableId(names, "lookup_row");
  const isTheirs = sql`((r.source, r.source_key) IN (SELECT source, source_key FROM pg_temp.erased_row) OR ${stagedSql.email("r.source_key")})`;
  await session.client.query(
    "CREATE TEMP TABLE IF NOT EXISTS erased_content (content bytea PRIMARY KEY) ON COMMIT DROP; TRUNCATE pg_temp.erased_content",
  );
  await session.change(sql`INSERT INTO pg_temp.erased_content SELECT DISTINCT r.content FROM ${row} AS r
    WHERE r.content IS NOT NULL AND ${isTheirs}`);
  await session.change(
    sql`DELETE FROM pg_temp.erased_content AS c USING ${row} AS r WHERE r.content = c.content AND NOT ${isTheirs}`,
  );
  await session.change(sql`DELETE FROM ${tableId(names, "lookup_due")} AS d
    WHERE ${isErased("d")} OR ${isStagedAddress("d")} OR ${stagedSql.pid("d.sent_service_pid")}
      OR CASE WHEN d.record LIKE '{%' THEN ${stagedSql.pid("(d.record::json ->> 'service_pid')")}
        OR EXISTS (SELECT FROM json_array_elements_text(d.record::json -> 'emails') AS e(e) WHERE ${stagedSql.email("e.e")}) ELSE false END`);
  await session.change(sql`DELETE FROM ${tableId(names, "lookup_answer")} AS a
    WHERE ${isErased("a")} OR ${isStagedAddress("a")} OR ${stagedSql.pid("a.service_pid")} OR ${stagedSql.pid("a.sent_service_pid")}`);
}
