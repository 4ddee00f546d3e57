/** Where a job's input rows are: a table or a query, in the warehouse itself or behind another connection. */
export interface InputSource {
  /** Name in the configuration; `source` of every row that stands for it. */
  readonly name: string;
  /** Name and connection string of another database; null for the warehouse itself. */
  readonly connection: { readonly name: string; readonly url: string } | null;
  /** A table by its name parts, or a query. */
  readonly relation: { readonly table: readonly string[] } | { readonly sql: string };
  readonly where: string | null;
  readonly orderBy: string | null;
  /** Key columns, in order. */
  readonly key: readonly string[];
  readonly cursor: { readonly column: string; readonly overlapMs: number } | null;
  /** Columns by field of the interface's input record; with a shard also those that the job doesn't send. */
  readonly fields: Readonly<Record<string, readonly string[]>>;
}
