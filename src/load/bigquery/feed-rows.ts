import { type FileHandle, open } from "node:fs/promises";
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

/** Brings lists of rows to BigQuery. */
export async function stageRows(
  place: StagePlace,
  run: RunRef,
  lists: readonly Iterable<readonly Cell[]>[],
): Promise<FeedRows> {
  const inline: string[][] = [];
  let bytes = 0;
  for (const rows of lists) {
    const texts: string[] = [];
    inline.push(texts);
    for (const row of rows) {
      const text = JSON.stringify(row);
      bytes += Buffer.byteLength(text) + 1;
      if (bytes > INLINE_BYTES) return loadRows(place, run, lists);
      texts.push(text);
    }
  }
  return {
    declare: inline.map((texts, i) => sql`${sql.raw(variable(i))} STRING DEFAULT ${`[${texts.join(",")}]`}`),
    source: (list) =>
      `(SELECT ord, e AS cells FROM UNNEST(JSON_QUERY_ARRAY(${variable(list)})) AS e WITH OFFSET AS ord)`,
    drop: async () => {},
  };
}

function variable(list: number): string {
  return `_etl_rows_${list}`;
}

async function loadRows(
  { session, workFolder }: StagePlace,
  run: RunRef,
  lists: readonly Iterable<readonly Cell[]>[],
): Promise<FeedRows> {
  const manifest = await openManifest(workFolder, run);
  const table = manifest.table("feed");
  const drop = async () => {
    await dropTable(session, table);
    await manifest.end();
  };
  try {
    await writeLines(manifest, lists);
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

async function writeLines(manifest: Manifest, lists: readonly Iterable<readonly Cell[]>[]): Promise<void> {
  const file = await open(manifest.file("rows.ndjson"), "w", 0o600);
  try {
    for (const [list, rows] of lists.entries()) await writeList(file, list, rows);
  } finally {
    await file.close();
  }
}

async function writeList(file: FileHandle, list: number, rows: Iterable<readonly Cell[]>): Promise<void> {
  let ord = 0;
  let lines: string[] = [];
  for (const row of rows) {
    lines.push(`{"list":${list},"ord":${ord++},"cells":${JSON.stringify(JSON.stringify(row))}}\n`);
    if (lines.length < BUFFER_LINES) continue;
    await file.appendFile(lines.join(""));
    lines = [];
  }
  await file.appendFile(lines.join(""));
}

/** A cell of a staged row, as text. */
export function cellText(index: number): string {
  return `JSON_VALUE(cells, '$[${index}]')`;
}
