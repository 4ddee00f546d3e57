import { tableNamed } from "../../schemas/registry.ts";
import { asWriter } from "../runs/register-writer.ts";
import type { Db } from "../db/db.ts";
import { type RawBuilder, sql } from "kysely";
import type { Table } from "../../schemas/table.ts";
import type { Identifiers, RowsByTable } from "./people.ts";
import { namingTables, type NamingTable } from "./naming-tables.ts";
import { findAgain } from "./find-people.ts";
import { removeLookups } from "../lookups/remove-erased.ts";
import { quoteIdentifier, type SchemaNames, tableId } from "../db/names.ts";
import { noteSubjects } from "./note-subjects.ts";
import { isStagedPid, namesStaged, stagePeople, unstagePeople } from "./people-tables.ts";
import type { Session } from "../db/session.ts";
import { markFinal, readRequests, type RequestedPeople, subjectsOf } from "./requests.ts";
import { readSuppression } from "./suppressed-sql.ts";

/** Counts the rows that name these people, by table. */
export async function countPeople(db: Db, people: Identifiers): Promise<RowsByTable> {
  const { names } = db;
  return db.preview(async (session) => {
    await stagePeople(session, people);
    const counts: [string, number][] = [];
    for (const naming of namingTables) {
      const { table, people } = naming;
      const tests = [
        namesStaged(naming),
        ...(people.clears ?? []).map((name) => isStagedPid(`t.${quoteIdentifier(name)}`)),
      ];
      const [found] = await session.rows<{ rows: number }>(sql`
      SELECT count(*) AS rows FROM ${tableId(names, table.name)} AS t WHERE ${sql.join(tests, sql` OR `)}`);
      counts.push([table.name, found?.rows ?? 0]);
    }
    return Object.fromEntries(counts.filter(([, rows]) => rows > 0));
  });
}

/**
 * Removes the rows of an erasure's people from every table and work list; idempotent. Final once every run in
 * progress at the request has ended. Returns the number of rows removed or changed, by table.
 */
export async function removeErased(db: Db, id: string): Promise<RowsByTable> {
  const { names } = db;
  const open = await db.transaction((session) => readRequests(session, names, id));
  // asWriter changes a published table itself, which would then keep the erasure pending.
  if (open.length === 0) return {};
  return asWriter(db, "erase", async (session) => {
    const requests = await readRequests(session, names, id);
    const removed = new Map<string, number>();
    for (const { people } of requests) {
      for (const [table, rows] of await removePeople(session, db, id, people)) {
        removed.set(table, (removed.get(table) ?? 0) + rows);
      }
    }
    const total = [...removed.values()].reduce((sum, rows) => sum + rows, 0);
    if (total > 0) {
      await session.change(sql`UPDATE ${tableId(names, "erasure_subject")}
        SET rows_removed = rows_removed + ${total}, _synced_at = now() WHERE erasure_id = ${id}::uuid`);
    }
    await markFinal(
      session,
      names,
      requests.filter(({ isLast }) => isLast).map(({ requestId }) => requestId),
    );
    return Object.fromEntries([...removed].filter(([, rows]) => rows > 0));
  });
}

async function removePeople(
  session: Session,
  db: Db,
  id: string,
  people: RequestedPeople,
): Promise<readonly (readonly [string, number])[]> {
  const { names } = db;
  const found = await findAgain(session, names, people);
  const { key } = await readSuppression(session, names, db.readErasureSecret);
  if (key) await noteSubjects(session, names, key, { erasureId: id, runId: id }, subjectsOf(found));
  await removeLookups(session, names);
  const removed: (readonly [string, number])[] = [];
  for (const naming of namingTables) {
    removed.push([naming.table.name, await removeFrom(session, names, naming, id)]);
  }
  await movePersons(session, names, id);
  await unstagePeople(session);
  return removed;
}

