import { open } from "node:fs/promises";
import { type RawBuilder, sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import type { RunRef } from "../books.ts";
import { type Manifest, openManifest } from "./manifest.ts";
import { tableText } from "./names.ts";
import type { Session } from "./session.ts";
import { createStagingTable, dropTable, loadFile } from "./staging.ts";

/** Rows that are many go through a load job, few travel with the statement; a variable of a script has at most 1 MB. */
const INLINE_BYTES = 400_000;
const BUFFER_LINES = 2000;

const columns = [
  { name: "list", type: "INTEGER" },
  { name: "ord", type: "INTEGER" },
  { name: "cells", type: "STRING" },
];

/** Lists of rows on their way into a transaction. */
export interface FeedRows {
  readonly declare: readonly RawBuilder<unknown>[];
  /** The rows of a list as a relation of `ord` (their order) and `cells` (JSON text of an array of texts and nulls). */
  source(list: number): string;
  /** Removes what was staged; idempotent. */
  drop(): Promise<void>;
}

/** Where rows are brought to. */
export interface StagePlace {
  readonly session: Session;
  /** Folder for rows on their way: personal data. */
  readonly workFolder: string;
}

/** A row on its way. */
interface StagedRow {
  readonly list: number;
  readonly text: string;
}

/** Brings lists of rows to BigQuery; each is read once. */
export async function stageRows(
  place: StagePlace,
  run: RunRef,
  lists: readonly Iterable<readonly Cell[]>[],
): Promise<FeedRows> {
  const rest = rowsOf(lists);
  const first: StagedRow[] = [];
  let bytes = 0;
  // Not for-of: where that is left, nobody can go on with the rest.
  for (let next = rest.next(); !next.done; next = rest.next()) {
    first.push(next.value);
    bytes += Buffer.byteLength(next.value.text) + 1;
    if (bytes > INLINE_BYTES) return loadRows(place, run, [first, rest]);
  }
  const texts = Map.groupBy(first, ({ list }) => list);
  return {
    declare: lists.map((_, i) => {
      const rows = (texts.get(i) ?? []).map(({ text }) => text);
      return sql`${sql.raw(variable(i))} STRING DEFAULT ${`[${rows.join(",")}]`}`;
    }),
    source: (list) =>
      `(SELECT ord, e AS cells FROM UNNEST(JSON_QUERY_ARRAY(${variable(list)})) AS e WITH OFFSET AS ord)`,
    drop: async () => {},
  };
}

function* rowsOf(lists: readonly Iterable<readonly Cell[]>[]): Generator<StagedRow> {
  for (const [list, rows] of lists.entries()) {
    for (const row of rows) yield { list, text: JSON.stringify(row) };
  }
}

function variable(list: number): string {
  return `_etl_rows_${list}`;
}

async function loadRows(
  { session, workFolder }: StagePlace,
  run: RunRef,
  parts: readonly Iterable<StagedRow>[],
): Promise<FeedRows> {
  const manifest = await openManifest(workFolder, run);
  const table = manifest.table("feed");
  const drop = async () => {
    await dropTable(session, table);
    await manifest.end();
  };
  try {
    await writeLines(manifest, parts);
    await manifest.note({ run, callIds: [], tables: [table] });
    await createStagingTable(session, table, columns);
    const file = manifest.file("rows.ndjson");
    await loadFile(session, { file, table, columns, jobId: manifest.jobId("feed", 1) });
  } catch (error) {
    await drop().catch(() => {});
    throw error;
  }
  return {
    declare: [],
    source: (list) =>
      `(SELECT ord, cells FROM ${tableText(session.names, "data", table)} WHERE list = ${list})`,
    drop,
  };
}

async function writeLines(manifest: Manifest, parts: readonly Iterable<StagedRow>[]): Promise<void> {
  const file = await open(manifest.file("rows.ndjson"), "w", 0o600);
  let ord = 0;
  let lines: string[] = [];
  try {
    for (const rows of parts) {
      for (const { list, text } of rows) {
        lines.push(`{"list":${list},"ord":${ord++},"cells":${JSON.stringify(text)}}\n`);
        if (lines.length < BUFFER_LINES) continue;
        await file.appendFile(lines.join(""));
        lines = [];
      }
    }
    await file.appendFile(lines.join(""));
  } finally {
    await file.close();
  }
}

/** A cell of a staged row, as text. */
export function cellText(index: number): string {
  return `JSON_VALUE(cells, '$[${index}]')`;
}
