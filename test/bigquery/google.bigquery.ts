import { expect, test } from "vitest";
import { quoteIdentifier, quoteLiteral } from "../../src/bigquery/sql.ts";
import { columnType, tableName } from "../../src/publish/bigquery/datasets.ts";
import { measureQuery, statementsOf } from "../../src/publish/bigquery/destination.ts";
import { stagingTable } from "../../src/publish/bigquery/stage.ts";
import { declaredCatalog, type PublishedTable, withViews } from "../../src/publish/destination.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import type { Column } from "../../src/schemas/table.ts";
import { hardTexts } from "../publish/destination-suite.ts";
import { hashOf } from "../publish/row-hash.ts";
import { batchAfter, type FileRow, tableIn, valuesByType } from "../publish/staged-files.ts";
import { inputViews, queryOf, shownRow, viewResults, viewRows } from "../publish/view-rows.ts";
import { modifiedByGoogle, queriedByGoogle } from "../support/bigquery/google.ts";

/** Statements run by Google's reference implementation, whose tables are expressions. */
const catalog = withViews(declaredCatalog(null), inputViews);
const names = { project: "p", data: "d", ops: "o", staging: "s", kmsKey: null };

/** A value of a file in Google's SQL. */
function literal(column: Pick<Column, "type" | "isShort">, value: unknown): string {
  const { type } = column;
  const of = columnType(column);
  if (Array.isArray(value))
    return `CAST([${value.map((one) => quoteLiteral(String(one))).join(", ")}] AS ${of})`;
  if (value === null || value === undefined) return `CAST(NULL AS ${of})`;
  const text = quoteLiteral(typeof value === "string" ? value : JSON.stringify(value));
  if (type === "json") return `PARSE_JSON(${text})`;
  return type === "bytes" ? `FROM_BASE64(${text})` : `CAST(${text} AS ${of})`;
}

/** Rows of a table as a query; `SELECT` of nulls without rows. */
function rowsText({ columns }: PublishedTable, rows: readonly FileRow[]): string {
  const select = (row: FileRow) =>
    `SELECT ${columns.map((c) => `${literal(c, row[c.name])} AS ${quoteIdentifier(c.name)}`).join(", ")}`;
  return rows.length === 0
    ? `SELECT * FROM (${select({})}) WHERE FALSE`
    : rows.map(select).join(" UNION ALL ");
}

const withParts = (parts: ReadonlyMap<string, string>, query: string) =>
  `WITH ${[...parts].map(([name, text]) => `${quoteIdentifier(name)} AS (${text})`).join(", ")} ${query}`;

test.each(viewResults)("Google finds the rows of a view as other engines do: %s", async (query, expected) => {
  const parts = new Map<string, string>();
  const add = (name: string) => {
    if (parts.has(name)) return;
    const view = catalog.views.find((one) => one.name === name);
    for (const read of view?.reads ?? []) add(read);
    const rows = viewRows.find(({ table }) => table === name)?.rows ?? [];
    parts.set(name, view ? view.select("bigquery", quoteIdentifier) : rowsText(tableIn(catalog, name), rows));
  };
  const text = queryOf(query, (view) => {
    add(view);
    return quoteIdentifier(view);
  }).replaceAll('"', "`");
  const rows = await queriedByGoogle<object>(withParts(parts, text));
  expect(rows.map(shownRow)).toEqual(expected);
});

test("Google hashes values of every type as Postgres does", async () => {
  const seen = new Set<ColumnType>();
  for (const table of catalog.tables) {
    if (table.columns.every(({ type, isShort }) => seen.has(type) && !isShort)) continue;
    for (const { type } of table.columns) seen.add(type);
    const rows = [valuesByType, { numeric: "100", "text[]": [] }].map((row: Partial<typeof valuesByType>) =>
      Object.fromEntries(
        table.columns.map(({ name, type, isShort }) => [name, isShort ? "12.5" : (row[type] ?? null)]),
      ),
    );
    const { text } = measureQuery(names, [table]);
    const own = text.replaceAll(tableName(names, table.schema, table.name), quoteIdentifier(table.name));
    const parts = new Map([[table.name, rowsText(table, rows)]]);
    const [found] = await queriedByGoogle<{ row_count: number; row_hash: string }>(withParts(parts, own));
    expect([table.name, String(found?.row_count), String(found?.row_hash)]).toEqual([
      table.name,
      "2",
      hashOf(table, rows, "json"),
    ]);
  }
  expect(seen).toEqual(new Set(Object.keys(valuesByType)));
});

