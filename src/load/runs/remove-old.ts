import type { Db } from "../db/db.ts";
import { sql } from "kysely";
import { tableId } from "../db/names.ts";
import type { RetentionRule } from "../../schemas/retention.ts";

/** A rule and its retention period. */
export interface Retention {
  readonly rule: RetentionRule;
  readonly keepMs: number;
}

/** Removes rows past their retention, one transaction per table. */
export async function removeOld(
  db: Db,
  retentions: readonly Retention[],
): Promise<Readonly<Record<string, number>>> {
  const { names } = db;
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
    removed[rule.table] = await db.transaction(async (session) => {
      const rows = await session.change(sql`
        DELETE FROM ${table} AS t WHERE t.${age} < ${until} AND NOT (false ${isNewest})`);
      if (rule.noteIn && rows > 0) {
        const note = sql.id(rule.noteIn);
        await session.change(sql`
          UPDATE ${tableId(names, "warehouse_identity")} SET ${note} = greatest(${note}, ${until}), _synced_at = now()`);
      }
      return rows;
    });
  }
  return removed;
}
