import { readdirSync } from "node:fs";
import { join } from "node:path";
import { sql } from "kysely";
import { openClient } from "../../src/load/bigquery/client.ts";
import { columnType } from "../../src/load/bigquery/ddl.ts";
import { openSession } from "../../src/load/bigquery/session.ts";
import { createStagingTable, loadFile } from "../../src/load/bigquery/staging.ts";
import { tableNamed } from "../../src/schemas/registry.ts";

/**
 * The other half: loads ready files into fresh tables, a job a table, and nothing else.
 * `node bench/bigquery/plain-load.ts ENDPOINT PROJECT FOLDER DATASET`
 */
const [apiEndpoint = "", project = "", folder = "", dataset = "floor"] = process.argv.slice(2);
const names = { project, data: dataset, ops: dataset };
const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
const session = openSession({ client, names, location: null, maximumBytesBilled: null });
await session.change(sql`CREATE SCHEMA IF NOT EXISTS ${sql.id(dataset)}`);
for (const file of readdirSync(folder)) {
  const table = file.replace(".ndjson", "");
  const columns = tableNamed(table).columns.map(({ name, type }) => ({ name, type: columnType(type) }));
  await createStagingTable(session, table, columns);
  await loadFile(session, { file: join(folder, file), table, columns, jobId: `plain_${dataset}_${table}` });
}
