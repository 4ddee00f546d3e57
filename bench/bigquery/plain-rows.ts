import { createWriteStream, mkdirSync, type WriteStream } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { encodePerson, listGroups, scalarNames } from "../../src/load/person-groups.ts";
import { createRowStore } from "../../src/load/row-store.ts";
import type { Cell } from "../../src/schemas/convert.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import { tableNamed } from "../../src/schemas/registry.ts";
import { callsAbout } from "./answers.ts";

/**
 * Writes the rows of the same people as NDJSON, one file a table, ready for a plain load; tells the bytes that BigQuery
 * counts for them. `node bench/bigquery/plain-rows.ts FOLDER PEOPLE DAY`
 */
const [folder = "", people = "0", day = "0"] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const AT = "2026-11-20T04:00:00.000000Z";

/** Bytes of a value by Google's table of data types; STRING, JSON and BYTES: theirs and two. */
const sizes: Partial<Record<ColumnType, number>> = {
  integer: 8,
  position: 8,
  boolean: 1,
  date: 8,
  timestamptz: 8,
  timestamp: 8,
  numeric: 32,
};

interface PlainTable {
  readonly file: WriteStream;
  readonly types: ReadonlyMap<string, ColumnType>;
  rows: number;
  logicalBytes: number;
}

const open = new Map<string, PlainTable>();

function tableOf(name: string): PlainTable {
  const known = open.get(name);
  if (known) return known;
  const types = new Map(tableNamed(name).columns.map((c) => [c.name, c.type]));
  const table = { file: createWriteStream(join(folder, `${name}.ndjson`)), types, rows: 0, logicalBytes: 0 };
  open.set(name, table);
  return table;
}

function write(name: string, columns: readonly string[], cells: readonly (Cell | undefined)[]): void {
  const table = tableOf(name);
  const row: Record<string, unknown> = {};
  for (const [i, cell] of cells.entries()) {
    const column = columns[i] ?? "";
    if (cell === null || cell === undefined) continue;
    const type = table.types.get(column) ?? "text";
    row[column] = type === "json" ? JSON.parse(cell) : cell;
    table.logicalBytes += sizes[type] ?? Buffer.byteLength(cell) + 2;
  }
  table.rows += 1;
  table.file.write(`${JSON.stringify(row)}\n`);
}

const own = ["_synced_at", "_run_id"];
for (const call of callsAbout(Number(people), Number(day))) {
  for (const { index, person, servicePid, cells } of call.answers) {
    const key = ["enrich_customers", "customers", String(index)];
    write(
      "enrichment",
      [
        "job",
        "source",
        "source_key",
        "is_match",
        "service_pid",
        "match_score",
        "api_request_id",
        "request_completed_at",
        "first_matched_at",
        "last_matched_at",
        "last_matched_service_pid",
        ...own,
      ],
      [...key, cells[0], cells[1], cells[2], call.callId, AT, AT, AT, servicePid, AT, "run"],
    );
    write(
      "match_history",
      ["job", "source", "source_key", "valid_from", "is_match", "service_pid", "match_score", ...own],
      [...key, AT, cells[0], cells[1], cells[2], AT, "run"],
    );
    write(
      "lookup_state",
      [
        "job",
        "source",
        "source_key",
        "parameters_hash",
        "outcome",
        "attempts",
        "answered_at",
        "call_id",
        ...own,
      ],
      [...key, "bench", "matched", "1", AT, call.callId, AT, "run"],
    );
    if (!person) continue;
    const { groups } = encodePerson(person, AT, createRowStore(16));
    write(
      "person_state",
      ["service_pid", "group_hashes", "answered_at", ...own],
      [person.servicePid, groups.map((group) => group?.hash ?? "").join(""), AT, AT, "run"],
    );
    write(
      "person",
      ["service_pid", ...scalarNames, "_extra", "_record_synced_at", ...own],
      [person.servicePid, ...person.scalars, person.extra, AT, AT, "run"],
    );
    for (const [i, group] of listGroups.entries()) {
      const list = person.lists[i];
      for (const row of list?.rows ?? []) write(group.table, [...group.columns, ...own], [...row, AT, "run"]);
      const { subjects } = group;
      if (!subjects) continue;
      for (const row of list?.subjects ?? [])
        write(subjects.table, [...subjects.columns, ...own], [...row, AT, "run"]);
    }
  }
  for (const { file } of open.values()) if (file.writableNeedDrain) await once(file, "drain");
}
const told: Record<string, { rows: number; logicalBytes: number }> = {};
for (const [name, { file, rows, logicalBytes }] of open) {
  file.end();
  await once(file, "finish");
  told[name] = { rows, logicalBytes };
}
process.stdout.write(JSON.stringify(told));
