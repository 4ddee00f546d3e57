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
}

/** Opens a warehouse; nothing is connected before the first use. The only place that knows which warehouses exist. */
export function openWarehouse(target: WarehouseTarget): Warehouse {
  return openPostgresWarehouse({
    url: target.url,
    names: { data: target.schema, ops: target.opsSchema },
    description: `${placeOf(target.url)}, schemas ${target.schema} and ${target.opsSchema}`,
  });
}

/** Host, port and database of a connection string, without user or password. */
function placeOf(url: string): string {
  if (!URL.canParse(url)) return "the Postgres database";
  const { hostname, port, pathname } = new URL(url);
  const host = hostname === "" ? "the local socket" : `${hostname}:${port === "" ? "5432" : port}`;
  return `Postgres at ${host}${pathname}`;
}
