import { randomBytes } from "node:crypto";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import { inject } from "vitest";
import { filesIn } from "../support/files-in.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { copiedFrom, type OtherDatabase } from "./foreign-context.ts";
import { connectAsText } from "./postgres-context.ts";

/** Opens a Postgres in which tests write the tables `crm.…`; `flush` copies them into a DuckDB file, from where they are read. */
export async function openDuckDbMirror(): Promise<OtherDatabase & { close(): Promise<void> }> {
  const folder = inject("runFolder");
  const name = `inputs-${randomBytes(4).toString("hex")}`;
  const database = await createDatabase();
  const postgres = await connectAsText(database.url);

  async function copy(): Promise<void> {
    const file = join(folder, `${name}.duckdb`);
    await rm(file, { force: true });
    const instance = await DuckDBInstance.create(file);
    const duckdb = await instance.connect();
    await duckdb.run("CREATE SCHEMA crm; SET TimeZone = 'UTC'");
    const { rows: tables } = await postgres.query<{ name: string; columns: string }>(`
      SELECT table_name AS name, json_object_agg(column_name, CASE WHEN data_type = 'ARRAY' THEN 'text[]'
        WHEN data_type = 'jsonb' THEN 'json' WHEN data_type = 'numeric' THEN 'decimal(38, 10)' ELSE data_type END)::text AS columns
      FROM information_schema.columns WHERE table_schema = 'crm' GROUP BY table_name`);
    for (const { name: table, columns } of tables) {
      const { rows } = await postgres.query<{ row: string }>(
        `SELECT row_to_json(t)::text AS row FROM crm."${table}" AS t`,
      );
      const source = join(folder, `${name}.jsonl`);
      await writeFile(source, rows.map(({ row }) => `${row}\n`).join(""));
      await duckdb.run(`CREATE TABLE crm."${table}" AS SELECT * FROM read_json('${source}',
        columns = ${columns.replaceAll('"', "'")}, format = 'newline_delimited')`);
    }
    duckdb.closeSync();
    instance.closeSync();
  }

  return {
    connection: filesIn(folder, { path: `${name}.duckdb` }),
    ...copiedFrom(postgres, copy),
    async close() {
      await postgres.end();
      await database.release();
    },
  };
}
