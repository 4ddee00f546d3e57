import type { Column, PublishedSchema } from "../table.ts";

/** SQL dialects of views. */
export type Dialect = "postgres" | "bigquery" | "duckdb";

/** One declared view, with the same name, columns and meaning in every engine. */
export interface View {
  readonly name: string;
  readonly schema: PublishedSchema;
  readonly doc: string;
  readonly columns: readonly Column[];
  /** Tables and views that it reads; created only if all of them exist. */
  readonly reads: readonly string[];
  /** Builds the SELECT. `ref` returns the qualified, quoted name of a table or view in the engine. */
  readonly select: (dialect: Dialect, ref: (name: string) => string) => string;
}
