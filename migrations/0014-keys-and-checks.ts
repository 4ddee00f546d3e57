import { quoteIdentifier, quoteLiteral, type SchemaNames, tableText } from "../src/load/db/names.ts";
import { tables } from "../src/schemas/registry.ts";
import { foreignKeyOf, type Table } from "../src/schemas/table.ts";

/** A constraint of a table, and the end of its name. */
interface Constraint {
  readonly suffix: string;
  readonly text: string;
  /** True if stored rows are left to {@link validateKeysAndChecks}, which takes longer. */
  readonly isLate?: true;
}

/** Adds the indexes of analysts; then primary keys, foreign keys and checks of closed lists, under a short lock. */
export function addKeysAndChecks(names: SchemaNames): readonly string[] {
  const constraints = tables.flatMap((table) =>
    constraintsOf(table, names).map(({ suffix, text, isLate }) => {
      const statement = `${alter(table, names)} ADD ${constraintName(table, suffix)} ${text}${isLate ? " NOT VALID" : ""}`;
      // Postgres before 18 doesn't know NOT ENFORCED.
      return `DO ${quoteLiteral(`BEGIN EXECUTE ${quoteLiteral(statement)};
        EXCEPTION WHEN duplicate_object OR invalid_table_definition OR syntax_error THEN NULL; END`)}`;
    }),
  );
  return [...indexes.map((index) => createIndex(index, names)), ...constraints];
}

/**
 * Validates constraints for stored rows, while tables are read and written. Rows of an earlier version may break one: then their table
 * stays without it.
 */
export function validateKeysAndChecks(names: SchemaNames): readonly string[] {
  return tables.flatMap((table) =>
    constraintsOf(table, names).flatMap(({ suffix, isLate }) => {
      const name = constraintName(table, suffix);
      const validate = `BEGIN ${alter(table, names)} VALIDATE ${name};
        EXCEPTION WHEN check_violation OR foreign_key_violation THEN ${alter(table, names)} DROP ${name}; END`;
      return isLate ? [`DO ${quoteLiteral(validate)}`] : [];
    }),
  );
}

/** Indexes of analysts, by table and column, with their cost in a first run. Texts of any length need a hash. */
const indexes = [
  ["match_history", "service_pid", "btree"], // 0.6 %
  ["person", "_record_synced_at", "btree"], // 0.4 %
  ["person_phone", "phone_number", "hash"], // 1.7 %
  ["input_email", "email_address", "hash"], // 3 ms per 1,000 people
  ["death_signal", "first_observed_at", "btree"], // few rows
] as const;

function createIndex([table, column, method]: (typeof indexes)[number], names: SchemaNames): string {
  const name = `${table}_by_${column.replace(/^_/u, "")}`;
  return `CREATE INDEX IF NOT EXISTS ${name} ON ${tableText(names, table)} USING ${method} (${quoteIdentifier(column)})`;
}

const list = (columns: readonly string[]) => columns.map(quoteIdentifier).join(", ");
const alter = ({ name }: Table, names: SchemaNames) => `ALTER TABLE ${tableText(names, name)}`;
const constraintName = ({ name }: Table, suffix: string) =>
  `CONSTRAINT ${quoteIdentifier(`${name}_${suffix}`)}`;

function constraintsOf(table: Table, names: SchemaNames): readonly Constraint[] {
  return [...primaryKey(table), ...foreignKey(table, names), ...checks(table)];
}

/** Primary key of a table of a single row, which has none declared; logical replication needs it. */
function primaryKey({ name, key }: Table): readonly Constraint[] {
  if (key.length > 0) return [];
  if (name !== "warehouse_identity") throw new Error(`${name} has no key.`);
  return [{ suffix: "pkey", text: "PRIMARY KEY (service_host)" }];
}

/**
 * Foreign key to what a row belongs to. Postgres checks it for each new row, which would cost a first run an eighth of its CPU: those of
 * long lists are only declared, for BI tools. Rows are deleted in any order, so the others are checked at the end of a transaction.
 */
function foreignKey(table: Table, names: SchemaNames): readonly Constraint[] {
  const join = foreignKeyOf(table);
  if (join === null) return [];
  const suffix = `${join.to}_fkey`;
  const text = `FOREIGN KEY (${list(join.columns)}) REFERENCES ${tableText(names, join.to)} (${list(join.toColumns)})`;
  return join.to === "person" || table.name === "audience_search_member"
    ? [{ suffix, text: `${text} NOT ENFORCED` }]
    : [{ suffix, text: `${text} DEFERRABLE INITIALLY DEFERRED`, isLate: true }];
}

function checks({ columns }: Table): readonly Constraint[] {
  return columns.flatMap(({ name, values }) => {
    if (values === undefined) return [];
    const text = `CHECK (${quoteIdentifier(name)} IN (${values.map(quoteLiteral).join(", ")}))`;
    return [{ suffix: `${name}_check`, text, isLate: true as const }];
  });
}
