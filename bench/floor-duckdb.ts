import { readFileSync } from "node:fs";
import { DuckDBInstance } from "@duckdb/node-api";

/**
 * Loads files in COPY's text form into a new DuckDB file with DuckDB's own reader and settings: `node bench/floor-duckdb.ts FILE LIST`,
 * where LIST is a JSON file of [table, types by column, files].
 */
const [file = "", list = ""] = process.argv.slice(2);
// Written by bench/publish.ts.
const tables = JSON.parse(readFileSync(list, "utf8")) as [string, Record<string, string>, string[]][];
const text = (value: string) => `'${value.replaceAll("'", "''")}'`;
const instance = await DuckDBInstance.create(file);
const connection = await instance.connect();
for (const [name, types, files] of tables) {
  const columns = [["start of line", "VARCHAR"] as const, ...Object.entries(types)].map(
    ([column, type]) => `${text(column)}: ${text(type)}`,
  );
  await connection.run(
    `CREATE TABLE "${name}" AS SELECT * EXCLUDE "start of line" FROM read_csv([${files.map(text).join(", ")}], auto_detect = false, header = false,
      delim = '\t', quote = '', escape = '', nullstr = '\\N', columns = {${columns.join(", ")}})`,
  );
}
await connection.run("CHECKPOINT");
connection.closeSync();
instance.closeSync();
