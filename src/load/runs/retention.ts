import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { asWriter } from "./lock.ts";
import type { RetentionRule } from "../../schemas/registry.ts";

export interface Retention {
  readonly rule: RetentionRule;
  readonly keepMs: number;
}

/** Removes rows past their retention, in one transaction; registers as a writer only if there are any. */
export async function removeOld(
  db: Db,
  retentions: readonly Retention[],
): Promise<Readonly<Record<string, number>>> {
  const none = Object.fromEntries(retentions.map(({ rule }) => [rule.table, 0]));
  const found = await db.transaction((session) => hasOldRows(session, retentions));
  return found ? asWriter(db, "retention", (session) => removeRows(session, retentions)) : none;
}

async function hasOldRows(session: Session, retentions: readonly Retention[]): Promise<boolean> {
  for (const retention of retentions) {
    const [old] = await session.rows(sql`SELECT FROM ${oldRows(session.names, retention)} LIMIT 1`);
    if (old) return true;
  }
  return false;
}

/** Time before which rows are past their retention; the ledger loses whole UTC months, by which prices and allowances count. */
function limitOf({ rule, keepMs }: Retention): RawBuilder<unknown> {
  const limit = sql`now() - ${keepMs} * interval '1 millisecond'`;
  return rule.noteIn ? sql`date_trunc('month', (${limit}) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'` : limit;
}

/** FROM clause and condition of the rows past their retention. */
function oldRows(names: SchemaNames, retention: Retention): RawBuilder<unknown> {
  const { rule } = retention;
  const table = tableId(names, rule.table);
  const age = sql.id(rule.age);
  const isNewest = rule.keepNewestOf
    ? sql`OR NOT EXISTS (SELECT FROM ${table} AS n WHERE n.${age} > t.${age}
        AND ${sql.join(
          rule.keepNewestOf.map((name) => sql`n.${sql.id(name)} IS NOT DISTINCT FROM t.${sql.id(name)}`),
          sql` AND `,
        )})`
    : sql``;
  return sql`${table} AS t WHERE t.${age} < ${limitOf(retention)} AND NOT (false ${isNewest})`;
}

async function removeRows(
  session: Session,
  retentions: readonly Retention[],
): Promise<Readonly<Record<string, number>>> {
  const removed: Record<string, number> = {};
  for (const retention of retentions) {
    const { rule } = retention;
    const rows = await session.change(sql`DELETE FROM ${oldRows(session.names, retention)}`);
    if (rule.noteIn && rows > 0) {
      const note = sql.id(rule.noteIn);
      await session.change(sql`
        UPDATE ${session.table("warehouse_identity")}
        SET ${note} = greatest(${note}, ${limitOf(retention)}), _synced_at = now()`);
    }
    removed[rule.table] = rows;
  }
  return removed;
}
