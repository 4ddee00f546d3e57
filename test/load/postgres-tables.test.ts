import type { Client } from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { FixConfigurationError } from "../../src/errors.ts";
import { openWarehouse } from "../support/bound-load.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { tables } from "../../src/schemas/registry.ts";
import { views } from "../../src/schemas/views.ts";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";
import { connectAsText, openPostgresPlace } from "./postgres-place.ts";
import { holdJobs, matchAll, runNight } from "./suite/nights.ts";
import { enrichSpec, makePeople } from "./suite/people.ts";

import type { TextRow } from "./suite/place.ts";

/** Every migration, in order. */
const MIGRATIONS = ["0001-tables"];

const SCHEMAS = ["person_data", "person_data_ops", "person_data_state"] as const;

/** Tables without a declaration: the publication's queue, and the migrations themselves. */
const NOT_DECLARED = [
  "schema_migration",
  "destination",
  "destination_table",
  "dirty_key",
  "publication_batch",
];

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function freshDatabase(): Promise<TestDatabase> {
  const database = await createDatabase();
  closers.push(() => database.release());
  return database;
}

async function connect(url: string): Promise<Client> {
  const client = await connectAsText(url);
  closers.push(() => client.end());
  return client;
}

function open(
  url: string,
  [schema, opsSchema, stateSchema]: readonly [string, string, string] = SCHEMAS,
): Warehouse {
  const warehouse = openWarehouse({ url, schema, opsSchema, stateSchema });
  closers.push(() => warehouse.close());
  return warehouse;
}

/** A role of its own that may log in to the database, and the address for it. */
async function roleIn(database: TestDatabase, rights: string) {
  const admin = await connect(database.url);
  const role = `role_${new URL(database.url).pathname.slice(1)}`;
  const name = new URL(database.url).pathname.slice(1);
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
  closers.push(async () => {
    await admin.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
  });
  await admin.query(rights.replaceAll("ROLE", role).replaceAll("DATABASE_NAME", name));
  const url = new URL(database.url);
  url.username = role;
  url.password = "secret";
  return { url: url.href, role, name, admin };
}

/** Every column of the schemas with type, nullability, place in the key and comment. */
async function describeColumns(client: Client, schemas: readonly string[]): Promise<readonly TextRow[]> {
  const { rows } = await client.query<TextRow>(
    `SELECT n.nspname AS schema, c.relname AS table, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
      a.attnotnull AS required, array_position(i.indkey::int2[], a.attnum) AS key,
      col_description(c.oid, a.attnum) AS comment, obj_description(c.oid, 'pg_class') AS table_comment
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
    WHERE n.nspname = ANY($1) AND c.relkind = 'r' AND c.relname <> ALL($2)
    ORDER BY n.nspname, c.relname, a.attnum`,
    [schemas, NOT_DECLARED],
  );
  return rows;
}

/** Postgres's name of each declared type: written out here, so that a slip in the program's own list shows. */
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

