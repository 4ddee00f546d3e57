import { type RawBuilder, sql } from "kysely";
import { type DatasetNames, tableId } from "./names.ts";
import { oneAtATime } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";

/** Host that this warehouse was filled from. */
export async function readServiceHost(session: Session): Promise<string | null> {
  const [row] = await session.rows<{ service_host: string }>(
    sql`SELECT service_host FROM ${tableId(session.names, "ops", "warehouse_identity")}`,
  );
  return row?.service_host ?? null;
}

/** Tells this warehouse from every other one: the moment at which it was set up, to the microsecond. */
export async function readIdentity(session: Session): Promise<string | null> {
  const [row] = await session.rows<{ created_at: string }>(
    sql`SELECT created_at FROM ${tableId(session.names, "ops", "warehouse_identity")}`,
  );
  return row?.created_at ?? null;
}

/** The organization whose feeds were read first. */
export async function readOrganization(session: Session): Promise<string | null> {
  const [row] = await session.rows<{ org_id: string | null }>(
    sql`SELECT org_id FROM ${tableId(session.names, "ops", "warehouse_identity")}`,
  );
  return row?.org_id ?? null;
}

/** Records the organization once. */
export function noteOrganization(names: DatasetNames, runId: string, orgId: string): RawBuilder<unknown> {
  return sql`UPDATE ${tableId(names, "ops", "warehouse_identity")}
    SET org_id = ${orgId}, _synced_at = ${NOW}, _run_id = ${runId} WHERE org_id IS NULL`;
}

/** Records the host once; with `replace` over another one. */
export async function writeServiceHost(
  session: Session,
  serviceHost: string,
  replace: boolean,
): Promise<void> {
  const identity = tableId(session.names, "ops", "warehouse_identity");
  await session.transaction({
    statements: [
      oneAtATime(session.names),
      ...(replace
        ? [sql`UPDATE ${identity} SET service_host = ${serviceHost}, _synced_at = ${NOW} WHERE TRUE`]
        : []),
      sql`INSERT INTO ${identity} (service_host, org_id, created_at, _synced_at, _run_id)
        SELECT ${serviceHost}, NULL, ${NOW}, ${NOW}, '' FROM (SELECT COUNT(*) AS n FROM ${identity}) WHERE n = 0`,
    ],
  });
}
