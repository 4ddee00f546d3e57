import type { Cell, DriftLog } from "../../src/schemas/convert.ts";
import type { LookupEndpoint } from "../../src/schemas/answer.ts";
import { extraCell, type FlatList, flattenerOf, type JsonObject } from "../../src/schemas/flatten.ts";
import { tableNamed } from "../../src/schemas/registry.ts";

/** A row by column name; columns absent from the record are absent. */
export type NamedRow = Readonly<Record<string, Cell>>;

/** Child tables of an enriched record by the interface's list names (section 2.14 and the contract). */
export const childTables: Readonly<Record<string, string>> = {
  personal_emails: "person_email",
  professional_emails: "person_email",
  phones: "person_phone",
  relatives: "person_relative",
  address_history: "person_address",
  work_experience: "person_work_experience",
  education_experience: "person_education_experience",
};

/** A flattened result with each cell under its column's name. */
export interface NamedResult {
  /** Scalar fields of the record, and columns derived from them. */
  readonly fields: NamedRow;
  readonly extra: Cell;
  /** Rows by list; undefined for a list absent from the record. */
  readonly lists: Readonly<Record<string, readonly NamedRow[] | undefined>>;
}

/** Items of a list's cell. */
export function textsOf(cell: string): readonly string[] {
  return [...cell.matchAll(/"((?:[^"\\]|\\.)*)"/gsu)].map(([, item = ""]) => item.replace(/\\(.)/gsu, "$1"));
}

function nameCells(tableName: string, cells: readonly Cell[]): NamedRow {
  const columns = tableNamed(tableName).columns.filter(
    (c) => c.name !== "_synced_at" && c.name !== "_run_id",
  );
  if (cells.length !== columns.length) {
    throw new Error(`${tableName}: ${cells.length} cells for ${columns.length} columns`);
  }
  return Object.fromEntries(columns.map((c, i) => [c.name, cells[i] ?? null]));
}

/** Flattens a result and names the cells by column. */
export function nameResult(
  endpoint: LookupEndpoint,
  result: JsonObject,
  pid: string | null,
  drift: DriftLog,
): NamedResult {
  const flattener = flattenerOf(endpoint.result);
  const { object, lists } = flattener.flatten(result, pid, drift);
  const fields = flattener.cellNames.flatMap((name, i) => {
    const cell = object.cells[i];
    return cell === undefined ? [] : [[name, cell] as const];
  });
  const nameList = (list: FlatList | undefined, i: number) => {
    const name = flattener.listNames[i] ?? "";
    return [name, list?.rows.map((row) => nameCells(childTables[name] ?? "", row))] as const;
  };
  return {
    fields: Object.fromEntries(fields),
    extra: extraCell(object.extra),
    lists: Object.fromEntries(lists.map(nameList)),
  };
}
