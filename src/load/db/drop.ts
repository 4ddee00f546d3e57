import { sql } from "kysely";
import { codeOf, FixConfigurationError, StopRunError } from "../../errors.ts";
import { tables } from "../../schemas/registry.ts";
import { views } from "../../schemas/views/all-views.ts";
import type { InputSource } from "../inputs/input.ts";
import { markerName } from "../publication/registration.ts";
import { stateTables } from "../publication/rows.ts";
import { findSampleTables } from "./copy.ts";
import { readInputViews } from "./input-views.ts";
import { CALL_NUMBERS, quoteQualified, type SchemaNames, tableId } from "./names.ts";
import {
  type LockWait,
  MIGRATION_TABLE,
  migrationLock,
  type Session,
  tableLock,
  waitForLock,
} from "./session.ts";

const PURPOSE = "removing the warehouse";

/** Parts of a warehouse in one schema. */
export interface SchemaContent {
  readonly name: string;
  readonly tables: number;
  readonly views: number;
  /** Names of what others have in it, which stays. */
  readonly foreign: readonly string[];
}

/** `other` is never the program's. */
type Kind = "table" | "view" | "sequence" | "trigger function" | "other";

interface Found {
  readonly schema: string;
  readonly name: string;
  readonly kind: Kind;
  /** Quoted. */
  readonly text: string;
}

/** Condition: the object isn't a part of an extension, which is listed itself. */
const isNoPart = (catalog: string, oid: string) =>
  sql.raw(`NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d
    WHERE d.classid = '${catalog}'::regclass AND d.objid = ${oid} AND d.deptype = 'e')`);

/** Reads everything in the schemas of a warehouse, except parts of other objects. */
function readFound(session: Session): Promise<readonly Found[]> {
  const { data, ops, state } = session.names;
  const isHere = sql`n.nspname IN (${data}, ${ops}, ${state})`;
  const kind = sql`CASE WHEN c.relkind IN ('r', 'p') THEN 'table' WHEN c.relkind = 'v' THEN 'view' WHEN c.relkind = 'S' THEN 'sequence' ELSE 'other' END`;
  return session.rows<Found>(sql`
    SELECT n.nspname AS schema, c.relname AS name, ${kind} AS kind, format('%I.%I', n.nspname, c.relname) AS text
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE ${isHere} AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c') AND ${isNoPart("pg_class", "c.oid")}
      AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')))
    UNION ALL
    SELECT n.nspname, p.proname,
      CASE WHEN p.prorettype = 'trigger'::regtype AND p.pronargs = 0 THEN 'trigger function' ELSE 'other' END,
      p.oid::regprocedure::text
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE ${isHere} AND ${isNoPart("pg_proc", "p.oid")}
    UNION ALL
    SELECT n.nspname, t.typname, 'other', format('%I.%I', n.nspname, t.typname)
    FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
    WHERE ${isHere} AND t.typtype IN ('e', 'd', 'r') AND ${isNoPart("pg_type", "t.oid")}
    UNION ALL
    SELECT n.nspname, e.extname, 'other', format('extension %I', e.extname)
    FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
    WHERE ${isHere}
    ORDER BY 1, 2`);
}

const keyOf = (kind: Kind, schema: string, name: string) => `${kind} ${quoteQualified([schema, name])}`;

/** Separates the program's own objects, by their names and kinds, from those of others. */
async function separate(session: Session) {
  const { names } = session;
  const { data, ops, state } = names;
  const known = new Set([
    ...tables.map(({ schema, name }) => keyOf("table", names[schema], name)),
    ...[...stateTables, MIGRATION_TABLE].map((name) => keyOf("table", state, name)),
    ...views.map(({ schema, name }) => keyOf("view", names[schema], name)),
    ...(await readInputViews(session, data)).map(({ name }) => keyOf("view", data, name)),
    keyOf("view", ops, "publication"),
    keyOf("sequence", state, CALL_NUMBERS),
    ...tables.map(({ name }) => keyOf("trigger function", state, markerName(name))),
  ]);
  const found = await readFound(session);
  const isOwn = ({ kind, schema, name }: Found) => known.has(keyOf(kind, schema, name));
  return { own: found.filter(isOwn), foreign: found.filter((one) => !isOwn(one)) };
}

