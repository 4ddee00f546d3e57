import { partsRead } from "../mapped-columns.ts";
import { Readable } from "node:stream";
import { type ForeignDatabase, type RowColumn, rowColumns } from "../foreign-database.ts";
import type { BigQueryConnection } from "../input-source.ts";
import { encodeRows } from "../../lookups/row-store.ts";
import { openClient } from "../../../bigquery/client.ts";
import { checkInput, describeColumns, finderOf, narrowToKey, rawSelect } from "./input.ts";
import { sampleInput } from "./sample-bigquery.ts";
import { findNamingRows } from "./naming-rows.ts";
import { openSession } from "../../../bigquery/session.ts";

/** Rows per page: a few megabytes. */
const PAGE_SIZE = 5000;

/** Row of a query, with the columns of {@link rowColumns}. */
type RawValues = Readonly<Record<string, string | readonly string[] | number | null>>;

/** Opens a BigQuery project that inputs are read from; connects on first use. */
export function openBigQueryDatabase(connection: BigQueryConnection): ForeignDatabase {
  const { dataset, location, maximumBytesBilled } = connection;
  const session = openSession({
    client: openClient(connection),
    dataset,
    location,
    maximumBytesBilled,
  });
  return {
    checkInput: (input) => checkInput(session, input),
    describe: (input) => describeColumns(session, { ...input, where: null }),
    sampleInput: (input) => sampleInput(session, input),
    async read(input, reading, work) {
      const columns = await describeColumns(session, input);
      const parts = partsRead(input, reading, finderOf(columns));
      const { only, among } = reading;
      const text = rawSelect(narrowToKey(input, columns, reading), parts, columns, reading);
      const parameters = {
        ...Object.fromEntries((only ?? []).map((value, i) => [`key_${i}`, value])),
        ...(among && "keys" in among ? { among: among.keys } : {}),
      };
      const rowNames = rowColumns(input, parts, reading);
      return work({
        parts,
        // BigQuery has no unique indexes.
        keyIsUnique: false,
        columns: rowNames,
        copyText: () => streamOf(session.pages<RawValues>({ text, parameters }, PAGE_SIZE), rowNames),
      });
    },
    findRows: (input, wanted) => findNamingRows(session, input, wanted),
    async close() {},
  };
}

function streamOf(pages: AsyncIterable<readonly RawValues[]>, columns: readonly RowColumn[]): Readable {
  async function* chunks(): AsyncGenerator<Buffer> {
    for await (const page of pages) yield copyText(page, columns);
  }
  return Readable.from(chunks(), { objectMode: false });
}

function copyText(page: readonly RawValues[], columns: readonly RowColumn[]): Buffer {
  return encodeRows(page.map((row) => columns.map(({ name }) => cellOf(row[name] ?? null))));
}

/** Replaces NUL, which Postgres can't store, by U+FFFD. */
function cellOf(value: RawValues[string]): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return withoutNul(value);
  if (typeof value !== "object") return String(value);
  return `{${value.map((text) => `"${withoutNul(text).replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}

function withoutNul(text: string): string {
  return text.includes("\0") ? text.replaceAll("\0", "\uFFFD") : text;
}
