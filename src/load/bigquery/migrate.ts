import { createHash } from "node:crypto";
import { sql } from "kysely";
import PQueue from "p-queue";
import type { Room, Table } from "../../schemas/table.ts";
import {
  bigQueryTables,
  createDataset,
  createTable,
  createView,
  type FieldResource,
  fieldResource,
  schemaMigration,
  tableResource,
  viewsOf,
} from "./ddl.ts";
import { isDuplicate, isNotFound } from "./failure.ts";
import { type DatasetNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";
import { tablesNamed } from "./staging.ts";

/** Requests about tables that run at the same time. */
const PARALLEL = 4;

/** Changes that the declarations alone don't tell, by name, in order; each is done once, and only adds. */
const steps: readonly {
  readonly name: string;
  readonly statements: (names: DatasetNames) => readonly string[];
}[] = [];

/**
 * Creates what is missing of datasets, tables, columns and views; returns what was done. Nothing is ever removed or changed.
 * Safe to call from several processes.
 */
export async function migrate(session: Session): Promise<readonly string[]> {
  const { names } = session;
  const version = versionOf(names);
  const known = await appliedSteps(session);
  const missing = steps.filter(({ name }) => !known?.has(name));
  if (known?.has(version) && missing.length === 0) return [];
  if (known === null) {
    for (const dataset of [names.data, names.ops]) await ensureDataset(session, dataset);
  }
  await createMissing(session);
  for (const { name, statements } of missing) {
    // A new warehouse has by its declarations what an older one gets by steps.
    for (const statement of known === null ? [] : statements(names)) await session.change(sql.raw(statement));
    await note(session, name);
  }
  await ensureLockRow(session);
  await note(session, version);
  return [version, ...missing.map(({ name }) => name)];
}

/** The DDL of an empty warehouse, as `migrate --print` shows it. */
export function printDdl(names: DatasetNames, location: string | null): string {
  const statements = [
    createDataset(names, names.data, location),
    createDataset(names, names.ops, location),
    ...bigQueryTables.map((declared) => createTable(declared, names)),
    ...viewsOf(names).map((view) => createView(view, names)),
  ];
  return `${statements.map((statement) => `${statement};`).join("\n\n")}\n`;
}

/** Whether the tables exist. */
export async function isMigrated(session: Session): Promise<boolean> {
  return hasTable(session, "warehouse_identity");
}

/** Whether a table of the ops dataset exists: a later version may bring one. */
export async function hasTable({ client, names }: Session, table: string): Promise<boolean> {
  try {
    await client.send({ method: "GET", path: `/datasets/${names.ops}/tables/${table}` });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** Stands for all declared tables, columns and views. */
function versionOf(names: DatasetNames): string {
  const ddl = printDdl({ ...names, project: "p", data: "d", ops: "o" }, null);
  return `tables-${createHash("sha256").update(ddl).digest("hex").slice(0, 12)}`;
}

/** Null before the first migration. */
async function appliedSteps(session: Session): Promise<ReadonlySet<string> | null> {
  try {
    const rows = await session.rows<{ name: string }>(
      sql`SELECT name FROM ${tableId(session.names, "ops", schemaMigration.name)}`,
    );
    return new Set(rows.map(({ name }) => name));
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

async function note(session: Session, step: string): Promise<void> {
  await session.change(sql`
    INSERT INTO ${tableId(session.names, "ops", schemaMigration.name)} (name, run_id, applied_at, _synced_at)
    SELECT ${step}, '', CURRENT_TIMESTAMP(), CURRENT_TIMESTAMP()`);
}

/** Who may use a dataset that is there needn't be allowed to make one. */
async function ensureDataset(session: Session, dataset: string): Promise<void> {
  try {
    await session.client.send({ method: "GET", path: `/datasets/${dataset}` });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    await session.change(sql.raw(createDataset(session.names, dataset, session.location)));
  }
}

/** Through the REST interface, without jobs: some milliseconds each. */
async function createMissing(session: Session): Promise<void> {
  const { names } = session;
  const existing = new Map<Room, ReadonlySet<string>>();
  for (const room of ["data", "ops"] as const) {
    existing.set(room, new Set(await tablesNamed(session, "", room)));
  }
  const queue = new PQueue({ concurrency: PARALLEL });
  const work = bigQueryTables.map(
    (declared) => () =>
      existing.get(declared.room)?.has(declared.name)
        ? addColumns(session, declared)
        : insertTable(session, declared),
  );
  await Promise.all(work.map((task) => queue.add(task)));
  for (const view of viewsOf(names)) await session.change(sql.raw(createView(view, names)));
}

async function insertTable({ client, names }: Session, declared: Table): Promise<void> {
  try {
    const path = `/datasets/${names[declared.room]}/tables`;
    await client.send({ method: "POST", path, body: tableResource(declared, names) });
  } catch (error) {
    // Another process makes the same tables.
    if (!isDuplicate(error)) throw error;
  }
}

/** Adds columns that are missing. Two processes that do so at once add the same ones. */
async function addColumns({ client, names }: Session, declared: Table): Promise<void> {
  const path = `/datasets/${names[declared.room]}/tables/${declared.name}`;
  const { schema } = await client.send<{ readonly schema: { readonly fields: readonly FieldResource[] } }>({
    method: "GET",
    path,
  });
  const known = new Set(schema.fields.map(({ name }) => name));
  const missing = declared.columns.filter(({ name }) => !known.has(name));
  if (missing.length === 0) return;
  const fields = [...schema.fields, ...missing.map((c) => fieldResource(c, false))];
  await client.send({ method: "PATCH", path, body: { schema: { fields } } });
}

/** The row that everybody changes who wants a lock, so that they come one after the other (see job-lock.ts). */
async function ensureLockRow(session: Session): Promise<void> {
  const lock = tableId(session.names, "ops", "job_lock");
  await session.change(sql`
    INSERT INTO ${lock} (job, shard, epoch, owner_token, run_id, host, pid, acquired_at, heartbeat_at, expires_at,
      released_at, _synced_at)
    SELECT '', '', 0, '', '', '', 0, CURRENT_TIMESTAMP(), CURRENT_TIMESTAMP(), CURRENT_TIMESTAMP(), CURRENT_TIMESTAMP(),
      CURRENT_TIMESTAMP()
    FROM (SELECT COUNT(*) AS n FROM ${lock} WHERE job = '') WHERE n = 0`);
}
