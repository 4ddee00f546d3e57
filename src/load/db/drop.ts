import { sql } from "kysely";
import { codeOf, FixConfigurationError } from "../../errors.ts";
import { tables } from "../../schemas/registry.ts";
import { views } from "../../schemas/views/all-views.ts";
import { listSampleTables } from "./copy.ts";
import { readInputViews } from "./input-views.ts";
import { quoteQualified, type SchemaNames, tableId } from "./names.ts";
import { type LockWait, migrationLock, type Session, tableLock, waitForLock } from "./session.ts";

/** What a warehouse consists of in one schema. */
export interface SchemaContent {
  readonly name: string;
  readonly tables: number;
  readonly views: number;
  /** Names of tables and views of others, which stay. */
  readonly foreign: readonly string[];
}

interface Found {
  readonly schema: string;
  readonly name: string;
  /** `table`, `view`, `sequence`, or `function`. */
  readonly kind: "table" | "view" | "sequence" | "function";
  /** Quoted. */
  readonly text: string;
}

/** Reads everything in the schemas of a warehouse. */
function readFound(session: Session): Promise<readonly Found[]> {
  const { data, ops, state } = session.names;
  const kinds = sql`CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END`;
  return session.rows<Found>(sql`
    SELECT n.nspname AS schema, c.relname AS name, ${kinds} AS kind, format('%I.%I', n.nspname, c.relname) AS text
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname IN (${data}, ${ops}, ${state}) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT n.nspname, p.proname, 'function', p.oid::regprocedure::text
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = ${state}`);
}

/** Separates the program's own objects from those of others. The schema `state` has nothing but its own. */
async function separate(session: Session) {
  const { names } = session;
  const declared = [...tables, ...views].map(({ schema, name }) => quoteQualified([names[schema], name]));
  const ofInputs = await readInputViews(session, names.data);
  const known = new Set([
    ...declared,
    ...ofInputs.map(({ name }) => quoteQualified([names.data, name])),
    quoteQualified([names.ops, "publication"]),
  ]);
  const found = await readFound(session);
  const isOwn = ({ schema, name }: Found) =>
    schema === names.state || known.has(quoteQualified([schema, name]));
  return { own: found.filter(isOwn), foreign: found.filter((one) => !isOwn(one)) };
}

/** Content of a warehouse by schema, and its tables of sample rows, quoted. */
export async function readContent(session: Session) {
  const { own, foreign } = await separate(session);
  const { data, ops, state } = session.names;
  const schemas = [data, ops, state].map((name): SchemaContent => {
    const count = (kind: Found["kind"]) =>
      own.filter((one) => one.schema === name && one.kind === kind).length;
    const others = foreign.filter(({ schema }) => schema === name).map(({ text }) => text);
    return { name, tables: count("table"), views: count("view"), foreign: others };
  });
  const [people = 0] = await session.pluck<number>(
    sql`SELECT count(*)::int FROM ${tableId(session.names, "person")}`,
  );
  return { schemas, people, sampleTables: await listSampleTables(session) };
}

/** Locks the jobs until the end of the transaction: none can be started, and a heartbeat waits. */
export async function lockJobs(session: Session): Promise<void> {
  await waitForLock(session, { ...migrationLock(session.names), purpose: "removing the warehouse" });
  await waitForLock(session, {
    ...tableLock(session.names.state, "job_lock"),
    purpose: "removing the warehouse",
  });
}

/** Drops everything of a warehouse, and the tables of sample rows. Returns the schemas that stay, because others use them. */
export async function dropEverything(session: Session): Promise<readonly string[]> {
  const { own } = await separate(session);
  const { data, ops, state } = session.names;
  const samples = await listSampleTables(session);
  const textsOf = (kind: Found["kind"]) => own.filter((one) => one.kind === kind).map(({ text }) => text);
  // Each waits for its readers. A table belongs to no view after the first statement, a function to no trigger after the second.
  await dropAll(session, "VIEW", textsOf("view"));
  await dropAll(session, "TABLE", [...textsOf("table"), ...samples]);
  await dropAll(session, "SEQUENCE", textsOf("sequence"));
  await dropAll(session, "FUNCTION", textsOf("function"));
  const left: string[] = [];
  for (const schema of [data, ops, state]) {
    if (!(await dropSchema(session, schema))) left.push(schema);
  }
  return left;
}

/** SQLSTATEs: other objects depend on it; it belongs to another role. */
const IN_USE = "2BP01";
const NOT_OWNER = "42501";

async function dropAll(session: Session, kind: string, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  try {
    await waitForLock(session, {
      take: sql.raw(`DROP ${kind} IF EXISTS ${names.join(", ")}`),
      holders: readersOf(session.names),
      purpose: "removing the warehouse",
    });
  } catch (error) {
    if (codeOf(error) !== IN_USE) throw error;
    const detail = error instanceof Error && "detail" in error ? String(error.detail) : "";
    throw new FixConfigurationError(
      "trial_in_use",
      "Objects of others depend on the trial's tables and views. Nothing was removed.",
      [
        {
          path: "warehouse",
          message: detail.replaceAll("\n", "; "),
          hint: "drop these objects, and run again",
        },
      ],
      { cause: error },
    );
  }
}

function readersOf({ data, ops, state }: SchemaNames): LockWait["holders"] {
  return sql`SELECT l.pid FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE l.granted AND n.nspname IN (${data}, ${ops}, ${state})
      AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())`;
}

/** Drops an empty schema; false if something of others is in it, or an administrator owns it. */
async function dropSchema(session: Session, name: string): Promise<boolean> {
  await session.client.query("SAVEPOINT before_schema");
  try {
    await session.change(sql`DROP SCHEMA IF EXISTS ${sql.id(name)}`);
    return true;
  } catch (error) {
    const code = codeOf(error) ?? "";
    if (code !== IN_USE && code !== NOT_OWNER) throw error;
    await session.client.query("ROLLBACK TO SAVEPOINT before_schema");
    return false;
  }
}