const textColumn = (name: string) => ({ name, type: "text" as const, pii: "none" as const, doc: "" });

/** Statements of a batch of keys on a table whose columns are texts, with short names of its tables. */
function changeOf(key: readonly string[], rootKey: readonly string[]) {
  const columns = [...key, "value"].map(textColumn);
  const table: PublishedTable = { name: "t", schema: "data", doc: "", key, rootKey, columns };
  const batch = batchAfter(null);
  const short = (text: string) =>
    text
      .replaceAll(tableName(names, "data", "t"), "`t`")
      .replaceAll(stagingTable(names, batch, table, "keys"), "`keys`")
      .replaceAll(stagingTable(names, batch, table, "rows"), "`rows`");
  return statementsOf(names, batch, { table, replaces: "keys", hasRows: true }).map(short);
}

test("Google deletes exactly the rows of a batch's keys, whatever the texts", async () => {
  const [deletion = "", insertion = ""] = changeOf(["k"], ["k"]);
  const texts = hardTexts.filter((text) => text !== "");
  const rows = texts.map((text) => [text, text]);
  const kept = texts.filter((_, index) => index % 2 === 0);
  const keys = texts.filter((text) => !kept.includes(text)).map((text) => [text]);
  const deleted = await modifiedByGoogle(deletion, { t: [["k", "value"], rows], keys: [["k"], keys] });
  expect(new Set(deleted.map(([operation, key]) => `${operation} ${key}`))).toEqual(
    new Set(keys.map(([key]) => `DELETE ${key}`)),
  );
  const inserted = await modifiedByGoogle(insertion, {
    t: [["k", "value"], [["another", ""]]],
    rows: [["k", "value"], rows],
  });
  expect(new Set(inserted.map((row) => row.join(" ")))).toEqual(
    new Set(texts.map((text) => `INSERT ${text} ${text}`)),
  );
});

test("Google finds the rows of keys of several columns", async () => {
  const [deletion = ""] = changeOf(["id", "job", "source"], ["job", "source"]);
  const rows = [
    ["1", "j", "s", ""],
    ["2", "j", "other", ""],
    ["3", "other", "s", ""],
    ["4", "j", "s", ""],
  ];
  const columns = ["id", "job", "source", "value"];
  const deleted = await modifiedByGoogle(deletion, {
    t: [columns, rows],
    keys: [["job", "source"], [["j", "s"]]],
  });
  expect(new Set(deleted.map(([, id]) => id))).toEqual(new Set(["1", "4"]));
});

test("JSON that BigQuery refuses is kept as the text that it is, and does not stop its batch", async () => {
  await expect(
    queriedByGoogle("SELECT PARSE_JSON('1e400', wide_number_mode => 'round') AS j"),
  ).rejects.toThrow("number overflow parsing");
  const table: PublishedTable = {
    name: "t",
    schema: "data",
    doc: "",
    key: [],
    rootKey: [],
    columns: [{ name: "j", type: "json", pii: "none", doc: "" }],
  };
  const batch = batchAfter(null);
  const [, insertion = ""] = statementsOf(names, batch, { table, replaces: "all", hasRows: true });
  const select = insertion.slice(insertion.indexOf("SELECT"));
  const texts = ['{"a": 1e400}', '{"a": 1}', "null", `[${"9".repeat(400)}]`, null];
  const staged = texts.map((text) => `SELECT ${literal({ type: "text" }, text)} AS j`).join(" UNION ALL ");
  const own = select.replaceAll(stagingTable(names, batch, table, "rows"), `(${staged})`);
  // A JSON null is no SQL null.
  const shown = `SELECT TO_JSON_STRING(v) AS json, v IS NULL AS is_null FROM (${own.replace("FROM", "AS v FROM")})`;
  expect(await queriedByGoogle(shown)).toEqual([
    { json: JSON.stringify('{"a": 1e400}'), is_null: false },
    { json: '{"a":1}', is_null: false },
    { json: "null", is_null: false },
    { json: JSON.stringify(`[${"9".repeat(400)}]`), is_null: false },
    { json: "null", is_null: true },
  ]);
});
