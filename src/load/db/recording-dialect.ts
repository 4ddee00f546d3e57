import {
  type Dialect,
  DummyDriver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from "kysely";

/** A dialect that keeps the text of every statement and runs none. */
export function recordingDialect(statements: string[]): Dialect {
  return {
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createDriver: () =>
      new (class extends DummyDriver {
        override async acquireConnection() {
          return {
            async executeQuery(query: { readonly sql: string }) {
              statements.push(query.sql);
              return { rows: [] };
            },
            async *streamQuery() {},
          };
        }
      })(),
  };
}
