import { sql } from "kysely";
import { tableNamed } from "../../schemas/registry.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { type ErasureKey, readErasureKey } from "../erasure/key.ts";
import { clearedColumns, erasedSql, isOfSubject, mentionsSubject, namingOf } from "../erasure/subjects.ts";

/**
 * Deletes rows of erased people from a staging table `stage` with columns of a declared table, and clears columns that
 * name them. Returns the number of deleted rows.
 */
export async function removeErasedRows(
  session: Session,
  key: ErasureKey | null,
  { stage, table, columns }: Record<"stage" | "table", string> & { readonly columns: readonly string[] },
): Promise<number> {
  const naming = key && namingOf(tableNamed(table), columns);
  if (!naming) return 0;
  const rows = sql.raw(stage);
  const erased = erasedSql(session.names, key);
  const removed = await session.change(sql`DELETE FROM ${rows} AS t WHERE ${isOfSubject(erased, naming)}`);
  for (const { column, isCleared } of clearedColumns(erased, naming)) {
    await session.change(sql`UPDATE ${rows} AS t SET ${sql.id(column)} = NULL WHERE ${isCleared}`);
  }
  return removed;
}

const kinds = ["pids", "emails", "json", "contents"] as const;

/** Identifiers, JSON texts and contents (hex) that may name people; addresses are normalized. */
export type Named = Readonly<Record<(typeof kinds)[number], string[]>>;

export type Erased = Readonly<Record<keyof Named, ReadonlySet<string>>>;

/** True if someone or something named is erased. */
export function namesErased(erased: Erased, named: Named): boolean {
  return kinds.some((kind) => named[kind].some((value) => erased[kind].has(value)));
}

/** Returns what of the named is erased. */
export async function findErased(
  session: Session,
  key: ErasureKey,
  named: readonly Partial<Named>[],
): Promise<Erased> {
  const is = erasedSql(session.names, key);
  const tests = {
    pids: is.pid("v"),
    emails: is.email("v"),
    json: mentionsSubject(is, "v::jsonb"),
    contents: is.content("decode(v, 'hex')"),
  };
  const found: { kind: keyof Erased; value: string }[] = await session.rows(
    sql.join(
      kinds.map((kind) => {
        const values = [...new Set(named.flatMap((one) => one[kind] ?? []))];
        return sql`SELECT ${sql.lit(kind)} AS kind, v AS value FROM unnest(${values}::text[]) AS u(v) WHERE ${tests[kind]}`;
      }),
      sql` UNION ALL `,
    ),
  );
  const of = (kind: keyof Erased) =>
    new Set(found.filter((one) => one.kind === kind).map(({ value }) => value));
  return { pids: of("pids"), emails: of("emails"), json: of("json"), contents: of("contents") };
}

export async function findErasedPids(
  session: Session,
  key: ErasureKey | null,
  pids: readonly string[],
): Promise<ReadonlySet<string>> {
  if (key === null || pids.length === 0) return new Set();
  return (await findErased(session, key, [{ pids: [...pids] }])).pids;
}

export async function readErasedPids(db: Db, pids: readonly string[]): Promise<ReadonlySet<string>> {
  return db.transaction(async (session) =>
    findErasedPids(session, await readErasureKey(session, db.readErasureSecret), pids),
  );
}
