import type { Db } from "./db.ts";
import { sql } from "kysely";
import { THIS_DATABASE } from "./names.ts";

/** Origin of a warehouse's data. */
interface WarehouseIdentity {
  /** Host and port, or the population of the sandbox. */
  readonly serviceHost: string;
  /** Organization that the data belongs to; null until it is known. */
  readonly organization: string | null;
  /** Setup time in microseconds, which identifies this warehouse and its copies. */
  readonly createdAt: string;
  /** {@link THIS_DATABASE}, which distinguishes them. */
  readonly database: string;
}

/** Reads the identity; null in a new warehouse. */
export async function readIdentity(db: Db): Promise<WarehouseIdentity | null> {
  const [identity] = await db.rows<WarehouseIdentity>(sql`
    SELECT service_host AS "serviceHost", org_id AS organization, created_at AS "createdAt",
      ${sql.raw(THIS_DATABASE)} AS database
    FROM ${db.table("warehouse_identity")}`);
  return identity ?? null;
}

/** Records the organization unless one is known, also by another process at the same time; returns the recorded one. */
export async function recordOrganization(db: Db, runId: string, organization: string): Promise<string> {
  const identity = db.table("warehouse_identity");
  return db.transaction(async (session) => {
    await session.change(sql`
      UPDATE ${identity} SET org_id = ${organization}, _synced_at = now(), _run_id = ${runId} WHERE org_id IS NULL`);
    const [row] = await session.rows<{ organization: string }>(
      sql`SELECT org_id AS organization FROM ${identity}`,
    );
    if (!row) throw new Error("The row of warehouse_identity is missing.");
    return row.organization;
  });
}

/** Records the service host. With `replace`, overwrites a different one. */
export async function writeServiceHost(
  db: Db,
  serviceHost: string,
  { replace }: { readonly replace: boolean },
): Promise<void> {
  return db.transaction(async (session) => {
    const identity = session.table("warehouse_identity");
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
