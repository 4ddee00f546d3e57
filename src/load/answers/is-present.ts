import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { answerTables } from "./load-answers.ts";

/**
 * Marks answers as outdated: the row's content changed, was rejected, or left the input. Returns how many
 * rows changed.
 * @param keys query of the rows' keys
 */
export async function unmarkPresent(
  session: Session,
  names: SchemaNames,
  {
    job,
    type,
    source,
  }: { readonly job: string; readonly type: "resolve" | "enrich"; readonly source: string },
  keys: RawBuilder<unknown>,
): Promise<number> {
  return session.change(sql`
    UPDATE ${tableId(names, answerTables[type].table)} SET is_present = false, _synced_at = now(),
      _run_id = current_setting('person_etl.run_id', true)
    WHERE job = ${job} AND source = ${source} AND is_present AND source_key IN (${keys})`);
}

/** Marks the answers of rows that are back in the input and unmarks those of rows that left it. Returns how many changed. */
export async function comparePresent(
  session: Session,
  names: SchemaNames,
  lookup: { readonly job: string; readonly type: "resolve" | "enrich"; readonly source: string },
): Promise<number> {
  const { job, type, source } = lookup;
  const gone = await unmarkPresent(
    session,
    names,
    lookup,
    sql`SELECT k.source_key FROM pg_temp.known_key AS k
      WHERE NOT EXISTS (SELECT FROM pg_temp.input_key AS i WHERE i.source_key = k.source_key)`,
  );
  // After a complete pass, a matched state belongs to the row's current content.
  const back = await session.change(sql`
    UPDATE ${tableId(names, answerTables[type].table)} AS t SET is_present = true, _synced_at = now(),
      _run_id = current_setting('person_etl.run_id', true)
    FROM ${tableId(names, "lookup_state")} AS s
    WHERE t.job = ${job} AND t.source = ${source} AND NOT t.is_present AND s.job = t.job AND s.source = t.source
      AND s.source_key = t.source_key AND s.outcome = 'matched'
      AND EXISTS (SELECT FROM pg_temp.input_key AS i WHERE i.source_key = t.source_key)`);
  return gone + back;
}
