import { type RawBuilder, sql } from "kysely";
import type { KnownBy } from "../erasure-warehouse.ts";
import { normalizedEmail } from "../subject-hash.ts";
import { isNotFound } from "./failure.ts";
import { clearLeftGroups } from "./manifest.ts";
import { tableId, tableText } from "./names.ts";
import { readSelectionTables, type SelectionTable } from "./selection-tables.ts";
import type { Session } from "./session.ts";
import { dropTable, STAGING_PREFIX, tablesNamed } from "./staging.ts";
import { normalizedAddress } from "./suppression.ts";

/** Who holds the lock of a job, or of a shard of it. */
interface Holder {
  readonly job: string;
  readonly shard: string;
}

/**
 * Forgets people outside of the declared tables: what is left behind of jobs whose lock nobody has is dropped whole, also on
 * this disk; lists of pushes and sweeps are cleaned. What a running run has selected or staged begins anew, or is left out when
 * it is read (see selection.ts); a crashed run's is dropped by whoever gets its lock (`clearManifests`). Returns the records of theirs that stand in lists of what is to be sent: `JOB HASH`, hex.
 */
export async function forgetLists(
  session: Session,
  workFolder: string,
  people: KnownBy,
): Promise<readonly string[]> {
  const lookedAtMs = Date.now();
  const holders = await readHolders(session);
  const listed: string[] = [];
  for (const table of await readSelectionTables(session)) {
    listed.push(...(await listedIn(session, table, people)));
    const isHeld = holders.some(({ job, shard }) => job === table.job && shard === table.shard);
    if (!isHeld) await dropTable(session, table.name);
  }
  await clearLeftGroups(session, workFolder, { held: holders, beforeMs: lookedAtMs });
  for (const purpose of ["push_", "seen_"]) {
    for (const name of await tablesNamed(session, STAGING_PREFIX + purpose)) {
      await ifThere(() =>
        session.change(
          sql`DELETE FROM ${tableId(session.names, "data", name)} WHERE service_pid IN UNNEST(${[...people.pids]})`,
        ),
      );
    }
  }
  return listed;
}

function readHolders(session: Session): Promise<readonly Holder[]> {
  return session.rows<Holder>(sql`SELECT job, shard FROM ${tableId(session.names, "ops", "job_lock")}
    WHERE released_at IS NULL AND job != ''`);
}

/** The records of these people in a list of what is to be sent. */
async function listedIn(
  session: Session,
  { name, job, isWork }: SelectionTable,
  { pids, emails, rows }: KnownBy,
): Promise<readonly string[]> {
  if (!isWork) return [];
  const work = tableText(session.names, "data", name);
  const key = "JSON_VALUE(r, '$.k')";
  const isTheirs = `${key} IN UNNEST(_etl_keys) OR ${normalizedAddress(key)} IN UNNEST(_etl_emails)`;
  const variables: readonly RawBuilder<unknown>[] = [
    sql`DECLARE _etl_pids ARRAY<STRING> DEFAULT ${[...pids]}`,
    sql`DECLARE _etl_emails ARRAY<STRING> DEFAULT ${emails.map(normalizedEmail)}`,
    sql`DECLARE _etl_keys ARRAY<STRING> DEFAULT ${rows.map(({ sourceKey }) => sourceKey)}`,
  ];
  const found = await ifThere(() =>
    session.script<{ hash: string }>(
      variables,
      sql.raw(`SELECT t.sent_hash AS hash FROM ${work} AS t WHERE t.pid IN UNNEST(_etl_pids)
        UNION DISTINCT SELECT t.sent_hash FROM ${work} AS t, UNNEST(JSON_QUERY_ARRAY(t.input_rows)) AS r WHERE ${isTheirs}`),
    ),
  );
  return (found ?? []).map(({ hash }) => `${job} ${hash}`);
}

/** Null where the table is gone: its run has ended meanwhile. */
async function ifThere<Result>(work: () => Promise<Result>): Promise<Result | null> {
  try {
    return await work();
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}
