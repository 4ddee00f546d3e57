import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type RawBuilder, sql } from "kysely";
import type { Client } from "pg";
import { isDuplicate, isNotFound } from "../../src/load/bigquery/failure.ts";
import type { Session } from "../../src/load/bigquery/session.ts";
import { loadFile, stagingName } from "../../src/load/bigquery/staging.ts";
import { columnType } from "../../src/load/bigquery/ddl.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import { tables } from "../../src/schemas/registry.ts";
import type { Room, Table } from "../../src/schemas/table.ts";

/** A row as the database shows it: every value as text, or null. */
type TextRow = Readonly<Record<string, string | null>>;

/**
 * A Postgres beside BigQuery that holds the same rows in the same tables, so that tests read and change both warehouses with
 * the same SQL: what it reads is fetched from BigQuery before, what it changes is brought there before the warehouse's next
 * deed.
 */
export interface Mirror {
  sql(text: string, params?: readonly unknown[]): Promise<readonly TextRow[]>;
  /** Brings what tests have changed to BigQuery. */
  flush(): Promise<void>;
  /** From now on BigQuery's rows may be other ones. */
  forget(): void;
  /** Fetches every table of ours, or of one dataset: quicker than one by one. */
  prefetch(room?: Room): Promise<void>;
  close(): Promise<void>;
}

const schemas = { person_data: "data", person_data_ops: "ops" } as const;
const OURS = /\b(person_data_ops|person_data)\.(\w+)/g;
const WRITTEN = /\b(?:INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE|ALTER TABLE|CREATE VIEW)\s+(\w+\.\w+)/gi;
const INPUT_SCHEMA = "crm";

/** Types of inputs' columns, by Postgres's name for them. */
const inputTypes: Readonly<Record<string, string>> = {
  bigint: "INT64",
  boolean: "BOOL",
  bytea: "BYTES",
  date: "DATE",
  "double precision": "FLOAT64",
  integer: "INT64",
  jsonb: "JSON",
  numeric: "BIGNUMERIC",
  text: "STRING",
  "timestamp with time zone": "TIMESTAMP",
  "timestamp without time zone": "DATETIME",
  uuid: "STRING",
};

const VIEWS: ReadonlySet<string> = new Set(["identity_link", "table_freshness", "usage_reconciliation"]);

/**
 * Opens a mirror of `session`'s datasets in a migrated Postgres; `client` shows every value as text, and `written` has the tables
 * that the warehouse has written to.
 */
