import { sql } from "kysely";
import type { Db } from "./db.ts";
import { codeOf, messageOf } from "../../errors.ts";
import { quoteIdentifier, type SchemaNames } from "./names.ts";
import { inTransaction, type PostgresSession } from "./session.ts";

/** One line of `check`. */
interface CheckLine {
  /** Subject of the check. */
  readonly subject: string;
  readonly ok: boolean;
  readonly message: string;
  /** Remedy; a line that is ok and has one is a warning. */
  readonly hint?: string;
}

/** Remedies for failed connections, by SQLSTATE or system error. */
const HINTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "Check that Postgres is running there and that the port is right.",
  ENOTFOUND: "Unknown host name; correct it.",
  "28P01": "The password was rejected; correct it.",
  "28000": "The role may not connect from here; check pg_hba.conf.",
  "3D000": "Create the database, or correct its name.",
};

/** Checks rights and settings; changes nothing. */
export async function checkDatabase(
  { pool, names, description: own }: Db,
  description = own,
): Promise<readonly CheckLine[]> {
  try {
    return await inTransaction(pool, (session) => runChecks(session, names, description), { keep: false });
  } catch (error) {
    const hint = HINTS[codeOf(error) ?? ""];
    return [
      {
        subject: "warehouse",
        ok: false,
        message: `Can't use ${description}: ${messageOf(error) || codeOf(error) || "no answer"}.`,
        ...(hint ? { hint } : {}),
      },
    ];
  }
}

async function runChecks(
  session: PostgresSession,
  names: SchemaNames,
  description: string,
): Promise<readonly CheckLine[]> {
  const [server] = await session.rows<{
    version: string;
    role: string;
    database: string;
    can_make_temporary: boolean;
    logs_values: boolean;
  }>(sql`
    SELECT current_setting('server_version') AS version, current_user AS role, current_database() AS database,
      has_database_privilege(current_database(), 'TEMPORARY') AS can_make_temporary,
      current_setting('log_parameter_max_length') <> '0' AND (current_setting('log_min_duration_statement') <> '-1'
        OR current_setting('log_min_duration_sample') <> '-1' OR current_setting('log_statement') IN ('mod', 'all')) AS logs_values`);
  if (!server) return [];
  const lines: CheckLine[] = [
    { subject: "warehouse", ok: true, message: `${description} is reachable (Postgres ${server.version}).` },
  ];
  if (!server.can_make_temporary) {
    lines.push({
      subject: "temporary tables",
      ok: false,
      message: `${server.role} may not create temporary tables, which every run needs.`,
      hint: `As an administrator: GRANT TEMPORARY ON DATABASE ${quoteIdentifier(server.database)} TO ${quoteIdentifier(server.role)};`,
    });
  }
  if (server.logs_values) {
    lines.push({
      subject: "log of the server",
      ok: true,
      message: "Statements are logged with their values: people's data and the erasure key.",
      hint: `As a superuser: ALTER ROLE ${quoteIdentifier(server.role)} SET log_parameter_max_length = 0;`,
    });
  }
  for (const schema of [names.data, names.ops, names.state])
    lines.push(await checkSchema(session, schema, server));
  return lines;
}

async function checkSchema(
  session: PostgresSession,
  schema: string,
  server: { readonly role: string; readonly database: string },
): Promise<CheckLine> {
  const subject = `schema ${schema}`;
  const [name, role] = [quoteIdentifier(schema), quoteIdentifier(server.role)];
  const [found] = await session.rows<{
    can_create: boolean;
    can_use: boolean;
    unwritable: string | null;
  }>(sql`
    SELECT has_schema_privilege(n.oid, 'CREATE') AS can_create, has_schema_privilege(n.oid, 'USAGE') AS can_use,
      (SELECT min(c.relname) FROM pg_catalog.pg_class AS c WHERE c.relnamespace = n.oid AND c.relkind = 'r'
        AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
          AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))) AS unwritable
    FROM pg_catalog.pg_namespace AS n WHERE nspname = ${schema}`);
  if (found) {
    if (!found.can_create || !found.can_use) {
      return {
        subject,
        ok: false,
        message: `${server.role} may not create tables in it.`,
        hint: `As its owner: GRANT USAGE, CREATE ON SCHEMA ${name} TO ${role};`,
      };
    }
    if (found.unwritable !== null) {
      return {
        subject,
        ok: false,
        message: `${server.role} may not write to some of its tables, such as ${found.unwritable}.`,
        hint: `As their owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${name} TO ${role};`,
      };
    }
    return { subject, ok: true, message: `exists, and ${server.role} may create tables in it.` };
  }
  const [database] = await session.rows<{ ok: boolean }>(
    sql`SELECT has_database_privilege(current_database(), 'CREATE') AS ok`,
  );
  return database?.ok
    ? { subject, ok: true, message: "does not exist yet; it can be created." }
    : {
        subject,
        ok: false,
        message: `does not exist, and ${server.role} may not create it.`,
        hint: `As an administrator: CREATE SCHEMA ${name} AUTHORIZATION ${role}; or GRANT CREATE ON DATABASE ${quoteIdentifier(server.database)} TO ${role};`,
      };
}

const LOADER = "person_etl_loader";
const PEOPLE_READER = "person_etl_people_reader";
const OPS_READER = "person_etl_ops_reader";

/** A role and the schemas that it may read. */
function readerStatements(role: string, schemas: readonly string[]): readonly string[] {
  const list = schemas.map(quoteIdentifier).join(", ");
  return [
    `GRANT USAGE ON SCHEMA ${list} TO ${role}`,
    `GRANT SELECT ON ALL TABLES IN SCHEMA ${list} TO ${role}`,
    `ALTER DEFAULT PRIVILEGES FOR ROLE ${LOADER} IN SCHEMA ${list} GRANT SELECT ON TABLES TO ${role}`,
  ];
}

/** Statements for an administrator, printed by `migrate --print --grants`; can run before or after the first migration. */
export function printGrants({ names }: Db): string {
  const schemas = [names.data, names.ops, names.state].map(quoteIdentifier);
  const parts = [
    {
      comment:
        "Loader: runs the jobs and owns the three schemas. It also needs SELECT on the inputs; a connection to another database needs no more.",
      statements: [
        `CREATE ROLE ${LOADER} LOGIN`,
        `DO $$ BEGIN EXECUTE format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO ${LOADER}', current_database()); END $$`,
        ...schemas.map((schema) => `CREATE SCHEMA IF NOT EXISTS ${schema} AUTHORIZATION ${LOADER}`),
      ],
    },
    {
      comment: "Reader of people: all tables except internal ones.",
      statements: [
        `CREATE ROLE ${PEOPLE_READER}`,
        ...readerStatements(PEOPLE_READER, [names.data, names.ops]),
      ],
    },
    {
      comment: "Reader of operations: runs, usage and costs; no personal data.",
      statements: [`CREATE ROLE ${OPS_READER}`, ...readerStatements(OPS_READER, [names.ops])],
    },
    {
      comment: "Keeps values out of the server's log; only a superuser may set this.",
      statements: [
        `ALTER ROLE ${LOADER} SET log_parameter_max_length = 0`,
        `ALTER ROLE ${LOADER} SET log_error_verbosity = 'terse'`,
      ],
    },
  ];
  return parts
    .map(({ comment, statements }) => `-- ${comment}\n${statements.map((s) => `${s};\n`).join("")}`)
    .join("\n");
}
