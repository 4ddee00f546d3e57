import { type Db, openDb, type WarehouseTarget } from "./db/db.ts";
import { openBigQueryDatabase } from "./inputs/bigquery.ts";
import { openFiles } from "./inputs/open-files.ts";
import { type InputDatabase, type InputConnection, keepInputDatabases } from "./inputs/input.ts";
import { openPostgresDatabase } from "./inputs/read.ts";

/** Opens the place of record; connects on first use. */
export function openWarehouse(target: WarehouseTarget): Db {
  return openDb(target, keepInputDatabases(openInputDatabase));
}

/** Opens a database that inputs are read from; connects on first use. */
export function openInputDatabase(connection: InputConnection): InputDatabase {
  if (connection.type === "postgres") return openPostgresDatabase(connection);
  return connection.type === "duckdb" ? openFiles(connection) : openBigQueryDatabase(connection);
}
