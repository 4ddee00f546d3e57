import type { World } from "../jobs/world.ts";
import type { TableContents } from "../support/comparable-tables.ts";

/** Keys of input rows with a reject, and the rejected addresses. */
async function affectedKeys(world: World): Promise<ReadonlySet<string>> {
  const rows = await world.rows(`
    SELECT c.id::text AS key FROM crm.customers AS c JOIN person_data.reject AS r ON r.stage <> 'input'
      AND r.source_key IN (c.id::text, c.email, c.work_email)
    UNION SELECT source_key FROM person_data.reject WHERE stage <> 'input'`);
  return new Set(rows.map((row) => String(row["key"])));
}

/** PIDs in the given table's answers to rows without a reject. */
function untouchedPids(contents: TableContents, affected: ReadonlySet<string>): ReadonlySet<string> {
  const rows = [...(contents.get("enrichment") ?? [])].filter(
    ([key]) => !affected.has(key.slice(key.indexOf(" ") + 1)),
  );
  return new Set(
    rows.flatMap(([, row]) => [.../"(p-[^"]+)"/gu[Symbol.matchAll](row)].map((match) => match[1] ?? "")),
  );
}

/**
 * Both contents without rows affected by a reject: the next job sends different content for a row that another one
 * rejected. Keeps only people of unaffected rows.
 */
export async function withoutRejected(
  world: World,
  expected: TableContents,
  actual: TableContents,
): Promise<readonly [TableContents, TableContents]> {
  const affected = await affectedKeys(world);
  const people = untouchedPids(expected, affected);
  const keep = (contents: TableContents): TableContents =>
    new Map(
      [...contents].map(([table, rows]) => {
        const isKept = (key: string) => {
          if (table.startsWith("person")) return people.has(key);
          return !affected.has(key) && !affected.has(key.slice(key.indexOf(" ") + 1));
        };
        return [table, new Map([...rows].filter(([key]) => isKept(key)))];
      }),
    );
  return [keep(expected), keep(actual)];
}