/** Removes the rows of a table, or clears its columns that name people; returns the number of affected rows. */
async function removeFrom(
  session: Session,
  names: SchemaNames,
  { table, people }: NamingTable,
  id: string,
): Promise<number> {
  const rows = tableId(names, table.name);
  const isTheirs = namesStaged({ table, people });
  if (people.isListOfPerson)
    await noteMoved(session, sql`SELECT t.service_pid FROM ${rows} AS t WHERE ${isTheirs}`);
  else if (table.parent !== null)
    await touchParents(session, names, { table, people }, tableNamed(table.parent), id);
  let changed = await session.change(sql`DELETE FROM ${rows} AS t WHERE ${isTheirs}`);
  const runId = table.hasRunId ? sql`, _run_id = ${id}` : sql``;
  for (const name of people.clears ?? []) {
    const isCleared = isStagedPid(`t.${quoteIdentifier(name)}`);
    if (table.name === "person")
      await noteMoved(session, sql`SELECT t.service_pid FROM ${rows} AS t WHERE ${isCleared}`);
    changed += await session.change(
      sql`UPDATE ${rows} AS t SET ${sql.id(name)} = NULL, _synced_at = now() ${runId} WHERE ${isCleared}`,
    );
  }
  return changed;
}

/** Marks the parents of rows that are about to be removed as changed, so that they are published with what is left. */
async function touchParents(
  session: Session,
  names: SchemaNames,
  naming: NamingTable,
  parent: Table,
  id: string,
): Promise<void> {
  const key = sql.join(parent.key.map((name) => sql.raw(`t.${quoteIdentifier(name)}`)));
  await session.change(sql`UPDATE ${tableId(names, parent.name)} AS t SET _synced_at = now(), _run_id = ${id}
    WHERE (${key}) IN (SELECT ${key} FROM ${tableId(names, naming.table.name)} AS t WHERE ${namesStaged(naming)})`);
}

/** Stages the PIDs of persons whose rows or lists are about to change. */
async function noteMoved(session: Session, owners: RawBuilder<unknown>): Promise<void> {
  await session.client.query(
    "CREATE TEMP TABLE IF NOT EXISTS moved_person (pid text PRIMARY KEY) ON COMMIT DROP",
  );
  await session.change(sql`INSERT INTO pg_temp.moved_person SELECT DISTINCT service_pid FROM (${owners}) AS o(service_pid)
    ON CONFLICT DO NOTHING`);
}

/** Updates those persons and marks their content as unknown: its hashes cover removed values. */
async function movePersons(session: Session, names: SchemaNames, id: string): Promise<void> {
  await session.client.query(
    "CREATE TEMP TABLE IF NOT EXISTS moved_person (pid text PRIMARY KEY) ON COMMIT DROP",
  );
  await session.change(sql`UPDATE ${tableId(names, "person")} SET _record_synced_at = now(), _run_id = ${id}
    WHERE service_pid IN (SELECT pid FROM pg_temp.moved_person)`);
  await session.change(sql`UPDATE ${tableId(names, "person_state")}
    SET group_hashes = repeat('-', length(group_hashes)), _synced_at = now(), _run_id = ${id}
    WHERE service_pid IN (SELECT pid FROM pg_temp.moved_person)`);
}

/** Segments of people, as read by feeds and written by pushes. */
export async function membershipsOf(
  db: Db,
  pids: readonly string[],
): Promise<readonly { readonly segmentId: string; readonly servicePid: string }[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows(sql`
    SELECT segment_id AS "segmentId", service_pid AS "servicePid" FROM ${tableId(names, "segment_member")}
    WHERE is_member AND service_pid = ANY(${[...pids]}::text[])
    UNION SELECT segment_id, service_pid FROM ${tableId(names, "segment_push_member")}
    WHERE state IN ('member', 'unknown') AND service_pid = ANY(${[...pids]}::text[]) ORDER BY 1, 2`);
  });
}

/** Removes expired tombstones; returns how many. */
export function dropTombstones(db: Db, olderThanMs: number): Promise<number> {
  return db.transaction((session) =>
    session.change(sql`DELETE FROM ${tableId(db.names, "tombstone")}
      WHERE erased_at <= now() - ${olderThanMs} * interval '1 millisecond'`),
  );
}
