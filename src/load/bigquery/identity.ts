import { sql } from "kysely";
import { tableId } from "./names.ts";
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
