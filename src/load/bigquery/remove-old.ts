import { sql } from "kysely";
import { tableNamed } from "../../schemas/registry.ts";
import type { Retention } from "../retention-warehouse.ts";
import { tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** Removes what has grown too old, one table after the other. */
export async function removeOld(
  session: Session,
  retentions: readonly Retention[],
): Promise<Readonly<Record<string, number>>> {
  const removed: Record<string, number> = {};
  for (const { rule, keepMs } of retentions) {
    const table = tableId(session.names, tableNamed(rule.table).room, rule.table);
    const age = sql.id(rule.age);
    const columns = (rule.keepNewestOf ?? []).map((name) => sql.id(name));
    const group = sql.join(columns);
    const named = sql.join(columns.map((column) => sql`${column} AS ${column}`));
    // As text, in which nulls are equal.
    const isNewest = rule.keepNewestOf
      ? sql` AND TO_JSON_STRING(STRUCT(${named}, ${age} AS ${age})) NOT IN (
          SELECT TO_JSON_STRING(STRUCT(${named}, MAX(${age}) AS ${age})) FROM ${table} WHERE ${age} IS NOT NULL GROUP BY ${group})`
      : sql``;
    const ms = sql.raw(String(Math.round(keepMs)));
    if (rule.noteIn) {
      const until = sql`TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL ${ms} MILLISECOND)`;
      const note = sql.id(rule.noteIn);
      // Before they go, so that a crash in between leaves nothing untold.
      await session.change(sql`
        UPDATE ${tableId(session.names, "ops", "warehouse_identity")}
        SET ${note} = GREATEST(IFNULL(${note}, ${until}), ${until}), _synced_at = CURRENT_TIMESTAMP()
        WHERE EXISTS (SELECT 1 FROM ${table} WHERE ${age} < ${until})`);
    }
    removed[rule.table] = await session.change(sql`
      DELETE FROM ${table} WHERE ${age} < TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL ${ms} MILLISECOND)${isNewest}`);
  }
  return removed;
}
