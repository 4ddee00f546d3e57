import { quoteIdentifier, type SchemaNames } from "./names.ts";

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
export function printGrants(names: SchemaNames): string {
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
  ];
  parts.push({
    comment: "Keeps values out of the server's log; only a superuser may set this.",
    statements: [
      `ALTER ROLE ${LOADER} SET log_parameter_max_length = 0`,
      `ALTER ROLE ${LOADER} SET log_error_verbosity = 'terse'`,
    ],
  });
  return parts
    .map(({ comment, statements }) => `-- ${comment}\n${statements.map((s) => `${s};\n`).join("")}`)
    .join("\n");
}
