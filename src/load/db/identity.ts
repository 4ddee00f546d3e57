import type { Db } from "./db.ts";
import { sql } from "kysely";
import { type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** Origin of a warehouse's data. */
export interface WarehouseIdentity {
  /** Host and port, or the population of the sandbox. */
  readonly serviceHost: string;
  /** Organization that the data belongs to; null until it is known. */
  readonly organization: string | null;
  /** Setup time in microseconds, which identifies this warehouse. */
  readonly createdAt: string;
}

/** Reads the identity; null in a new warehouse. */
export async function readIdentity(db: Db): Promise<WarehouseIdentity | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [identity] = await session.rows<WarehouseIdentity>(sql`
      SELECT service_host AS "serviceHost", org_id AS organization, created_at AS "createdAt"
      FROM ${tableId(names, "warehouse_identity")}`);
    return identity ?? null;
  });
}

/** Records the organization once. */
export async function recordOrganization(
  session: Session,
  names: SchemaNames,
  runId: string,
  orgId: string,
): Promise<void> {
  await session.change(sql`
    UPDATE ${tableId(names, "warehouse_identity")} SET org_id = ${orgId}, _synced_at = now(), _run_id = ${runId}
    WHERE org_id IS NULL`);
}

/** Records the service host. With `replace`, overwrites a different one. */
export async function writeServiceHost(
  db: Db,
  serviceHost: string,
  { replace }: { readonly replace: boolean },
): Promise<void> {
  const { names } = db;
  return db.transaction(async (session) => {
    const identity = tableId(names, "warehouse_identity");
    await session.change(sql`LOCK TABLE ${identity} IN SHARE ROW EXCLUSIVE MODE`);
    if (replace) {
      await session.change(
        sql`UPDATE ${identity} SET service_host = ${serviceHost}, org_id = NULL, _synced_at = now()`,
      );
    }
    await session.change(sql`
    INSERT INTO ${identity} (service_host, org_id, created_at, _synced_at, _run_id)
    SELECT ${serviceHost}, NULL, now(), now(), '' WHERE NOT EXISTS (SELECT FROM ${identity})`);
  });
}
