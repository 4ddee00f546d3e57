import { explainDatabase } from "./explained-database.ts";
import { type ForeignDatabase, keepForeignDatabases } from "./foreign-database.ts";
import type { InputConnection } from "./input-source.ts";
import { openBigQueryDatabase } from "./bigquery/foreign-database.ts";
import { openPostgresDatabase } from "./postgres/foreign-database.ts";
import { explainFailures } from "./explained-warehouse.ts";
import { explainFailure as explainBigQueryFailure } from "./bigquery/explain-failure.ts";
import { openBigQueryWarehouse } from "./bigquery/warehouse.ts";
import { explainFailure } from "./postgres/explain-failure.ts";
import { openPostgresWarehouse } from "./postgres/warehouse.ts";
import type { Gathering, Warehouse } from "./warehouse.ts";

/** Which warehouse to open. */
export type WarehouseTarget = PostgresTarget | BigQueryTarget;

/** A warehouse in Postgres. */
export interface PostgresTarget {
  readonly type: "postgres";
  /** Connection string; never part of a message. */
  readonly url: string;
  /** Schema of the people. */
  readonly schema: string;
  /** Schema of runs and ledger. */
  readonly opsSchema: string;
  /** Reads the key of erased people's hashes; absent where the warehouse keeps one itself. */
  readonly readErasureSecret?: () => Promise<string>;
}

/** A warehouse in BigQuery. */
export interface BigQueryTarget {
  readonly type: "bigquery";
  readonly project: string;
  /** Dataset of the people. */
  readonly schema: string;
  /** Dataset of runs and ledger. */
  readonly opsSchema: string;
  /** `EU`, `us-central1`; null for where the datasets are. */
  readonly location: string | null;
  /** Path of a key file; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
  readonly maximumBytesBilled: number | null;
  /** Folder for rows on their way into the warehouse. */
  readonly workFolder: string;
  /** When answers are committed; absent for after 100,000 of them or five minutes. */
  readonly gathering?: Gathering;
  readonly readErasureSecret?: () => Promise<string>;
}

/** Commits are far fewer than BigQuery allows, and each costs a look at the tables of the people. */
const RARELY: Gathering = { maxRecords: 100_000, maxAgeMs: 300_000 };

/** Opens a warehouse; nothing is connected before the first use. The only place that knows which warehouses exist. */
export function openWarehouse(target: WarehouseTarget): Warehouse {
  return target.type === "postgres" ? openPostgres(target) : openBigQuery(target);
}

function openPostgres(target: PostgresTarget): Warehouse {
  const place = placeOf(target.url);
  const warehouse = openPostgresWarehouse({
    url: target.url,
    names: { data: target.schema, ops: target.opsSchema },
    description: `${place}, schemas ${target.schema} and ${target.opsSchema}`,
    readErasureSecret: async () => (await target.readErasureSecret?.()) ?? null,
    foreign: keepForeignDatabases(openForeignDatabase),
  });
  const where = { name: `The warehouse (${place})`, path: "warehouse.url" };
  return explainFailures(warehouse, (error) => explainFailure(error, where));
}

/** Opens a database that inputs are read from; nothing is connected before the first use. */
export function openForeignDatabase(connection: InputConnection): ForeignDatabase {
  const { name } = connection;
  const path = `connections.${name}`;
  if (connection.type === "postgres") {
    const where = { name: `Connection ${name}`, path: `${path}.url` };
    return explainDatabase(openPostgresDatabase(connection.url), (error) => explainFailure(error, where));
  }
  const { project, dataset, location } = connection;
  const names = { project, data: dataset ?? "", ops: "" };
  return explainDatabase(openBigQueryDatabase(connection), (error) =>
    explainBigQueryFailure(error, names, location, path),
  );
}

function openBigQuery(target: BigQueryTarget): Warehouse {
  const { project, schema, opsSchema, location } = target;
  const names = { project, data: schema, ops: opsSchema };
  const place = `BigQuery project ${project}`;
  const description = `${place}, datasets ${schema} and ${opsSchema}`;
  const warehouse = openBigQueryWarehouse({
    gathering: RARELY,
    ...target,
    ...names,
    description,
    readErasureSecret: async () => (await target.readErasureSecret?.()) ?? null,
    foreign: keepForeignDatabases(openForeignDatabase),
  });
  return explainFailures(warehouse, (error) => explainBigQueryFailure(error, names, location));
}

/** Host, port and database of a connection string, without user or password. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) return "the Postgres database";
  const { hostname, port, pathname } = new URL(url);
  const host = hostname === "" ? "the local socket" : `${hostname}:${port === "" ? "5432" : port}`;
  return `Postgres at ${host}${pathname}`;
}
