import type { Client } from "pg";
import { describe, expect, test, onTestFinished } from "vitest";
import { tables } from "../../src/schemas/registry.ts";
import { views } from "../../src/schemas/views/all-views.ts";
import { openPostgresContext } from "./postgres-context.ts";
import { holdJobs, matchAll, runNight } from "./suite/nights.ts";
import { enrichSpec, makePeople } from "./suite/people.ts";
import type { TextRow } from "./suite/context.ts";
import { MIGRATIONS, connect, freshDatabase, open, SCHEMAS } from "./bare-database.ts";

/** Relations without a declaration: the publication's queue and view, and the list of migrations. */
const NOT_DECLARED = [
  "schema_migration",
  "publication",
  "destination",
  "followed_table",
  "dirty_key",
  "claimed_key",
];

/** Columns of tables and views with type, nullability, position in the key and comment. */
async function describeColumns(client: Client, schemas: readonly string[]): Promise<readonly TextRow[]> {
  const { rows } = await client.query<TextRow>(
    `SELECT n.nspname AS schema, c.relname AS table, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
      a.attnotnull AS required, array_position(i.indkey::int2[], a.attnum) AS key,
      col_description(c.oid, a.attnum) AS comment, obj_description(c.oid, 'pg_class') AS table_comment
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
    WHERE n.nspname = ANY($1) AND c.relkind IN ('r', 'v') AND c.relname <> ALL($2)
    ORDER BY n.nspname, c.relname, a.attnum`,
    [schemas, NOT_DECLARED],
  );
  return rows;
}

/** Postgres's name of each declared type; repeated here to detect mistakes in the program's list. */
const typeNames: Readonly<Record<string, string>> = {
  text: "text",
  integer: "bigint",
  position: "integer",
  numeric: "numeric",
  boolean: "boolean",
  date: "date",
  timestamptz: "timestamp with time zone",
  timestamp: "timestamp without time zone",
  json: "jsonb",
  uuid: "uuid",
  bytes: "bytea",
  "text[]": "text[]",
};

/** Columns of primary keys that differ from the declaration. */
const indexOrder: Readonly<Record<string, readonly string[]>> = {
  resolution: ["source_key", "source", "job"],
  enrichment: ["source_key", "source", "job"],
  // A single row.
  warehouse_identity: ["service_host"],
};

