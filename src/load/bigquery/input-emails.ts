import type { LookupSpec } from "../warehouse.ts";
import { MAX_KEY_BYTES } from "./classify.ts";
import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";
import { NOW_NAME } from "./session.ts";
import type { CountRows, FreezePlace, SelectionTables } from "./selection-tables.ts";
import { ownsKey } from "./shard-rows.ts";

/** Addresses that `input_email` should have for the keys of the shard. */
function wantedRows({ addresses }: SelectionTables, { shard }: LookupSpec): string {
  return `SELECT source_key, position, email_address FROM ${addresses}
    WHERE copy = 1 AND source_key IS NOT NULL AND BYTE_LENGTH(source_key) <= ${MAX_KEY_BYTES}
      AND email_address IS NOT NULL AND NOT is_suppressed AND ${ownsKey(shard, "source_key")}`;
}

/** Keys that the input has; those that are no longer in it stay as they are. */
function presentKeys({ addresses }: SelectionTables): string {
  return `SELECT DISTINCT source_key FROM ${addresses} WHERE source_key IS NOT NULL`;
}

/** Rows of `input_email` that differ: `gone` is true for those to be removed. */
export function differingEmails(names: DatasetNames, spec: LookupSpec, tables: SelectionTables): string {
  return `SELECT COALESCE(w.source_key, t.source_key) AS source_key, COALESCE(w.position, t.position) AS position,
      w.email_address, w.source_key IS NULL AS gone
    FROM (${wantedRows(tables, spec)}) AS w
    FULL JOIN (
      SELECT e.source_key, e.position, e.email_address FROM ${tableText(names, "data", "input_email")} AS e
      JOIN (${presentKeys(tables)}) AS p ON p.source_key = e.source_key
      WHERE e.source = ${quoteLiteral(spec.input.name)} AND ${ownsKey(spec.shard, "e.source_key")}) AS t
      ON t.source_key = w.source_key AND t.position = w.position
    WHERE w.email_address IS DISTINCT FROM t.email_address`;
}

/** Statements that bring `input_email` up to date: only rows that differ are written. */
export function emailStatements({ names, spec, tables, runId }: FreezePlace, count: CountRows): string {
  const table = tableText(names, "data", "input_email");
  return `
    CREATE TEMP TABLE email_change AS ${differingEmails(names, spec, tables)};
    DELETE FROM ${table} AS t WHERE t.source = ${quoteLiteral(spec.input.name)}
      AND EXISTS (SELECT 1 FROM email_change AS c WHERE c.source_key = t.source_key AND c.position = t.position);
    INSERT INTO ${table} (source, source_key, position, email_address, _synced_at, _run_id)
      SELECT ${quoteLiteral(spec.input.name)}, source_key, position, email_address, ${NOW_NAME}, ${quoteLiteral(runId)} FROM email_change WHERE NOT gone;
    ${count("input_email", "(SELECT COUNT(*) FROM email_change)")}`;
}
