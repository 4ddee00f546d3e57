import { explainFailures } from "./explained-warehouse.ts";
import { explainFailure } from "./postgres/explain-failure.ts";
import { openPostgresWarehouse } from "./postgres/warehouse.ts";
import type { Warehouse } from "./warehouse.ts";

/** Which warehouse to open. */
export interface WarehouseTarget {
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

/** Opens a warehouse; nothing is connected before the first use. The only place that knows which warehouses exist. */
export function openWarehouse(target: WarehouseTarget): Warehouse {
  const place = placeOf(target.url);
  const warehouse = openPostgresWarehouse({
    url: target.url,
    names: { data: target.schema, ops: target.opsSchema },
    description: `${place}, schemas ${target.schema} and ${target.opsSchema}`,
    readErasureSecret: async () => (await target.readErasureSecret?.()) ?? null,
  });
  return explainFailures(warehouse, (error, connection) =>
    connection === null
      ? explainFailure(error, { name: `The warehouse (${place})`, path: "warehouse.url" })
      : explainFailure(error, { name: `Connection ${connection}`, path: `connections.${connection}.url` }),
  );
}

/** Host, port and database of a connection string, without user or password. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) return "the Postgres database";
  const { hostname, port, pathname } = new URL(url);
  const host = hostname === "" ? "the local socket" : `${hostname}:${port === "" ? "5432" : port}`;
  return `Postgres at ${host}${pathname}`;
}