export async function openMirror(
  client: Client,
  options: { readonly session: Session; readonly folder: string; readonly written: Set<string> },
): Promise<Mirror> {
  const { session, folder, written } = options;
  const stale = new Set(tables.map(({ name }) => name));
  const dirty = new Set<string>();
  /** Inputs as they were brought to BigQuery: name and form. */
  const brought = new Set<string>();
  const work = await mkdtemp(join(folder, "mirror-"));
  await client.query("CREATE SCHEMA IF NOT EXISTS mirrored; SET session_replication_role = replica");

  async function fetchTable(table: Table): Promise<void> {
    const rows = await session.rows<Record<string, unknown>>(sql`SELECT * FROM ${idOf(table)}`);
    await fill(`${schemaOf(table.room)}.${table.name}`, table, rows);
    if (rows.length === 0) written.delete(table.name);
    stale.delete(table.name);
  }

  async function fill(target: string, table: Table, rows: readonly Record<string, unknown>[]): Promise<void> {
    await client.query(`DELETE FROM ${target}`);
    const real = rows.filter((row) => table.name !== "job_lock" || row["job"] !== "");
    if (real.length === 0) return;
    const text = `[${real.map((row) => jsonOf(table, row)).join(",")}]`;
    const columns = table.columns.map(({ name }) => `"${name}"`).join(", ");
    await client.query(
      `INSERT INTO ${target} (${columns}) SELECT ${columns} FROM json_populate_recordset(NULL::${target}, $1::json)`,
      [text],
    );
  }

  /** A view is a table in the mirror, made anew each time. */
  async function fetchView(schema: keyof typeof schemas, name: string): Promise<string> {
    const room = schemas[schema];
    const rows = await session.rows<Record<string, unknown>>(
      sql`SELECT * FROM ${sql.id(session.names.project, session.names[room], name)}`,
    );
    await client.query(`DROP TABLE IF EXISTS mirrored.${name};
      CREATE TABLE mirrored.${name} AS SELECT * FROM ${schema}.${name} WITH NO DATA`);
    await client.query(
      `INSERT INTO mirrored.${name} SELECT * FROM json_populate_recordset(NULL::mirrored.${name}, $1::json)`,
      [JSON.stringify(rows)],
    );
    return `mirrored.${name}`;
  }

  async function bringOurs(table: Table): Promise<void> {
    const { rows } = await client.query<{ row: string }>(
      `SELECT row_to_json(t)::text AS row FROM ${schemaOf(table.room)}.${table.name} AS t`,
    );
    if (rows.length === 0) return;
    const lines = rows.map(({ row }) => lineOf(row, bytesOf(table)));
    const columns = table.columns.map(({ name, type }) => ({ name, type: columnType(type) }));
    await load(session.names[table.room], table.name, columns, lines);
    written.add(table.name);
  }

  async function load(
    dataset: string,
    table: string,
    columns: readonly { readonly name: string; readonly type: string }[],
    lines: readonly string[],
  ): Promise<void> {
    if (lines.length <= FEW_ROWS && columns.every(({ type }) => type in cellTexts) && lines.every(isPlain)) {
      await session.change(insertOf(sql.id(session.names.project, dataset, table), columns, lines));
      return;
    }
    const file = join(work, `${dataset}.${table}.ndjson`);
    await writeFile(file, `${lines.join("\n")}\n`);
    await loadFile(session, { file, dataset, table, columns, jobId: stagingName("mirror") });
  }

  let flushing: Promise<void> = Promise.resolve();

  async function flush(): Promise<void> {
    if (dirty.size === 0) return;
    if ([...dirty].some((name) => name.startsWith(`${INPUT_SCHEMA}.`))) await bringInputs();
    const ours = [...dirty].flatMap((name) => {
      const [schema, table] = name.split(".");
      return schema !== INPUT_SCHEMA && table ? [table] : [];
    });
    dirty.clear();
    if (ours.length === 0) return;
    await emptyOurs(ours);
    await Promise.all(tables.filter(({ name }) => ours.includes(name)).map(bringOurs));
  }

  const idOf = ({ room, name }: Table) => sql.id(session.names.project, session.names[room], name);

  async function emptyOurs(names: readonly string[]): Promise<void> {
    const found = tables.filter(({ name }) => names.includes(name));
    const id = idOf;
    const filled = new Set(found.map(({ name }) => name).filter((name) => written.delete(name)));
    const statements = found
      .filter(({ name }) => filled.has(name))
      .map((t) => sql`DELETE FROM ${id(t)} WHERE ${sql.raw(t.name === "job_lock" ? "job != ''" : "TRUE")}`);
    if (filled.has("job_lock")) {
      const { project, ops } = session.names;
      statements.push(sql`DELETE FROM ${sql.id(project, ops, "job_heartbeat")} WHERE TRUE`);
    }
    if (statements.length > 0) await session.script(statements, sql`SELECT 1`);
  }

  /** Makes the inputs' tables anew that tests have changed, and drops those that are gone. */
  async function bringInputs(): Promise<void> {
    const changed = [...dirty].filter((name) => name.startsWith(`${INPUT_SCHEMA}.`));
    const { rows: present } = await client.query<{ name: string }>(
      "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1",
      [INPUT_SCHEMA],
    );
    const names = new Set(present.map(({ name }) => name));
    for (const name of brought) {
      if (names.has(name) && !changed.includes(`${INPUT_SCHEMA}.${name}`)) continue;
      await session.client
        .send({ method: "DELETE", path: `/datasets/${INPUT_SCHEMA}/tables/${name}` })
        .catch((error: unknown) => {
          if (!isNotFound(error)) throw error;
        });
      brought.delete(name);
    }
    for (const name of names) if (!brought.has(name)) await bringInput(name);
  }

  async function bringInput(name: string): Promise<void> {
    const { rows: found } = await client.query<{ name: string; type: string }>(
      `SELECT column_name AS name, data_type AS type FROM information_schema.columns
        WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position`,
      [INPUT_SCHEMA, name],
    );
    const columns = found.map((c) => ({ name: c.name, type: inputTypes[c.type] ?? "STRING" }));
    await makeDataset(session);
    const { project } = session.names;
    await session.client.send({
      method: "POST",
      path: `/datasets/${INPUT_SCHEMA}/tables`,
      body: {
        tableReference: { projectId: project, datasetId: INPUT_SCHEMA, tableId: name },
        schema: { fields: columns },
      },
    });
    brought.add(name);
    const { rows } = await client.query<{ row: string }>(
      `SELECT row_to_json(t)::text AS row FROM ${INPUT_SCHEMA}.${name} AS t`,
    );
    const bytes = new Set(columns.filter(({ type }) => type === "BYTES").map((c) => c.name));
    if (rows.length > 0) {
      await load(
        INPUT_SCHEMA,
        name,
        columns,
        rows.map(({ row }) => lineOf(row, bytes)),
      );
    }
  }

  async function fetchOrEmpty(table: Table): Promise<void> {
    if (written.has(table.name)) await fetchTable(table);
    else await fill(`${schemaOf(table.room)}.${table.name}`, table, []);
    stale.delete(table.name);
  }

  /** Fetches what is out of date; of many tables those with rows. */
  async function fetchStale(room?: Room): Promise<void> {
    const wanted = tables.filter((table) => stale.has(table.name) && (room ?? table.room) === table.room);
    const asked = wanted.filter(({ name }) => written.has(name));
    const filled = asked.length > 0 ? await filledOf(asked) : new Set();
    for (const table of wanted) {
      if (filled.has(table.name)) await fetchTable(table);
      else await fill(`${schemaOf(table.room)}.${table.name}`, table, []);
      stale.delete(table.name);
    }
  }

  async function filledOf(asked: readonly Table[]): Promise<ReadonlySet<string>> {
    const counts = asked.map((table) => sql`SELECT ${table.name} AS name, COUNT(*) AS n FROM ${idOf(table)}`);
    const rows = await session.rows<{ name: string; n: number }>(
      sql`SELECT name FROM (${sql.join(counts, sql.raw(" UNION ALL "))}) WHERE n > 0`,
    );
    return new Set(rows.map(({ name }) => name));
  }

  return {
    prefetch: fetchStale,
    async sql(text, params) {
      let rewritten = text;
      const isClearing = /^\s*DELETE FROM \S+ WHERE true;/i.test(text);
      for (const [whole, schema, name] of text.matchAll(OURS)) {
        if (name === undefined || isClearing) continue;
        const table = tables.find((t) => t.name === name);
        if (table && stale.has(name)) await fetchOrEmpty(table);
        if (VIEWS.has(name)) {
          const copy = await fetchView(schema === "person_data" ? "person_data" : "person_data_ops", name);
          rewritten = rewritten.replace(whole, copy);
        }
      }
      for (const [, name] of text.matchAll(WRITTEN)) if (name !== undefined) dirty.add(name);
      if (/DROP SCHEMA/i.test(text)) dirty.add(`${INPUT_SCHEMA}.`);
      // What a statement leaves unread of a table that it empties is of no interest.
      if (isClearing) stale.clear();
      const result: unknown = await client.query(rewritten, params ? [...params] : undefined);
      // What the driver gives for several statements at once is a list of results, which its types don't say.
      return ((Array.isArray(result) ? result.at(-1) : result) as { readonly rows: readonly TextRow[] }).rows;
    },
    // Deeds that begin at the same time wait for the one that brings what has changed.
    flush() {
      flushing = flushing.catch(() => {}).then(flush);
      return flushing;
    },
    forget() {
      for (const { name } of tables) stale.add(name);
    },
    async close() {
      await rm(work, { recursive: true, force: true });
    },
  };
}

