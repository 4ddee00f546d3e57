import { sql } from "kysely";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import { inputOfLinkView, linkView, type KeyColumn, type KeyType } from "../../schemas/views/link-input.ts";
import type { View } from "../../schemas/views/view.ts";
import type { Db } from "./db.ts";
import { commentsOf, createView, postgresTypes } from "./ddl.ts";
import { migrationLock } from "./migrate.ts";
import { quoteQualified } from "./names.ts";
import { type Session, waitForLock } from "./session.ts";

/** SQLSTATE of a view that other objects depend on. */
const IN_USE = "2BP01";

const typeNames: ReadonlyMap<string, KeyType> = new Map(
  (["integer", "text", "uuid", "date", "timestamp", "timestamptz"] as const).map((type) => [
    postgresTypes[type],
    type,
  ]),
);

/** Reads the views of inputs as stored, those of former inputs included. */
export async function readLinkViews(session: Session, schema: string): Promise<readonly View[]> {
  const rows = await session.rows<{ view: string; columns: readonly string[]; types: readonly string[] }>(sql`
    SELECT c.relname::text AS view, array_agg(a.attname::text ORDER BY a.attnum) AS columns,
      array_agg(format_type(a.atttypid, NULL) ORDER BY a.attnum) AS types
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE n.nspname = ${schema} AND c.relkind = 'v' AND starts_with(c.relname, 'link_')
    GROUP BY c.relname ORDER BY c.relname COLLATE "C"`);
  return rows.flatMap(({ view, columns, types }) => {
    const key = columns.slice(0, -3).flatMap((name, i): readonly KeyColumn[] => {
      const type = typeNames.get(types[i] ?? "");
      return type === undefined ? [] : [{ name, type }];
    });
    const isOurs = key.length > 0 && columns.slice(-3).join() === "service_pid,match_score,matched_at";
    return isOurs ? [linkView(inputOfLinkView(view), key)] : [];
  });
}

/** Creates an input's view, or recreates it if the names or types of its key have changed. */
export async function renewLinkView(
  { db, input }: { readonly db: Db; readonly input: string },
  wanted: View,
): Promise<void> {
  const isCurrent = async (session: Session) =>
    (await readLinkViews(session, db.names.data)).some(
      (view) => view.name === wanted.name && JSON.stringify(view.columns) === JSON.stringify(wanted.columns),
    );
  // A view that is read all day must not be locked for nothing.
  if (await db.transaction(isCurrent)) return;
  try {
    await db.transaction(async (session) => {
      await waitForLock(session, {
        ...migrationLock(db.names),
        purpose: `creating the view ${wanted.name}`,
      });
      if (await isCurrent(session)) return;
      await session.change(sql.raw(`DROP VIEW IF EXISTS ${quoteQualified([db.names.data, wanted.name])}`));
      for (const statement of [createView(wanted, db.names), ...commentsOf(wanted, "VIEW", db.names)]) {
        await session.change(sql.raw(statement));
      }
    });
  } catch (error) {
    throw dependentsOf(error) === null ? error : inUse(input, wanted, dependentsOf(error) ?? "", error);
  }
}

/** Objects that kept Postgres from dropping a view, in its own words; null for another error. */
function dependentsOf(error: unknown): string | null {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (codeOf(cause) === IN_USE) return "detail" in cause ? String(cause.detail) : "";
  }
  return null;
}

function inUse(input: string, view: View, dependents: string, cause: unknown): FixConfigurationError {
  return new FixConfigurationError(
    "view_in_use",
    `The key of the input ${input} has changed, and its view ${view.name} can't be created again.`,
    [
      {
        path: `inputs.${input}.key`,
        message: `now has the columns ${view.columns
          .slice(0, -3)
          .map(({ name, type }) => `${name} (${type})`)
          .join(", ")}; ${dependents.replaceAll("\n", "; ")}`,
        hint: `drop these objects, run again, and create them for the new columns of ${view.name}`,
      },
    ],
    { cause },
  );
}
