import type { Db } from "./db.ts";
import { sql } from "kysely";
import type { Session } from "./session.ts";
import { NOW, THIS_DATABASE } from "./names.ts";

/** Reads the origin of a warehouse's data; null in a new warehouse. The setup time identifies it and its copies, the database distinguishes them. */
export async function readIdentity(db: Db) {
  const [identity] = await db.rows(
    db.query
      .selectFrom("ops.warehouse_identity")
      .select(["service_host as serviceHost", "org_id as organization", "created_at as createdAt"])
      .select(sql.raw<string>(THIS_DATABASE).as("database")),
  );
  return identity ?? null;
}

/** Time since which the ledger is complete; null if nothing was removed. */
export async function readLedgerStart(db: Db): Promise<string | null> {
  const [start = null] = await db.pluck(db.query.selectFrom("ops.warehouse_identity").select("ledger_from"));
  return start;
}

/** Records the organization unless one is known, also by another process at the same time; returns the recorded one. */
export async function recordOrganization(db: Db, runId: string, organization: string): Promise<string> {
  const update = db.query.updateTable("ops.warehouse_identity").where("org_id", "is", null);
  const select = db.query.selectFrom("ops.warehouse_identity").select("org_id");
  return db.transaction(async (session) => {
    await session.change(update.set({ org_id: organization, _synced_at: NOW, _run_id: runId }));
    const [row] = await session.rows(select);
    if (!row?.org_id) throw new Error("The row of warehouse_identity is missing.");
    return row.org_id;
  });
}

/** A service host, without the organization, which may be named differently there. */
const newHost = (serviceHost: string) => ({ service_host: serviceHost, org_id: null, _synced_at: NOW });

/** Records the service host unless one is known, also by another process at the same time; returns the recorded one. */
export function recordServiceHost(db: Db, serviceHost: string): Promise<string> {
  return db.transaction(async (session) => {
    const { query } = session;
    await session.change(sql`LOCK TABLE ${session.table("warehouse_identity")} IN SHARE ROW EXCLUSIVE MODE`);
    const [known] = await session.pluck(query.selectFrom("ops.warehouse_identity").select("service_host"));
    if (known !== undefined) return known;
    const first = { ...newHost(serviceHost), created_at: NOW, _run_id: "" };
    await session.change(query.insertInto("ops.warehouse_identity").values(first));
    return serviceHost;
  });
}

/** Replaces the recorded service host, and forgets the organization. */
export async function replaceServiceHost(db: Db, serviceHost: string): Promise<void> {
  await db.change(db.query.updateTable("ops.warehouse_identity").set(newHost(serviceHost)));
}

/** True if nothing came from the recorded service: no result, no call on its way, on disk or possibly billed, and no job at work. */
export async function isUnused(db: Pick<Session, "pluck" | "table">): Promise<boolean> {
  const [unused = false] = await db.pluck<boolean>(sql`
    SELECT NOT EXISTS (SELECT FROM ${db.table("api_call")} WHERE is_sent IS NULL OR possibly_billed OR http_status BETWEEN 200 AND 299)
      AND NOT EXISTS (SELECT FROM ${db.table("warehouse_identity")} WHERE ledger_from IS NOT NULL)
      AND NOT EXISTS (SELECT FROM ${db.table("job_lock")} WHERE released_at IS NULL)
      AND NOT EXISTS (SELECT FROM ${db.table("person")})
      AND NOT EXISTS (SELECT FROM ${db.table("resolution")}) AS unused`);
  return unused;
}

/** Replaces a service host that nothing came from, and forgets the organization; false if something came from it. */
export async function replaceUnusedHost(db: Db, known: string, serviceHost: string): Promise<boolean> {
  return db.transaction(async (session) => {
    await session.change(sql`LOCK TABLE ${session.table("warehouse_identity")} IN SHARE ROW EXCLUSIVE MODE`);
    if (!(await isUnused(session))) return false;
    const update = session.query.updateTable("ops.warehouse_identity").set(newHost(serviceHost));
    return (await session.change(update.where("service_host", "=", known))) > 0;
  });
}