/** So many rows are brought by a statement, which is quicker than a load job. */
const FEW_ROWS = 50;

/** Whether an emulator reads these lines the same way wherever they stand. */
function isPlain(line: string): boolean {
  return /^[\x20-\x5b\x5d-\x7e]*$/.test(line);
}

/** How a column is read from the text of a JSON value, by its type. */
const cellTexts: Readonly<Record<string, (text: string) => string>> = {
  STRING: (text) => text,
  INT64: (text) => `CAST(${text} AS INT64)`,
  BOOL: (text) => `CAST(${text} AS BOOL)`,
  TIMESTAMP: (text) => `CAST(${text} AS TIMESTAMP)`,
  BYTES: (text) => `FROM_BASE64(${text})`,
};

function insertOf(
  table: RawBuilder<unknown>,
  columns: readonly { readonly name: string; readonly type: string }[],
  lines: readonly string[],
): RawBuilder<unknown> {
  const names = columns.map(({ name }) => sql.id(name));
  const cells = columns.map(({ name, type }) =>
    sql.raw(cellTexts[type]?.(`JSON_VALUE(e, '$."${name}"')`) ?? ""),
  );
  return sql`INSERT INTO ${table} (${sql.join(names)}) SELECT ${sql.join(cells)}
    FROM UNNEST(JSON_QUERY_ARRAY(${`[${lines.join(",")}]`})) AS e`;
}

