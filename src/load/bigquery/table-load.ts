import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";

/** Variables that count changed rows by table, the statements that add to them, and what is made of them at the end. */
export interface RowCounts {
  /** `DECLARE`d names. */
  readonly declare: readonly string[];
  readonly names: readonly string[];
  readonly add: (table: string, rows?: string) => string;
  /** Notes changed rows of a table that don't count. */
  readonly addAside: (table: string, rows: string) => string;
  /** Columns of a SELECT: one per table. */
  readonly outcome: string;
  /** Notes which tables were changed, for `table_freshness`. */
  touch(names: DatasetNames, run: { readonly job: string; readonly runId: string }): readonly string[];
}

function name(table: string): string {
  return `n_${table}`;
}

function asideName(table: string): string {
  return `aside_${table}`;
}

/** Counts the changed rows of some tables inside a script; of those `aside` only notes that they were changed. */
export function countRows(tables: readonly string[], aside: readonly string[] = []): RowCounts {
  const variables = [
    ...tables.map((table) => ({ table, variable: name(table) })),
    ...aside.map((table) => ({ table, variable: asideName(table) })),
  ];
  return {
    declare: variables.map(({ variable }) => `${variable} INT64 DEFAULT 0`),
    names: tables.map(name),
    add: (table, rows = "@@row_count") => `SET ${name(table)} = ${name(table)} + ${rows};`,
    addAside: (table, rows) => `SET ${asideName(table)} = ${asideName(table)} + ${rows};`,
    outcome: tables.map((table) => `${name(table)} AS ${table}`).join(", "),
    touch(names, { job, runId }) {
      const load = tableText(names, "ops", "table_load");
      const touched = `SELECT DISTINCT table_name FROM UNNEST([${variables
        .map(({ table, variable }) => `IF(${variable} > 0, '${table}', NULL)`)
        .join(", ")}]) AS table_name WHERE table_name IS NOT NULL`;
      return [
        `UPDATE ${load} SET last_changed_at = ${NOW_NAME}, _synced_at = ${NOW_NAME}, _run_id = ${quoteLiteral(runId)}
          WHERE job = ${quoteLiteral(job)} AND table_name IN (${touched})`,
        `INSERT INTO ${load} (table_name, job, last_success_at, last_changed_at, _synced_at, _run_id)
          SELECT table_name, ${quoteLiteral(job)}, NULL, ${NOW_NAME}, ${NOW_NAME}, ${quoteLiteral(runId)} FROM (${touched})
          WHERE table_name NOT IN (SELECT table_name FROM ${load} WHERE job = ${quoteLiteral(job)})`,
      ];
    },
  };
}