/** What the declared tables ask for, in the form of {@link describeColumns}. */
function declaredColumns([data, ops, state]: readonly [
  string,
  string,
  string,
] = SCHEMAS): readonly TextRow[] {
  const names = { data, ops, state };
  const rows = tables.flatMap((table) =>
    table.columns.map((column) => {
      const place = table.key.indexOf(column.name);
      return {
        schema: names[table.schema],
        table: table.name,
        column: column.name,
        type: typeNames[column.type] ?? null,
        required: String(column.required === true),
        key: place < 0 ? null : String(place),
        comment: `${column.doc} pii: ${column.pii}`,
        table_comment: table.doc,
      };
    }),
  );
  const order = (row: (typeof rows)[number]) => `${row.schema} ${row.table}`;
  return rows.toSorted((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
}

describe("migrations", () => {
  test("make exactly the declared tables: names, order, types, nullability, keys and comments with their pii class", async () => {
    const { url } = await freshDatabase();
    const warehouse = open(url);
    expect(await warehouse.isMigrated()).toBe(false);
    expect(await warehouse.migrate()).toEqual(MIGRATIONS);
    expect(await warehouse.isMigrated()).toBe(true);
    const found = await describeColumns(await connect(url), SCHEMAS);
    // An index counts its columns from 0, as the declared key does.
    expect(found).toEqual(declaredColumns());
    expect(found.every((row) => /pii: (none|indirect|direct|sensitive)$/.test(row["comment"] ?? ""))).toBe(
      true,
    );
  });

  test("run twice do nothing the second time", async () => {
    const { url } = await freshDatabase();
    await open(url).migrate();
    const client = await connect(url);
    const before = await client.query(
      "SELECT oid, relname FROM pg_class WHERE relkind IN ('r', 'v', 'i') ORDER BY 1",
    );
    expect(await open(url).migrate()).toEqual([]);
    expect(
      (await client.query("SELECT oid, relname FROM pg_class WHERE relkind IN ('r', 'v', 'i') ORDER BY 1"))
        .rows,
    ).toEqual(before.rows);
  });

  test("that have all run don't wait for their lock", async () => {
    const { url } = await freshDatabase();
    await open(url).migrate();
    const client = await connect(url);
    await client.query("SELECT pg_advisory_lock(3853314791062309107)");
    expect(await open(url).migrate()).toEqual([]);
  }, 20_000);

  test("of a newer version don't block an older program", async () => {
    const { url } = await freshDatabase();
    await open(url).migrate();
    const client = await connect(url);
    await client.query("INSERT INTO person_data_state.schema_migration (name) VALUES ('9999-later')");
    expect(await open(url).migrate()).toEqual([]);
  });

  test("run once also where sessions begin with repeatable reads", async () => {
    const { url } = await freshDatabase();
    const client = await connect(url);
    const database = new URL(url).pathname.slice(1);
    await client.query(`ALTER DATABASE "${database}" SET default_transaction_isolation = 'repeatable read'`);
    const ran = await Promise.all(Array.from({ length: 4 }, () => open(url).migrate()));
    expect(ran.flat()).toEqual(MIGRATIONS);
  });

  test("run from several warehouses at the same time run once", async () => {
    const { url } = await freshDatabase();
    const ran = await Promise.all(Array.from({ length: 4 }, () => open(url).migrate()));
    expect(ran.flat()).toEqual(MIGRATIONS);
    expect(await describeColumns(await connect(url), SCHEMAS)).toEqual(declaredColumns());
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
    expect((await client.query(views)).rows).toHaveLength(5);
    expect((await client.query(indexes)).rows).toEqual((await other.query(indexes)).rows);
    expect(await open(printed.url).migrate()).toEqual([]);
  });

  test("can be printed without any database", () => {
    const ddl = open("postgres://nobody@127.0.0.1:1/nothing").printDdl();
    expect(ddl).toContain('CREATE TABLE "person_data"."person"');
  });

  test.each([
    ["capitals, blanks and quotes", ['People "2026"; --', "it's ops", "the \\ state"]],
    ["63 bytes", ["d".repeat(63), "o".repeat(63), "s".repeat(63)]],
    ["dollars and percent signs", ["$$data$$ %s %I", "$1", "%"]],
    ["reserved words", ["user", "select", "table"]],
  ] satisfies [string, [string, string, string]][])(
    "and nights work in schemas whose names have %s",
    async (_, names) => {
      const [schema, opsSchema, stateSchema] = names;
      const place = await openPostgresPlace({ schema, opsSchema, stateSchema, prepare: "CREATE SCHEMA crm" });
      closers.push(() => place.close());
      await holdJobs(place.warehouse);
      await makePeople(place, [{ id: "1", first_name: "Ann" }]);
      const { sent } = await runNight(place, enrichSpec(), matchAll);
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
      expect(await describeColumns(place.client, names)).toEqual(declaredColumns(names));
      expect((await place.warehouse.jobStatus("enrich_people")).lastRun?.status).toBe("succeeded");
    },
  );

  test("of two warehouses in one database stand side by side", async () => {
    const { url } = await freshDatabase();
    await open(url).migrate();
    expect(await open(url, ["other", "other_ops", "other_state"]).isMigrated()).toBe(false);
    expect(await open(url, ["other", "other_ops", "other_state"]).migrate()).toEqual(MIGRATIONS);
  });

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

  test("leave every view with the declared columns, comments and pii classes", async () => {
    const { url } = await freshDatabase();
    await open(url).migrate();
    const { rows } = await (await connect(url)).query<TextRow>(
      `SELECT c.relname AS view, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
        col_description(c.oid, a.attnum) AS comment, obj_description(c.oid, 'pg_class') AS view_comment
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
      WHERE n.nspname = ANY($1) AND c.relkind = 'v' AND c.relname <> 'publication' ORDER BY c.relname, a.attnum`,
      [SCHEMAS],
    );
    const declared = views
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      .flatMap((view) =>
        view.columns.map((column) => ({
          view: view.name,
          column: column.name,
          type: typeNames[column.type],
          comment: `${column.doc} pii: ${column.pii}`,
          view_comment: view.doc,
        })),
      );
    expect(rows).toEqual(declared);
  });
});

describe("the service that a warehouse was filled from", () => {
  test("is remembered once, and replaced only on purpose", async () => {
    const { url } = await freshDatabase();
    const warehouse = open(url);
    await warehouse.migrate();
    expect(await warehouse.readServiceHost()).toBe(null);
    await Promise.all([1, 2, 3].map(() => warehouse.writeServiceHost("one.example:443", { replace: false })));
    await warehouse.writeServiceHost("two.example:443", { replace: false });
    expect(await warehouse.readServiceHost()).toBe("one.example:443");
    await warehouse.writeServiceHost("two.example:443", { replace: true });
    expect(await warehouse.readServiceHost()).toBe("two.example:443");
    const client = await connect(url);
    expect(
      (await client.query("SELECT service_host FROM person_data_ops.warehouse_identity")).rows,
    ).toHaveLength(1);
  });
});

describe("rights", () => {
  test("to create the schemas are required; the error names them, and check how to grant them", async () => {
    const database = await freshDatabase();
    const { url, role, name } = await roleIn(database, "REVOKE CREATE ON DATABASE DATABASE_NAME FROM ROLE");
    const warehouse = open(url);
    const failure = await warehouse.migrate().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(FixConfigurationError);
    expect(failure).toMatchObject({
      code: "no_right_to_create",
      problems: [
        {
          path: "warehouse",
          message: `schema person_data does not exist, and ${role} may not create it.`,
          hint: `As an administrator: CREATE SCHEMA "person_data" AUTHORIZATION "${role}"; or GRANT CREATE ON DATABASE "${name}" TO "${role}";`,
        },
        {
          path: "warehouse",
          message: `schema person_data_ops does not exist, and ${role} may not create it.`,
        },
        {
          path: "warehouse",
          message: `schema person_data_state does not exist, and ${role} may not create it.`,
        },
      ],
    });
    const lines = await warehouse.check();
    expect(lines.map(({ subject, ok }) => [subject, ok])).toEqual([
      ["warehouse", true],
      ["schema person_data", false],
      ["schema person_data_ops", false],
      ["schema person_data_state", false],
    ]);
    expect(lines[1]).toMatchObject({
      message: `does not exist, and ${role} may not create it.`,
      hint: `As an administrator: CREATE SCHEMA "person_data" AUTHORIZATION "${role}"; or GRANT CREATE ON DATABASE "${name}" TO "${role}";`,
    });
    expect(JSON.stringify(lines)).not.toContain("secret");
  });

  test("a role that owns the three schemas needs none on the database", async () => {
    const database = await freshDatabase();
    const { url } = await roleIn(
      database,
      `CREATE SCHEMA person_data AUTHORIZATION ROLE; CREATE SCHEMA person_data_ops AUTHORIZATION ROLE;
        CREATE SCHEMA person_data_state AUTHORIZATION ROLE`,
    );
    const warehouse = open(url);
    expect((await warehouse.check()).filter((line) => !line.ok)).toEqual([]);
    expect(await warehouse.migrate()).toEqual(MIGRATIONS);
    expect(await open(url).migrate()).toEqual([]);
  });

  test("to create tables in the schemas are required", async () => {
    const database = await freshDatabase();
    const { url, role } = await roleIn(
      database,
      `CREATE SCHEMA person_data; GRANT USAGE ON SCHEMA person_data TO ROLE;
        CREATE SCHEMA person_data_ops AUTHORIZATION ROLE; CREATE SCHEMA person_data_state AUTHORIZATION ROLE`,
    );
    const lines = await open(url).check();
    expect(lines.filter((line) => !line.ok)).toEqual([
      {
        subject: "schema person_data",
        ok: false,
        message: `${role} may not create tables in it.`,
        hint: `As its owner: GRANT USAGE, CREATE ON SCHEMA "person_data" TO "${role}";`,
      },
    ]);
    await expect(open(url).migrate()).rejects.toBeInstanceOf(FixConfigurationError);
  });

  test("on schemas and tables of another role are required", async () => {
    const database = await freshDatabase();
    await open(database.url).migrate();
    const { url, role, admin } = await roleIn(database, "SELECT 1");
    expect(await open(url).isMigrated()).toBe(true);
    const missing = async () =>
      (await open(url).check()).filter((line) => !line.ok).map(({ message }) => message);
    expect(await missing()).toEqual(SCHEMAS.map(() => `${role} may not create tables in it.`));
    await admin.query(
      SCHEMAS.map((schema) => `GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role}`).join("; "),
    );
    expect(await missing()).toEqual([
      `${role} may not write to some of its tables, such as death_signal.`,
      `${role} may not write to some of its tables, such as api_call.`,
      `${role} may not write to some of its tables, such as alert_state.`,
    ]);
    await expect(open(url).readServiceHost()).rejects.toMatchObject({ code: "database_refused" });
    await admin.query(
      SCHEMAS.map((s) => `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${s} TO ${role}`).join(
        "; ",
      ),
    );
    expect(await missing()).toEqual([]);
  });

  test("of the printed roles suffice: the loader migrates and runs, readers see their schemas alone", async () => {
    const database = await freshDatabase();
    const admin = await connect(database.url);
    const suffix = new URL(database.url).pathname.slice(1);
    const roles = ["loader", "people_reader", "ops_reader"].map((role) => `person_etl_${role}_${suffix}`);
    const grants = open(database.url)
      .printGrants()
      .replaceAll(/person_etl_\w+?(?=[ '`;])/g, `$&_${suffix}`);
    await admin.query(grants);
    closers.push(async () => {
      for (const role of roles) await admin.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
    });
    await admin.query(`ALTER ROLE ${roles[0]} PASSWORD 'secret'`);
    const url = new URL(database.url);
    url.username = roles[0] ?? "";
    url.password = "secret";
    const warehouse = open(url.href);
    expect((await warehouse.check()).filter((line) => !line.ok)).toEqual([]);
    expect(await warehouse.migrate()).toEqual(MIGRATIONS);
    const readable = async (role: string | undefined) => {
      const found: string[] = [];
      for (const name of [
        "person_data.person",
        "person_data.person_education_subject",
        "person_data_ops.table_freshness",
        "person_data_ops.publication",
        "person_data_state.lookup_state",
        "person_data_state.erasure_key",
      ]) {
        await admin.query(`SET ROLE ${role}`);
        const rows = await admin.query(`SELECT FROM ${name}`).catch(() => null);
        await admin.query("RESET ROLE");
        if (rows) found.push(name);
      }
      return found;
    };
    expect(await readable(roles[1])).toEqual([
      "person_data.person",
      "person_data.person_education_subject",
      "person_data_ops.table_freshness",
      "person_data_ops.publication",
    ]);
    expect(await readable(roles[2])).toEqual([
      "person_data_ops.table_freshness",
      "person_data_ops.publication",
    ]);
  });

  test("to create temporary tables are required", async () => {
    const database = await freshDatabase();
    const { url, role, name } = await roleIn(
      database,
      "REVOKE TEMPORARY ON DATABASE DATABASE_NAME FROM PUBLIC; GRANT CREATE ON DATABASE DATABASE_NAME TO ROLE",
    );
    expect((await open(url).check()).filter((line) => !line.ok)).toEqual([
      {
        subject: "temporary tables",
        ok: false,
        message: `${role} may not create temporary tables, which every run needs.`,
        hint: `As an administrator: GRANT TEMPORARY ON DATABASE "${name}" TO "${role}";`,
      },
    ]);
  });

  test("to read an input are required", async () => {
    const database = await freshDatabase();
    const { url } = await roleIn(
      database,
      "CREATE SCHEMA crm; CREATE TABLE crm.people (id int); GRANT USAGE ON SCHEMA crm TO ROLE",
    );
    const { input } = enrichSpec();
    expect(await open(url).checkInput({ ...input, fields: {} })).toEqual([
      {
        path: "inputs.people.table",
        message: "Can't read crm.people: permission denied for table people.",
        hint: "Grant the connection's role USAGE on the schema and SELECT on the table.",
      },
    ]);
  });
});

describe("check", () => {
  test("reports the server and that all is well", async () => {
    const { url } = await freshDatabase();
    const lines = await open(url).check();
    expect(lines.map((line) => [line.subject, line.ok])).toEqual([
      ["warehouse", true],
      ["schema person_data", true],
      ["schema person_data_ops", true],
      ["schema person_data_state", true],
    ]);
    expect(lines[0]?.message).toMatch(/schemas person_data and person_data_ops answers \(Postgres \d+/);
    expect(lines[1]?.message).toBe("does not exist yet; it can be created.");
    await open(url).migrate();
    expect((await open(url).check())[1]?.message).toMatch(/^exists, and .* may create tables in it\.$/);
  });

  test.each([
    [
      "no server",
      (url: URL) => void (url.port = "1"),
      "Check that Postgres is running there and that the port is right.",
    ],
    [
      "no such database",
      (url: URL) => void (url.pathname = "/nothing_here"),
      "Create the database, or correct its name.",
    ],
    ["no such host", (url: URL) => void (url.hostname = "nowhere.invalid"), "Unknown host name; correct it."],
  ])("reports what to do about %s, without a secret", async (_, spoil, hint) => {
    const url = new URL((await freshDatabase()).url);
    spoil(url);
    const lines = await open(url.href).check();
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ subject: "warehouse", ok: false, hint });
    expect(JSON.stringify(lines)).not.toContain(url.password || "a password");
  });

  test("refuses a database that can't hold every name", async () => {
    const { url } = await freshDatabase();
    const admin = await connect(url);
    const [version] = (await admin.query<TextRow>("SHOW server_version_num")).rows;
    const provider = Number(version?.["server_version_num"]) >= 150_000 ? "LOCALE_PROVIDER libc" : "";
    const name = `latin_${new URL(url).pathname.slice(1)}`;
    await admin.query(
      `CREATE DATABASE ${name} TEMPLATE template0 ENCODING 'LATIN1' ${provider} LC_COLLATE 'C' LC_CTYPE 'C'`,
    );
    const latin = new URL(url);
    latin.pathname = `/${name}`;
    try {
      const lines = await open(latin.href).check();
      expect(lines.find((line) => !line.ok)).toMatchObject({
        subject: "warehouse encoding",
        message: "The database encoding is LATIN1; names of people require UTF8.",
      });
    } finally {
      await closers.pop()?.();
      await admin.query(`DROP DATABASE ${name}`);
    }
  });
});

function* sampleRows(): Generator<(string | null)[]> {
  for (let i = 0; i < 12_000; i++)
    yield [String(i), i === 7 ? null : `tab\t${i}\n\\`, "2026-01-01T00:00:00Z"];
}

describe("a sample table", () => {
  test("is created once by processes that start at the same time", async () => {
    const { url } = await freshDatabase();
    const columns = [{ name: "id", type: "bigint" }] as const;
    const made = await Promise.all(
      Array.from({ length: 4 }, () => open(url).createSampleTable(enrichSpec().input, columns, [["1"]])),
    );
    expect(made.filter(Boolean)).toHaveLength(1);
  });

  test("is created once, with its rows, and never replaces another", async () => {
    const { url } = await freshDatabase();
    const warehouse = open(url);
    const { input } = enrichSpec();
    const columns = [
      { name: "id", type: "bigint" },
      { name: "first_name", type: "text" },
      { name: "updated_at", type: "timestamptz" },
    ] as const;
    expect(await warehouse.createSampleTable(input, columns, sampleRows())).toBe(true);
    expect(await warehouse.createSampleTable(input, columns, [["1", "x", null]])).toBe(false);
    const client = await connect(url);
    expect((await client.query("SELECT count(*), count(first_name) AS named FROM crm.people")).rows).toEqual([
      { count: "12000", named: "11999" },
    ]);
    expect((await client.query("SELECT * FROM crm.people WHERE id = 42")).rows).toEqual([
      { id: "42", first_name: "tab\t42\n\\", updated_at: "2026-01-01 00:00:00+00" },
    ]);
  });
});