function schemaOf(room: Room): string {
  return room === "data" ? "person_data" : "person_data_ops";
}

async function makeDataset({ client, names }: Session): Promise<void> {
  try {
    const datasetReference = { projectId: names.project, datasetId: INPUT_SCHEMA };
    await client.send({ method: "POST", path: "/datasets", body: { datasetReference } });
  } catch (error) {
    if (!isDuplicate(error)) throw error;
  }
}

/** A row as JSON that Postgres takes; JSON columns as they are, digit for digit. */
function jsonOf({ columns }: Table, row: Readonly<Record<string, unknown>>): string {
  const cells = columns.map(({ name, type }) => `${JSON.stringify(name)}:${cellOf(type, row[name])}`);
  return `{${cells.join(",")}}`;
}

function cellOf(type: ColumnType, value: unknown): string {
  if (value === null || value === undefined) return "null";
  if (type === "json" && typeof value === "string") return value;
  if (type === "bytes" && typeof value === "string") {
    return JSON.stringify(`\\x${Buffer.from(value, "base64").toString("hex")}`);
  }
  // The emulator pads decimals with zeros, which Postgres would keep.
  if (type === "numeric" && typeof value === "string" && value.includes(".")) {
    return JSON.stringify(value.replace(/\.?0+$/, ""));
  }
  return JSON.stringify(value);
}

function bytesOf({ columns }: Table): ReadonlySet<string> {
  return new Set(columns.filter(({ type }) => type === "bytes").map(({ name }) => name));
}

/** A row of Postgres as a line that BigQuery takes; bytes in base64. */
function lineOf(json: string, bytes: ReadonlySet<string>): string {
  if (bytes.size === 0) return json;
  // Postgres made it of a row.
  const row = JSON.parse(json) as Record<string, unknown>;
  for (const name of bytes) {
    const value = row[name];
    if (typeof value === "string") row[name] = Buffer.from(value.slice(2), "hex").toString("base64");
  }
  return JSON.stringify(row);
}
