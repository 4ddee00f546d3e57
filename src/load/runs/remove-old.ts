import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { asWriter } from "./register-writer.ts";
import type { RetentionRule } from "../../schemas/retention.ts";

/** A rule and its retention period. */
export interface Retention {
  readonly rule: RetentionRule;
  readonly keepMs: number;
}

/** Removes rows past their retention, in one transaction. */
export async function removeOld(
  db: Db,
  retentions: readonly Retention[],
): Promise<Readonly<Record<string, number>>> {
  if (retentions.length === 0) return {};
  return asWriter(db, "retention", (session) => removeRows(session, db.names, retentions));
}

async function removeRows(
  session: Session,
  names: SchemaNames,
  retentions: readonly Retention[],
): Promise<Readonly<Record<string, number>>> {
  const removed: Record<string, number> = {};
  for (const { rule, keepMs } of retentions) {
    const table = tableId(names, rule.table);
    const age = sql.id(rule.age);
    const isNewest = rule.keepNewestOf
      ? sql`OR NOT EXISTS (SELECT FROM ${table} AS n WHERE n.${age} > t.${age}
          AND ${sql.join(
            rule.keepNewestOf.map((name) => sql`n.${sql.id(name)} IS NOT DISTINCT FROM t.${sql.id(name)}`),
            sql` AND `,
          )})`
      : sql``;
    const until = sql`now() - ${keepMs} * interval '1 millisecond'`;
    const rows = await session.change(sql`
      DELETE FROM ${table} AS t WHERE t.${age} < ${until} AND NOT (false ${isNewest})`);
    if (rule.noteIn && rows > 0) {
      const note = sql.id(rule.noteIn);
      await session.change(sql`
        UPDATE ${tableId(names, "warehouse_identity")} SET ${note} = greatest(${note}, ${until}), _synced_at = now()`);
    }
    removed[rule.table] = rows;
  }
  return removed;
}