/** Declared columns in the form of {@link describeColumns}. */
function declaredColumns([data, ops, state]: readonly [
  string,
  string,
  string,
] = SCHEMAS): readonly TextRow[] {
  const names = { data, ops, state };
  // Postgres allows NULL in every column of a view.
  const nullable = views.map((view) => ({
    ...view,
    key: [],
    columns: view.columns.map((column) => ({ ...column, required: false })),
  }));
  const relations = [...tables, ...nullable];
  const rows = relations.flatMap((table) =>
    table.columns.map((column) => {
      const keyPosition = (indexOrder[table.name] ?? table.key).indexOf(column.name);
      return {
        schema: names[table.schema],
        table: table.name,
        column: column.name,
        type: typeNames[column.type] ?? null,
        required: String(column.required === true),
        key: keyPosition < 0 ? null : String(keyPosition),
        comment: `${column.doc} pii: ${column.pii}`,
        table_comment: table.doc,
      };
    }),
  );
  const order = (row: (typeof rows)[number]) => `${row.schema} ${row.table}`;
  return rows.toSorted((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}

describe("migrations", () => {
  test("make exactly the declared tables and views: names, order, types, nullability, keys and comments with their pii class", async () => {
    const { url } = await freshDatabase();
    const warehouse = open(url);
    expect(await warehouse.isMigrated()).toBe(false);
    expect(await warehouse.migrate()).toEqual(MIGRATIONS);
    expect(await warehouse.isMigrated()).toBe(true);
    const client = await connect(url);
    const found = await describeColumns(client, SCHEMAS);
    const uncommented = await client.query(
      `SELECT nspname AS name FROM pg_namespace AS n WHERE nspname = ANY($1) AND obj_description(oid, 'pg_namespace') IS NULL
      UNION ALL SELECT attname FROM pg_attribute WHERE attrelid = 'person_data_ops.publication'::regclass AND attnum > 0
        AND col_description(attrelid, attnum) IS NULL`,
      [SCHEMAS],
    );
    expect(uncommented.rows).toEqual([]);
    // Indexes count columns from 0, like the declared key.
    expect(found).toEqual(declaredColumns());
    expect(found.every((row) => /pii: (none|indirect|direct|sensitive)$/.test(row["comment"] ?? ""))).toBe(
      true,
    );
  });

  test("that have all run, and later ones, are left alone without a wait for their lock", async () => {
    const { url } = await freshDatabase();
    await open(url).migrate();
    const client = await connect(url);
    await client.query(`INSERT INTO person_data_state.schema_migration (name) VALUES ('9999-later');
      BEGIN; LOCK TABLE person_data_state.schema_migration IN SHARE ROW EXCLUSIVE MODE`);
    expect(await open(url).migrate()).toEqual([]);
  }, 20_000);

  test("run once from several processes at the same time, also where sessions begin with repeatable reads", async () => {
    const { url } = await freshDatabase();
    const client = await connect(url);
    const database = new URL(url).pathname.slice(1);
    await client.query(`ALTER DATABASE "${database}" SET default_transaction_isolation = 'repeatable read'`);
    const ran = await Promise.all(Array.from({ length: 4 }, () => open(url).migrate()));
    expect(ran.flat()).toEqual(MIGRATIONS);
  });

  test("printed and run by hand on an empty database make the same tables and views", async () => {
    const [printed, migrated] = [await freshDatabase(), await freshDatabase()];
    const client = await connect(printed.url);
    await client.query(open(printed.url).printDdl());
    await open(migrated.url).migrate();
    const other = await connect(migrated.url);
    expect(await describeColumns(client, SCHEMAS)).toEqual(await describeColumns(other, SCHEMAS));
    const views = `SELECT schemaname, viewname, definition FROM pg_views WHERE schemaname LIKE 'person_data%' ORDER BY 1, 2`;
    const indexes = `SELECT schemaname, indexname, indexdef FROM pg_indexes WHERE schemaname LIKE 'person_data%'
      AND tablename NOT LIKE 'schema_migration%' ORDER BY 1, 2`;
    expect((await client.query(views)).rows).toEqual((await other.query(views)).rows);
    expect((await client.query(views)).rows).toHaveLength(16);
    expect((await client.query(indexes)).rows).toEqual((await other.query(indexes)).rows);
    expect(await open(printed.url).migrate()).toEqual([]);
  });

  test.each([
    ["quotes, dollars and reserved words", ['People "$1" %s; --', "it's ops", "user"]],
    ["63 bytes", ["d".repeat(63), "o".repeat(63), "s".repeat(63)]],
  ] satisfies [string, [string, string, string]][])(
    "and nights work in schemas whose names have %s",
    async (_, names) => {
      const [schema, opsSchema, stateSchema] = names;
      const context = await openPostgresContext({
        schema,
        opsSchema,
        stateSchema,
        prepare: "CREATE SCHEMA crm",
      });
      onTestFinished(() => context.close());
      await holdJobs(context.warehouse);
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      const { sent } = await runNight(context, enrichSpec(), matchAll);
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
      expect(await describeColumns(context.client, names)).toEqual(declaredColumns(names));
      expect((await context.warehouse.jobStatus("enrich_people")).lastRun?.status).toBe("succeeded");
    },
  );

  test("refuse the tables of version 1 and explain the alternatives", async () => {
    const { url } = await freshDatabase();
    const client = await connect(url);
    await client.query(`CREATE SCHEMA person_data; CREATE SCHEMA person_data_ops;
      CREATE TABLE person_data_ops.schema_migration (name varchar(255) PRIMARY KEY, "timestamp" varchar(255) NOT NULL);
      INSERT INTO person_data_ops.schema_migration VALUES ('0001-lookups', '2026-11-01T00:00:00.000Z')`);
    for (const attempt of [() => open(url).migrate(), () => open(url).isMigrated()]) {
      await expect(attempt()).rejects.toMatchObject({
        code: "warehouse_too_old",
        message:
          "The tables in person_data and person_data_ops were created by version 1, which cannot be upgraded.",
        problems: [
          {
            path: "warehouse",
            hint: expect.stringContaining("Choose new names for warehouse.schema, ops_schema"),
          },
        ],
      });
    }
    expect((await client.query("SELECT FROM pg_namespace WHERE nspname = 'person_data_state'")).rows).toEqual(
      [],
    );
    expect(await open(url, ["people", "ops", "state"]).migrate()).toEqual(MIGRATIONS);
  });
});
