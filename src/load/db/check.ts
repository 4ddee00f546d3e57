import { sql } from "kysely";
import type { Db } from "./db.ts";
import { FixConfigurationError, messageOf } from "../../errors.ts";
import { quoteIdentifier, quoteLiteral, type SchemaNames } from "./names.ts";
import { inTransaction, type PostgresSession } from "./session.ts";

interface CheckLine {
  readonly subject: string;
  readonly ok: boolean;
  readonly message: string;
  /** Remedy; a line that is ok and has one is a warning. */
  readonly hint?: string;
}

/** Checks rights and settings; changes nothing. */
export async function checkDatabase(db: Db): Promise<readonly CheckLine[]> {
  try {
    return await inTransaction(db.pool, (session) => runChecks(session, db), { keep: false });
  } catch (error) {
    const failure = db.explain(error);
    const hint = failure instanceof FixConfigurationError ? failure.problems[0]?.hint : undefined;
    const message = messageOf(failure);
    return [{ subject: "warehouse", ok: false, message, ...(hint === undefined ? {} : { hint }) }];
  }
}

interface SchemaRights {
  readonly name: string;
  readonly exists: boolean;
  readonly can_be_created: boolean;
  readonly can_hold_tables: boolean;
  /** A table without all privileges; null for none. */
  readonly unwritable: string | null;
}

async function runChecks(
  session: PostgresSession,
  { names, description }: Db,
): Promise<readonly CheckLine[]> {
  const server = await session.one<{
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
  const [role, database] = [quoteIdentifier(server.role), quoteIdentifier(server.database)];
  const lines: CheckLine[] = [
    {
      subject: "warehouse",
      ok: true,
      message: `Connected to ${description} (version ${server.version.replace(/ .*/u, "")}).`,
    },
  ];
  if (!server.can_make_temporary) {
    lines.push({
      subject: "temporary tables",
      ok: false,
      message: `${server.role} may not create temporary tables, which every run needs.`,
      hint: `As an administrator: GRANT TEMPORARY ON DATABASE ${database} TO ${role};`,
    });
  }
  if (server.logs_values) {
    lines.push({
      subject: "log of the server",
      ok: true,
      message: "Statements are logged with their values: people's data and the erasure key.",
      hint: `As a superuser: ALTER ROLE ${role} SET log_parameter_max_length = 0;`,
    });
  }
  const schemas = await session.rows<SchemaRights>(sql`
    SELECT s.name, n.oid IS NOT NULL AS exists, has_database_privilege(current_database(), 'CREATE') AS can_be_created,
      has_schema_privilege(n.oid, 'CREATE') AND has_schema_privilege(n.oid, 'USAGE') AS can_hold_tables,
      (SELECT min(c.relname) FROM pg_catalog.pg_class AS c WHERE c.relnamespace = n.oid AND c.relkind = 'r'
        AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
          AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))) AS unwritable
    FROM unnest(${[names.data, names.ops, names.state]}::text[]) WITH ORDINALITY AS s(name, place)
      LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = s.name ORDER BY s.place`);
  return [...lines, ...schemas.map((schema) => schemaLine(schema, server))];
}

function schemaLine(
  { name, exists, can_be_created, can_hold_tables, unwritable }: SchemaRights,
  server: { readonly role: string; readonly database: string },
): CheckLine {
  const subject = `schema ${name}`;
  const [schema, role] = [quoteIdentifier(name), quoteIdentifier(server.role)];
  const wrong = (message: string, hint: string) => ({ subject, ok: false, message, hint });
  if (!exists && !can_be_created) {
    return wrong(
      `does not exist, and ${server.role} may not create it.`,
      `As an administrator: CREATE SCHEMA ${schema} AUTHORIZATION ${role}; or GRANT CREATE ON DATABASE ${quoteIdentifier(server.database)} TO ${role};`,
    );
  }
  if (!exists) return { subject, ok: true, message: "does not exist yet; it can be created." };
  if (!can_hold_tables) {
    return wrong(
      `${server.role} may not create tables in it.`,
      `As its owner: GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${role};`,
    );
  }
  if (unwritable !== null) {
    return wrong(
      `${server.role} may not write to some of its tables, such as ${unwritable}.`,
      `As their owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role};`,
    );
  }
  return { subject, ok: true, message: `exists, and ${server.role} may create tables in it.` };
}

/** Role that `migrate --print --grants` creates if the address of the warehouse states none. */
const LOADER = "person_etl_loader";
const PEOPLE_READER = "person_etl_people_reader";
const OPS_READER = "person_etl_ops_reader";

function createRole(role: string, options = ""): string {
  const create = `CREATE ROLE ${quoteIdentifier(role)}${options};`;
  return `DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = ${quoteLiteral(role)}) THEN ${create} END IF; END $$;`;
}

function readerStatements(role: string, schemas: readonly string[], loader: string): string {
  const list = schemas.map(quoteIdentifier).join(", ");
  return `${createRole(role)}
GRANT USAGE ON SCHEMA ${list} TO ${role};
GRANT SELECT ON ALL TABLES IN SCHEMA ${list} TO ${role};
ALTER DEFAULT PRIVILEGES FOR ROLE ${loader} IN SCHEMA ${list} GRANT SELECT ON TABLES TO ${role};`;
}

/**
 * Statements for an administrator, printed by `migrate --print --grants`; can run before or after the first migration.
 * @param user role of the program, as in the warehouse's address
 */
export function printGrants({ names }: { readonly names: SchemaNames }, user = LOADER): string {
  const loader = quoteIdentifier(user);
  const schemas = [names.data, names.ops, names.state].map(
    (name) => `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(name)} AUTHORIZATION ${loader};`,
  );
  const connect = `GRANT CONNECT, TEMPORARY ON DATABASE %I TO ${loader.replaceAll("%", "%%")}`;
  return `-- Loader: runs the jobs and owns the three schemas. It also needs SELECT on the inputs; a connection to another database needs no more.
${createRole(user, " LOGIN")}
DO $$ BEGIN EXECUTE format(${quoteLiteral(connect)}, current_database()); END $$;
${schemas.join("\n")}

-- Reader of people: all tables except internal ones.
${readerStatements(PEOPLE_READER, [names.data, names.ops], loader)}

-- Reader of operations: runs, usage and costs; no personal data.
${readerStatements(OPS_READER, [names.ops], loader)}

-- Keeps values out of the server's log; only a superuser may set this.
ALTER ROLE ${loader} SET log_parameter_max_length = 0;
ALTER ROLE ${loader} SET log_error_verbosity = 'terse';
`;
}
