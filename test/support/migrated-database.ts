import { Client } from "pg";
import { inject } from "vitest";
import { createDatabase, type TestDatabase } from "./fresh-database.ts";

/** Databases that no test is using. Files of one process share them; the last ones are dropped after all tests. */
const free: Known[] = [];

interface Known {
  readonly database: TestDatabase;
  /** State right after `migrate`. */
  readonly state: State;
}

/** Objects and rows of a migrated database. */
interface State {
  /** One line per schema, relation, column, constraint, trigger, function and setting. */
  readonly objects: readonly string[];
  /** Rows as text, by table; only tables that have rows. */
  readonly rows: Readonly<Record<string, string>>;
}

/** Returns a migrated database: one of an earlier test, if it can be restored exactly, or a new one. */
export async function takeMigratedDatabase(): Promise<TestDatabase> {
  const used = free.pop();
  if (used && (await restore(used))) return lend(used);
  await used?.database.release();
  const template = inject("migratedTemplate");
  const database = await createDatabase(inject("postgresUrl"), template, `${template}_`);
  return lend({ database, state: await withClient(database.url, readState) });
}

function lend(known: Known): TestDatabase {
  return {
    ...known.database,
    async release() {
      free.push(known);
    },
  };
}

/** Removes remains of a test. Returns false if anything except rows, work tables and triggers differs. */
async function restore({ database, state }: Known): Promise<boolean> {
  try {
    return await withClient(database.url, async (client) => {
      await client.query("SET lock_timeout = '5s'; SET client_min_messages = warning");
      await endOtherSessions(client);
      const before = new Set(state.objects);
      const objects = await readObjects(client);
      const isAdded = (object: ObjectRow) => !before.has(lineOf(object));
      await dropAll(client, objects.filter(isAdded));
      await removeRows(
        client,
        objects.filter((object) => !isAdded(object)),
        Object.keys(state.rows),
      );
      return JSON.stringify(await readState(client)) === JSON.stringify(state);
    });
  } catch {
    // Dropping the database ends any session in it.
    return false;
  }
}

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Sessions at work or with a lock; idle ones of the file's own pool stay, with warm caches. */
const OTHERS = `FROM pg_stat_activity AS s WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (state IS DISTINCT FROM 'idle' OR EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = s.pid))`;

async function endOtherSessions(client: Client): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const { rowCount } = await client.query(`SELECT pg_terminate_backend(pid) ${OTHERS}`);
    if (rowCount === 0) return;
  }
}

/** Namespaces other than Postgres's own. */
const NAMESPACES =
  "(SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema')";

const OBJECTS = `
  SELECT 'schema' AS kind, format('%I', nspname) AS name, nspacl::text AS detail
    FROM pg_namespace WHERE oid IN ${NAMESPACES}
  UNION ALL SELECT concat('relation ', relkind), format('%s', oid::regclass), concat_ws(' ', relpersistence, relacl, reloptions)
    FROM pg_class WHERE relnamespace IN ${NAMESPACES}
  UNION ALL SELECT 'columns', format('%s', attrelid::regclass), md5(string_agg(concat_ws(' ', attnum, attname, atttypid, atttypmod,
      attnotnull, atthasdef, attisdropped, attacl), ',' ORDER BY attnum))
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE attnum > 0 AND relkind IN ('r', 'p', 'v') AND relnamespace IN ${NAMESPACES} GROUP BY attrelid
  UNION ALL SELECT 'constraints', conrelid::text,
      md5(string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid)), ',' ORDER BY conname))
    FROM pg_constraint WHERE connamespace IN ${NAMESPACES} GROUP BY conrelid
  UNION ALL SELECT 'trigger', format('%I ON %s', tgname, tgrelid::regclass), tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT 'function', oid::regprocedure::text, concat_ws(' ', md5(prosrc), proacl)
    FROM pg_proc WHERE pronamespace IN ${NAMESPACES}
  UNION ALL SELECT 'extension', extname, extversion FROM pg_extension
  UNION ALL SELECT 'setting', setrole::text, setconfig::text
    FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()`;

interface ObjectRow {
  readonly kind: string;
  readonly name: string;
  readonly detail: string | null;
}

async function readObjects(client: Client): Promise<readonly ObjectRow[]> {
  return (await client.query<ObjectRow>(`SELECT * FROM (${OBJECTS}) AS o ORDER BY kind, name, detail`)).rows;
}

function lineOf({ kind, name, detail }: ObjectRow): string {
  return `${kind} ${name} ${detail}`;
}

async function readState(client: Client): Promise<State> {
  const objects = await readObjects(client);
  const rows: Record<string, string> = {};
  for (const table of await tablesWithRows(client, objects)) {
    const { rows: texts } = await client.query(`SELECT t::text AS row FROM ${table} AS t ORDER BY 1`);
    rows[table] = JSON.stringify(texts);
  }
  return { objects: objects.map(lineOf), rows };
}

/** Ordinary tables with rows. */
async function tablesWithRows(client: Client, objects: readonly ObjectRow[]): Promise<readonly string[]> {
  const tests = objects
    .filter(({ kind }) => kind === "relation r")
    .map(({ name }) => `SELECT '${name}' AS name WHERE EXISTS (SELECT FROM ${name})`);
  const { rows } = await client.query<{ name: string }>(`${tests.join(" UNION ALL ")} ORDER BY 1`);
  return rows.map(({ name }) => name);
}

const DROPS: Readonly<Record<string, (name: string) => string>> = {
  trigger: (name) => `DROP TRIGGER IF EXISTS ${name}`,
  schema: (name) => `DROP SCHEMA IF EXISTS ${name} CASCADE`,
  "relation r": (name) => `DROP TABLE IF EXISTS ${name} CASCADE`,
  "relation v": (name) => `DROP VIEW IF EXISTS ${name} CASCADE`,
};

/** Drops objects in order of their dependencies. */
async function dropAll(client: Client, objects: readonly ObjectRow[]): Promise<void> {
  const named = (kind: string) => objects.filter((object) => object.kind === kind).map(({ name }) => name);
  for (const [kind, drop] of Object.entries(DROPS))
    for (const name of named(kind)) await client.query(drop(name));
}

/** Deletes the rows of all tables except the kept ones, and restarts all sequences. */
async function removeRows(
  client: Client,
  objects: readonly ObjectRow[],
  kept: readonly string[],
): Promise<void> {
  const filled = (await tablesWithRows(client, objects)).filter((name) => !kept.includes(name));
  const { rows } = await client.query<{ name: string }>(
    "SELECT format('%I.%I', schemaname, sequencename) AS name FROM pg_sequences WHERE last_value IS NOT NULL",
  );
  const deletes = filled.map((name) => `DELETE FROM ${name}`);
  const restarts = rows.map(({ name }) => `ALTER SEQUENCE ${name} RESTART`);
  await client.query([...deletes, ...restarts, "SELECT 1"].join("; "));
}
