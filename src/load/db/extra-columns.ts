import { sql } from "kysely";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { type ExtraColumns, extraColumns, personColumnNames } from "../../schemas/extra-columns.ts";
import { postgresTypes } from "./ddl.ts";
import { quoteIdentifier, quoteLiteral, type SchemaNames, tableId, tableText } from "./names.ts";
import type { PostgresSession } from "./session.ts";

const PERSON = "person";

/** Values by type, of a field as JSON text. They must not fail, whatever the service sends, nor depend on a setting. */
const valuesOf: Readonly<Record<ExtraColumns[string], (text: string) => string>> = {
  text: (text) => text,
  integer: (text) => `CASE WHEN ${text} ~ '^-?[0-9]{1,18}$' THEN ${text}::bigint END`,
  numeric: (text) => `CASE WHEN ${text} ~ '^-?[0-9]{1,18}([.][0-9]{1,20})?$' THEN ${text}::numeric END`,
  boolean: (text) =>
    `CASE WHEN lower(${text}) IN ('true', 'yes', 'y', '1') THEN true WHEN lower(${text}) IN ('false', 'no', 'n', '0') THEN false END`,
  date(text) {
    const [year, month, day] = [
      `left(${text}, 4)::int`,
      `substr(${text}, 6, 2)::int`,
      `substr(${text}, 9)::int`,
    ];
    const isLeap = `${year} % 4 = 0 AND (${year} % 100 <> 0 OR ${year} % 400 = 0)`;
    const days = `CASE WHEN ${month} IN (4, 6, 9, 11) THEN 30 WHEN ${month} <> 2 THEN 31 WHEN ${isLeap} THEN 29 ELSE 28 END`;
    return `CASE WHEN ${text} !~ '^[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]$' THEN NULL
      WHEN ${year} > 0 AND ${day} BETWEEN 1 AND ${days} THEN make_date(${year}, ${month}, ${day}) END`;
  },
};

/** Definition of a column that Postgres itself fills from `_extra`, in stored rows and in new ones. */
function definition([name, type]: readonly [string, ExtraColumns[string]]): string {
  const field = quoteLiteral(name);
  const isScalar = `jsonb_typeof(_extra -> ${field}) IN ('string', 'number', 'boolean')`;
  const value = valuesOf[type](`(_extra ->> ${field})`);
  return `ADD COLUMN ${quoteIdentifier(name)} ${postgresTypes[type]} GENERATED ALWAYS AS (CASE WHEN ${isScalar} THEN ${value} END) STORED`;
}

/** Statements that add columns to `person`. Readers see the rows that have a value as changed. */
export function addExtraColumns(extra: ExtraColumns, names: SchemaNames): readonly string[] {
  const added = Object.entries(extra);
  if (added.length === 0) return [];
  const table = tableText(names, PERSON);
  const hasValue = added.map(([name]) => `${quoteIdentifier(name)} IS NOT NULL`).join(" OR ");
  return [
    `ALTER TABLE ${table}\n  ${added.map(definition).join(",\n  ")}`,
    ...extraColumns(extra).map(
      ({ name, doc, pii }) =>
        `COMMENT ON COLUMN ${table}.${quoteIdentifier(name)} IS ${quoteLiteral(`${doc} pii: ${pii}`)}`,
    ),
    `UPDATE ${table} SET _synced_at = now(), _record_synced_at = now() WHERE ${hasValue}`,
  ];
}

/** Columns that the table has in the database. */
function readColumns(session: PostgresSession, names: SchemaNames) {
  return session.rows<{ readonly name: string; readonly type: string; readonly isGenerated: boolean }>(sql`
    SELECT attname AS name, format_type(atttypid, NULL) AS type, attgenerated <> '' AS "isGenerated"
    FROM pg_catalog.pg_attribute
    WHERE attrelid = to_regclass(${tableText(names, PERSON)}) AND attnum > 0 AND NOT attisdropped`);
}

/** Finds the columns that are still to be added. Refuses those that have another type by now. */
export async function findMissingColumns(
  session: PostgresSession,
  names: SchemaNames,
  extra: ExtraColumns,
): Promise<ExtraColumns> {
  if (Object.keys(extra).length === 0) return {};
  const present = new Map((await readColumns(session, names)).map((column) => [column.name, column]));
  const problems = Object.entries(extra).flatMap(([name, type]): readonly Problem[] => {
    const column = present.get(name);
    if (!column || (column.isGenerated && column.type === postgresTypes[type])) return [];
    const message = `differs from the column ${name} of ${tableText(names, PERSON)}, which is of type ${column.type}`;
    const hint = `choose another name, or drop the column; \`publish --full\` then corrects the destinations`;
    return [{ path: `extra_columns.${PERSON}.${name}`, message, hint }];
  });
  if (problems.length > 0) {
    const text = "The columns of extra_columns can't be added as configured.";
    throw new FixConfigurationError("invalid_configuration", text, problems);
  }
  return Object.fromEntries(Object.entries(extra).filter(([name]) => !present.has(name)));
}

/** Drops added columns that this version declares itself, before its migrations add them. */
export async function dropDeclaredColumns(session: PostgresSession, names: SchemaNames): Promise<void> {
  const columns = await readColumns(session, names);
  for (const { name } of columns.filter(
    (column) => column.isGenerated && personColumnNames.includes(column.name),
  )) {
    await session.change(sql`ALTER TABLE ${tableId(names, PERSON)} DROP COLUMN ${sql.id(name)}`);
  }
}
