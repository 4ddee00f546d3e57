import { bigQueryOfRun, freshDatasets } from "./test-bigquery.ts";

/** Texts of a table: its columns, the first of which is the key, and its rows. */
export type TextTable = readonly [columns: readonly string[], rows: readonly (readonly string[])[]];

/** Row that a statement inserts or deletes; a deleted one by its key. */
interface ModifiedRow {
  readonly operation: "INSERT" | "DELETE";
  readonly cell?: readonly { readonly stringValue?: string }[];
  readonly oldPrimaryKey?: readonly { readonly stringValue?: string }[];
}

async function ask<Answer>(body: object): Promise<Answer> {
  const { apiEndpoint } = await bigQueryOfRun();
  const response = await fetch(`${apiEndpoint}/google`, { method: "POST", body: JSON.stringify(body) });
  // The form of the door in front of the emulator.
  const answer = (await response.json()) as Answer & { readonly error?: unknown };
  if (answer.error !== undefined) throw new Error(JSON.stringify(answer.error));
  return answer;
}

/** Rows of a query without tables, run by Google's reference implementation, or by BigQuery itself where there is one. */
export async function queriedByGoogle<Row>(query: string): Promise<readonly Row[]> {
  const sql = `ARRAY(SELECT TO_JSON_STRING(t) FROM (${query}) AS t)`;
  const { apiEndpoint } = await bigQueryOfRun();
  if (apiEndpoint === null) {
    const { session } = await freshDatasets();
    const [row] = await session.rows<{ all_rows: readonly string[] }>({ text: `SELECT ${sql} AS all_rows` });
    return (row?.all_rows ?? []).map((text): Row => JSON.parse(text));
  }
  const { arrayValue } = await ask<{
    readonly arrayValue: { readonly element?: readonly { readonly stringValue: string }[] };
  }>({ sql });
  return (arrayValue.element ?? []).map(({ stringValue }): Row => JSON.parse(stringValue));
}

/** Texts of the rows that a statement inserts, and of the keys of those that it deletes. */
export async function modifiedByGoogle(
  sql: string,
  tables: Readonly<Record<string, TextTable>>,
): Promise<readonly (readonly [operation: string, ...texts: readonly (string | undefined)[]])[]> {
  const { content = [] } = await ask<{ readonly content?: readonly ModifiedRow[] }>({ sql, tables });
  return content.map(({ operation, cell, oldPrimaryKey }) => [
    operation,
    ...(operation === "DELETE" ? (oldPrimaryKey ?? []) : (cell ?? [])).map((value) => value.stringValue),
  ]);
}
