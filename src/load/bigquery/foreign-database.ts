import { Readable } from "node:stream";
import { sql } from "kysely";
import { type ForeignDatabase, type RowColumn, rowColumns } from "../foreign-database.ts";
import type { BigQueryConnection } from "../input-source.ts";
import { encodeRows } from "../row-store.ts";
import { openClient } from "./client.ts";
import { checkInput, isCursorValue } from "./input.ts";
import { openLocalInput } from "./foreign-input.ts";
import { findNamingRows } from "./naming-rows.ts";
import { sizeOf } from "./scan-size.ts";
import { openSession, type Session } from "./session.ts";

/** Rows that are read at once: some megabytes. */
const PAGE_SIZE = 5000;

/** A row as BigQuery gives it: what {@link rowColumns} says. */
type RawValues = Readonly<Record<string, string | readonly string[] | boolean | number | null>>;

/** A project of BigQuery as a database that inputs are read from; connects at the first use. */
export function openBigQueryDatabase(connection: BigQueryConnection): ForeignDatabase {
  const { project, dataset, location, maximumBytesBilled } = connection;
  const session = openSession({
    client: openClient(connection),
    // Nothing of ours is there.
    names: { project, data: dataset ?? "", ops: "" },
    location,
    maximumBytesBilled,
  });
  return {
    checkInput: (input) => checkInput(session, input),
    isCursorValue: (input, value) => isCursorValue(session, input, value),
    async read(input, reading, work) {
      const { type } = reading;
      const opened = await openLocalInput(session, { input, type }, reading);
      const cursorMax = opened.cursorMax === null ? null : await readText(session, opened.cursorMax);
      const { parts, otherParts, rawRows } = opened;
      const columns = rowColumns(input, [...parts, ...otherParts], reading);
      const pages = () => session.pages<RawValues>(sql.raw(rawRows), PAGE_SIZE);
      return work({
        parts,
        otherParts,
        // No index tells so.
        keyIsUnique: false,
        cursorMax,
        columns,
        copyText: () => streamOf(pages(), (page) => copyText(page, columns)),
        jsonLines: () => streamOf(pages(), jsonLines),
      });
    },
    async scannedBytes(input, reading) {
      const { rawRows, cursorMax } = await openLocalInput(session, { input, type: reading.type }, reading);
      return sizeOf(session, cursorMax === null ? [rawRows] : [rawRows, cursorMax]);
    },
    findRows: (input, wanted) => findNamingRows(session, input, wanted),
    async close() {},
  };
}

async function readText(session: Session, query: string): Promise<string | null> {
  const [row] = await session.rows<{ value: string | null }>(sql.raw(`SELECT (${query}) AS value`));
  return row?.value ?? null;
}

function streamOf(
  pages: AsyncIterable<readonly RawValues[]>,
  encode: (page: readonly RawValues[]) => Buffer,
): Readable {
  async function* chunks(): AsyncGenerator<Buffer> {
    for await (const page of pages) yield encode(page);
  }
  return Readable.from(chunks(), { objectMode: false });
}

function jsonLines(page: readonly RawValues[]): Buffer {
  return Buffer.from(page.map((row) => `${JSON.stringify(row)}\n`).join(""));
}

function copyText(page: readonly RawValues[], columns: readonly RowColumn[]): Buffer {
  return encodeRows(page.map((row) => columns.map(({ name }) => cellOf(row[name] ?? null))));
}

/** NUL, which Postgres has no place for, becomes U+FFFD, as in everything that is loaded there. */
function cellOf(value: RawValues[string]): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return withoutNul(value);
  if (typeof value !== "object") return String(value);
  return `{${value.map((text) => `"${withoutNul(text).replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

function withoutNul(text: string): string {
  return text.includes("\0") ? text.replaceAll("\0", "\uFFFD") : text;
}
