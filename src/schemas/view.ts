import type { Column, PublishedSchema } from "./table.ts";

/** SQL dialects that a view is written in. */
export type Dialect = "postgres" | "bigquery" | "duckdb";

/** One declared view: the same name, columns and meaning in every engine. */
export interface View {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly doc: string;
  readonly columns: readonly Column[];
  /** Tables and views that it reads; it is created only where all of them are. */
  readonly reads: readonly string[];
  /** Builds the SELECT. `ref` returns the qualified, quoted name of a table or view in the engine at hand. */
  readonly select: (dialect: Dialect, ref: (name: string) => string) => string;
}
