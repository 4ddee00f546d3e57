import type { Db } from "./db.ts";
import { sql } from "kysely";
import { type SchemaNames, tableId } from "./names.ts";
import type { Session } from "./session.ts";

/** Service host that this warehouse's data comes from; null in a new warehouse. */
export async function readServiceHost(db: Db): Promise<string | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [row] = await session.rows<{ service_host: string }>(
      sql`SELECT service_host FROM ${tableId(names, "warehouse_identity")}`,
    );
    return row?.service_host ?? null;
  });
}

/** Setup time in microseconds, which identifies this warehouse. */
export async function readIdentity(db: Db): Promise<string | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [row] = await session.rows<{ created_at: string }>(
      sql`SELECT created_at FROM ${tableId(names, "warehouse_identity")}`,
    );
    return row?.created_at ?? null;
  });
}

/** Organization that this warehouse's feed data belongs to. */
export async function readOrganization(db: Db): Promise<string | null> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [row] = await session.rows<{ org_id: string | null }>(
      sql`SELECT org_id FROM ${tableId(names, "warehouse_identity")}`,
    );
    return row?.org_id ?? null;
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
