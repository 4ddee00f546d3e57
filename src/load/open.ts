import { type Db, openDb } from "./db/db.ts";
import type { PostgresTarget } from "./db/connect.ts";
import { explainDatabase } from "./inputs/explained-database.ts";
import { type ForeignDatabase, keepForeignDatabases } from "./inputs/foreign-database.ts";
import type { InputConnection } from "./inputs/input-source.ts";
import { openBigQueryDatabase } from "./inputs/bigquery/database.ts";
import { openPostgresDatabase } from "./inputs/postgres-database.ts";
import { explainFailure as explainBigQueryFailure } from "../bigquery/explain-failure.ts";
import { explainFailure, explainWriting } from "./db/explain-failure.ts";

/** The Postgres that is the place of record. */
export interface WarehouseTarget extends PostgresTarget {
  /** Schema of the people. */
  readonly schema: string;
  /** Schema of runs and ledger. */
  readonly opsSchema: string;
  /** Schema of the program's own tables. */
  readonly stateSchema: string;
  /** Reads the key for hashes of erased people; absent if the warehouse stores a generated one. */
  readonly readErasureSecret?: () => Promise<string>;
}

/** Opens the place of record; connects on first use. */
export function openWarehouse(target: WarehouseTarget): Db {
  return openDb({
    url: target.url,
    readUrl: target.readUrl,
    allowInsecure: target.allowInsecure,
    names: { data: target.schema, ops: target.opsSchema, state: target.stateSchema },
    readErasureSecret: async () => (await target.readErasureSecret?.()) ?? null,
    foreign: keepForeignDatabases(openForeignDatabase),
  });
}

/** Opens a database that inputs are read from; connects on first use. */
export function openForeignDatabase(connection: InputConnection): ForeignDatabase {
  const { name } = connection;
  const path = `connections.${name}`;
  if (connection.type === "postgres") {
    const where = { name: `Connection ${name}`, path: `${path}.url` };
    return explainDatabase(openPostgresDatabase(connection), (error) =>
      explainFailure(explainWriting(error), where),
    );
  }
  return explainDatabase(openBigQueryDatabase(connection), (error) =>
    explainBigQueryFailure(error, {
      project: connection.project,
      location: connection.location,
      path,
      datasets: [],
    }),
  );
}