/** Reads what a warehouse consists of, by schema; `inputs` may name tables of sample rows. */
export async function readContent(session: Session, inputs: readonly Pick<InputSource, "relation">[]) {
  const { own, foreign } = await separate(session);
  const { data, ops, state } = session.names;
  const schemas = [data, ops, state].map((name): SchemaContent => {
    const count = (kind: Kind) => own.filter((one) => one.schema === name && one.kind === kind).length;
    const others = foreign.filter(({ schema }) => schema === name).map(({ text }) => text);
    return { name, tables: count("table"), views: count("view"), foreign: others };
  });
  const [people = 0] = await session.pluck<number>(
    sql`SELECT count(*)::int FROM ${tableId(session.names, "person")}`,
  );
  const [erasures = 0] = await session.pluck<number>(
    sql`SELECT count(DISTINCT erasure_id)::int FROM ${tableId(session.names, "erasure_subject")}`,
  );
  return { schemas, people, erasures, samples: await findSampleTables(session, inputs) };
}

/**
 * Locks the jobs, the recorded service and the erasures until the end of the transaction: no job can be started, and a heartbeat waits.
 * Returns the recorded service; null if there is none.
 */
export async function lockWarehouse(session: Session): Promise<string | null> {
  const { names, query } = session;
  await waitForLock(session, { ...migrationLock(names), purpose: PURPOSE });
  await waitForLock(session, { ...tableLock(names.state, "job_lock"), purpose: PURPOSE });
  await waitForLock(session, { ...tableLock(names.ops, "warehouse_identity"), purpose: PURPOSE });
  await waitForLock(session, { ...tableLock(names.state, "erasure_request"), purpose: PURPOSE });
  const [host = null] = await session.pluck(
    query.selectFrom("ops.warehouse_identity").select("service_host"),
  );
  return host;
}

/**
 * Drops everything of a warehouse, and the tables of sample rows with these names, unless their rows were changed. Returns the schemas
 * that stay, because others use them.
 */
export async function dropEverything(
  session: Session,
  inputs: readonly Pick<InputSource, "relation">[],
  confirmed: readonly string[],
): Promise<readonly string[]> {
  const { data, ops, state } = session.names;
  for (const name of confirmed) {
    await waitForLock(session, {
      take: sql.raw(`LOCK TABLE ${name} IN ACCESS EXCLUSIVE MODE`),
      holders: sql`SELECT pid FROM pg_catalog.pg_locks WHERE granted AND relation = to_regclass(${name})`,
      purpose: PURPOSE,
    });
  }
  const samples = (await findSampleTables(session, inputs)).filter(({ isUnchanged }) => isUnchanged);
  const names = samples.map(({ name }) => name).filter((name) => confirmed.includes(name));
  if (names.length < confirmed.length) {
    throw new StopRunError(
      "warehouse_changed",
      "A table of sample rows was changed while you confirmed. Nothing was removed. Run again.",
    );
  }
  const { own } = await separate(session);
  const textsOf = (kind: Kind) => own.filter((one) => one.kind === kind).map(({ text }) => text);
  // Each waits for its readers. A table belongs to no view after the first statement, a function to no trigger after the second.
  await dropAll(session, "VIEW", textsOf("view"));
  await dropAll(session, "TABLE", [...new Set([...textsOf("table"), ...names])]);
  await dropAll(session, "SEQUENCE", textsOf("sequence"));
  await dropAll(session, "FUNCTION", textsOf("trigger function"));
  const left: string[] = [];
  for (const schema of [data, ops, state]) {
    // Every database has this one, with rights that wouldn't come back.
    if (schema === "public" || !(await dropSchema(session, schema))) left.push(schema);
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
      purpose: PURPOSE,
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
