import {
  DummyDriver,
  type KyselyPlugin,
  Kysely,
  OperationNodeTransformer,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryCreator,
  type RawBuilder,
  SchemableIdentifierNode,
  sql,
} from "kysely";
import { type Database, schemaOf } from "../../schemas/registry.ts";
import type { Schema } from "../../schemas/table.ts";

export type SchemaNames = Readonly<Record<Schema, string>>;

/** Compiles statements; never connects. Values become parameters, `sql.id` quotes identifiers. */
export const compiler = new Kysely<Database>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
});

/** Replaces the declared schema of a table by the configured one; kysely takes only a class for this. */
class SchemaTransformer extends OperationNodeTransformer {
  readonly #names: Readonly<Record<string, string>>;
  constructor(names: SchemaNames) {
    super();
    this.#names = names;
  }
  protected override transformSchemableIdentifier(node: SchemableIdentifierNode): SchemableIdentifierNode {
    const schema = this.#names[node.schema?.name ?? ""];
    return schema === undefined
      ? node
      : SchemableIdentifierNode.createWithSchema(schema, node.identifier.name);
  }
}

/** Builder of queries on declared tables and views, named `SCHEMA.NAME` with the declared schema. */
export function queriesOf(names: SchemaNames): QueryCreator<Database> {
  const transformer = new SchemaTransformer(names);
  const plugin: KyselyPlugin = {
    transformQuery: ({ node, queryId }) => transformer.transformNode(node, queryId),
    transformResult: async ({ result }) => result,
  };
  return compiler.withPlugin(plugin);
}

/** Qualified name of a declared table or view, quoted. */
export function tableId(names: SchemaNames, name: string): RawBuilder<unknown> {
  return sql.id(names[schemaOf(name)], name);
}

/** Text of {@link tableId}. */
export function tableText(names: SchemaNames, name: string): string {
  return quoteQualified([names[schemaOf(name)], name]);
}

/** Start of the transaction. */
export const NOW = sql<string>`now()`;
/** Time of the server's clock. */
export const CLOCK = sql<string>`clock_timestamp()`;
/** Time of the server's clock after so many milliseconds. */
export const after = (ms: number) => sql<string>`clock_timestamp() + ${ms} * interval '1 millisecond'`;

/** Sequence that numbers calls. */
export const CALL_NUMBERS = "call_number";

/** Draws the next number of a call. */
export function nextCallNumber(names: SchemaNames): RawBuilder<number> {
  return sql`nextval(${quoteQualified([names.state, CALL_NUMBERS])}::text::regclass)`;
}

/**
 * Identity of the connected database, by its cluster and OID. A copy made by dump and restore or from a template has another one; rows
 * and names are equal there.
 */
export const THIS_DATABASE = `(SELECT c.system_identifier || '/' || d.oid FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d
  WHERE d.datname = pg_catalog.current_database())`;

/** Quotes an identifier, for statements built as plain text. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Quotes a text literal; only for our own texts, never for data. */
export function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function quoteQualified(parts: readonly string[]): string {
  return parts.map(quoteIdentifier).join(".");
}
