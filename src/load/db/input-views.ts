import { sql } from "kysely";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import {
  inputOfLinkView,
  isRelationName,
  type KeyColumn,
  type KeyType,
  keyValues,
  linkView,
} from "../../schemas/views/link-input.ts";
import { profileView } from "../../schemas/views/profile-input.ts";
import type { View } from "../../schemas/views/view.ts";
import type { Db } from "./db.ts";
import { commentsOf, createView, postgresTypes } from "./ddl.ts";
import { quoteIdentifier, quoteQualified, type SchemaNames, tableText } from "./names.ts";
import { migrationLock, type PostgresSession, tableLock, waitForLock } from "./session.ts";

/** SQLSTATE of a view that other objects depend on. */
const IN_USE = "2BP01";

const typeNames: ReadonlyMap<string, KeyType> = new Map(
  (["integer", "text", "uuid", "date", "timestamp", "timestamptz"] as const).map((type) => [
    postgresTypes[type],
    type,
  ]),
);

/** An input with views. */
interface LinkedInput {
  readonly input: string;
  /** Key columns by the names of its link view, in order. */
  readonly key: readonly KeyColumn[];
}

/** Views of an input: its matches, and what is known about them. Those are left out whose names are too long for Postgres. */
export function viewsOf({ input, key }: LinkedInput): readonly View[] {
  return [linkView(input, key), profileView(input, key)].filter(({ name }) => isRelationName(name));
}

/** Columns of a stored view, in order, with their types. */
interface StoredView {
  readonly view: string;
  readonly columns: readonly string[];
  readonly types: readonly string[];
}

const readViews = (session: PostgresSession, schema: string) =>
  session.rows<StoredView>(sql`
    SELECT c.relname::text AS view, array_agg(a.attname::text ORDER BY a.attnum) AS columns,
      array_agg(format_type(a.atttypid, NULL) ORDER BY a.attnum) AS types
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE n.nspname = ${schema} AND c.relkind = 'v' AND (starts_with(c.relname, 'link_') OR starts_with(c.relname, 'profile_'))
    GROUP BY c.relname ORDER BY c.relname COLLATE "C"`);

/** Reads the inputs that have a link view, former ones included. */
async function readLinkedInputs(session: PostgresSession, schema: string): Promise<readonly LinkedInput[]> {
  return (await readViews(session, schema)).flatMap(({ view, columns, types }) => {
    const key = columns.slice(0, -3).flatMap((name, i): readonly KeyColumn[] => {
      const type = typeNames.get(types[i] ?? "");
      return type === undefined ? [] : [{ name, type }];
    });
    const isOurs = key.length > 0 && columns.slice(-3).join() === "service_pid,match_score,matched_at";
    return isOurs && view.startsWith("link_") ? [{ input: inputOfLinkView(view), key }] : [];
  });
}

/** Reads the views of inputs as stored, those of former inputs included. */
export async function readInputViews(session: PostgresSession, schema: string): Promise<readonly View[]> {
  return (await readLinkedInputs(session, schema)).flatMap(viewsOf);
}

/** Creates or replaces the views of all inputs that have a link view, after an upgrade. */
export async function upgradeInputViews(session: PostgresSession, names: SchemaNames): Promise<void> {
  await waitForLock(session, { ...migrationLock(names), purpose: "upgrading the views of inputs" });
  for (const linked of await readLinkedInputs(session, names.data))
    await createViews(session, names, { ...linked, views: viewsOf(linked) });
}

async function createViews(
  session: PostgresSession,
  names: SchemaNames,
  { key, views }: Pick<LinkedInput, "key"> & { readonly views: readonly View[] },
): Promise<void> {
  // First, since it takes seconds, in which the views can still be read.
  await indexKey(session, names, key);
  for (const view of views) {
    for (const statement of [createView(view, names), ...commentsOf(view, "VIEW", names)]) {
      await session.change(sql.raw(statement));
    }
  }
}

/** Creates the indexes with which the views find a key. Inputs whose keys have the same types share them. */
async function indexKey(
  session: PostgresSession,
  names: SchemaNames,
  key: readonly KeyColumn[],
): Promise<void> {
  const types = key.map(({ type }) => type).join("_");
  // The primary key begins with it.
  if (types === "text") return;
  for (const table of ["resolution", "enrichment"]) {
    const [schema, name] = [quoteIdentifier(names.data), quoteIdentifier(`${table}_by_${types}`)];
    // An owner other than this role may create them by itself.
    const isWanted = await session.pluck<number>(sql`
      SELECT 1 FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass(${tableText(names, table)})
        AND pg_has_role(c.relowner, 'USAGE') AND to_regclass(${`${schema}.${name}`}) IS NULL`);
    if (isWanted.length === 0) continue;
    const values = keyValues("postgres", key).map((value) => `(${value})`);
    await waitForLock(session, {
      ...tableLock(names.data, table),
      take: sql.raw(`CREATE INDEX ${name} ON ${tableText(names, table)} (${values.join(", ")})`),
      purpose: `indexing the keys in ${table}`,
    });
    // Without the number of keys, the planner expects thousands of rows of each.
    await session.change(sql.raw(`ANALYZE ${tableText(names, table)}`));
  }
}

/** A view as Postgres stores it. */
function storedForm({ name, columns }: View): StoredView {
  return {
    view: name,
    columns: columns.map((column) => column.name),
    types: columns.map(({ type }) => postgresTypes[type]),
  };
}

/** Creates the views of an input, or recreates them if the names or types of its key have changed. */
export async function renewInputViews(db: Db, linked: LinkedInput): Promise<void> {
  const wanted = viewsOf(linked);
  const readOutdated = async (session: PostgresSession) => {
    const stored = await readViews(session, db.names.data);
    const texts = new Set(stored.map((view) => JSON.stringify(view)));
    return wanted.filter((view) => !texts.has(JSON.stringify(storedForm(view))));
  };
  // A view that is read all day must not be locked for nothing.
  if ((await db.transaction(readOutdated)).length === 0) return;
  try {
    await db.transaction(async (session) => {
      await waitForLock(session, {
        ...migrationLock(db.names),
        purpose: `creating the views of the input ${linked.input}`,
      });
      const outdated = await readOutdated(session);
      if (outdated.length === 0) return;
      // Before the views are locked.
      await indexKey(session, db.names, linked.key);
      for (const { name } of outdated)
        await session.change(sql.raw(`DROP VIEW IF EXISTS ${quoteQualified([db.names.data, name])}`));
      await createViews(session, db.names, { ...linked, views: outdated });
    });
  } catch (error) {
    const dependents = dependentsOf(error);
    throw dependents === null ? error : inUse(linked, dependents, error);
  }
}

/** Objects that kept Postgres from dropping a view, in its own words; null for another error. */
function dependentsOf(error: unknown): string | null {
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    if (codeOf(cause) === IN_USE) return "detail" in cause ? String(cause.detail) : "";
  }
  return null;
}

function inUse({ input, key }: LinkedInput, dependents: string, cause: unknown): FixConfigurationError {
  const columns = key.map(({ name, type }) => `${name} (${type})`).join(", ");
  return new FixConfigurationError(
    "view_in_use",
    `The key of the input ${input} has changed, and its views can't be created again.`,
    [
      {
        path: `inputs.${input}.key`,
        message: `now has the columns ${columns}; ${dependents.replaceAll("\n", "; ")}`,
        hint: "drop these objects, run again, and create them for the new columns",
      },
    ],
    { cause },
  );
}
