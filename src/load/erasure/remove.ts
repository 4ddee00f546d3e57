import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import { addPidsOfRows, removeLookupState, sparePids } from "./find.ts";
import { markFinal, type OpenRequest, readRequests } from "./requests.ts";
import {
  addIdentifiers,
  clearedColumns,
  isOfSubject,
  type NamingTable,
  namingTables,
  type RowsByTable,
  stagedSql,
  stageSubjects,
} from "./subjects.ts";
import type { Identifiers } from "../inputs/input.ts";
import { asWriter } from "../runs/lock.ts";
import { tableNamed } from "../../schemas/registry.ts";

/** Counts the rows that name these people, by table, besides answers and claims by content, which go with the request. */
export async function countPeople(db: Db, people: Identifiers): Promise<RowsByTable> {
  return db.preview(async (session) => {
    await stageSubjects(session, people);
    await removeLookupState(session);
    const counts: [string, number][] = [];
    for (const naming of namingTables) {
      const { name } = naming.table;
      const [found] = await session.rows<{ rows: number }>(
        sql`SELECT count(*) AS rows FROM ${db.table(name)} AS t WHERE ${isAffected(naming)}`,
      );
      counts.push([name, found?.rows ?? 0]);
    }
    return Object.fromEntries(counts.filter(([, rows]) => rows > 0));
  });
}

/** Condition for rows `t` that an erasure of the staged subjects removes or changes. */
function isAffected(naming: NamingTable): RawBuilder<unknown> {
  const tests = [
    isOfSubject(stagedSql, naming),
    ...clearedColumns(stagedSql, naming).map(({ isCleared }) => isCleared),
  ];
  return sql`(${sql.join(tests, sql` OR `)})`;
}

/**
 * Removes the rows of an erasure's people from every table and work list; idempotent. Final once every run in
 * progress at the request has ended. Returns the number of rows removed or changed, by table.
 */
export async function removeErased(db: Db, id: string): Promise<RowsByTable> {
  const open = await db.transaction((session) => readRequests(session, id));
  // asWriter changes a published table itself, which would then keep the erasure pending.
  if (open.length === 0) return {};
  return asWriter(db, "erase", async (session) => {
    const requests = await readRequests(session, id);
    const removed = new Map<string, number>();
    for (const request of requests) {
      await stageRequest(session, request);
      await removeLookupState(session);
      for (const naming of namingTables) {
        const { name } = naming.table;
        removed.set(name, (removed.get(name) ?? 0) + (await removeFrom(session, naming, id)));
      }
      await markPersons(session, id);
    }
    const total = [...removed.values()].reduce((sum, rows) => sum + rows, 0);
    if (total > 0) {
      await session.change(sql`UPDATE ${session.table("erasure_subject")}
        SET rows_removed = rows_removed + ${total}, _synced_at = now() WHERE erasure_id = ${id}::uuid`);
    }
    await markFinal(
      session,
      requests.filter(({ isLast }) => isLast).map(({ requestId }) => requestId),
    );
    return Object.fromEntries([...removed].filter(([, rows]) => rows > 0));
  });
}

/**
 * Stages the subjects of a request, with the PIDs of answers to their rows: a load in progress at the request may have
 * stored the person of such a row. These PIDs are removed, but don't become subjects.
 */
async function stageRequest(session: Session, { people, sparesOthers }: OpenRequest): Promise<void> {
  await session.client.query(`DROP TABLE IF EXISTS pg_temp.changed_person;
    CREATE TEMP TABLE changed_person (pid text PRIMARY KEY) ON COMMIT DROP`);
  await stageSubjects(session, { pids: [], emails: [], rows: people.rows });
  if (!sparesOthers) {
    await addPidsOfRows(session);
    await sparePids(session);
  }
  await addIdentifiers(session, people);
}

/** Removes the rows of a table, or clears its columns that name people; returns the number of affected rows. */
async function removeFrom(session: Session, naming: NamingTable, id: string): Promise<number> {
  const { table, people } = naming;
  const rows = session.table(table.name);
  if (table.name === "person" || people.isListOfPerson) await noteChanged(session, rows, isAffected(naming));
  else if (table.parent !== null) await touchParents(session, naming, id);
  let changed = await session.change(sql`DELETE FROM ${rows} AS t WHERE ${isOfSubject(stagedSql, naming)}`);
  const cleared = clearedColumns(stagedSql, naming);
  if (cleared.length > 0) {
    const set = cleared.map(({ column, isCleared }) =>
      cleared.length === 1
        ? sql`${sql.id(column)} = NULL`
        : sql`${sql.id(column)} = CASE WHEN ${isCleared} THEN NULL ELSE t.${sql.id(column)} END`,
    );
    const runId = table.hasRunId ? sql`, _run_id = ${id}` : sql``;
    changed += await session.change(sql`
      UPDATE ${rows} AS t SET ${sql.join(set)}, _synced_at = now() ${runId}
      WHERE ${sql.join(
        cleared.map(({ isCleared }) => isCleared),
        sql` OR `,
      )}`);
  }
  return changed;
}

/** Marks the parents of rows that are about to change as changed, so that they are published with what is left. */
async function touchParents(session: Session, naming: NamingTable, id: string): Promise<void> {
  const { table } = naming;
  if (table.parent === null) return;
  const parent = tableNamed(table.parent);
  const key = sql.join(parent.key.map((name) => sql`t.${sql.id(name)}`));
  await session.change(sql`UPDATE ${session.table(parent.name)} AS t SET _synced_at = now(), _run_id = ${id}
    WHERE (${key}) IN (SELECT ${key} FROM ${session.table(table.name)} AS t WHERE ${isAffected(naming)})`);
}

/** Notes the persons of rows that are about to change. */
async function noteChanged(
  session: Session,
  rows: RawBuilder<unknown>,
  isChanged: RawBuilder<unknown>,
): Promise<void> {
  await session.change(sql`INSERT INTO pg_temp.changed_person
    SELECT DISTINCT t.service_pid FROM ${rows} AS t WHERE ${isChanged} ON CONFLICT DO NOTHING`);
}

/** Marks the noted persons as changed, and their content as unknown: its hashes cover removed values. */
async function markPersons(session: Session, id: string): Promise<void> {
  await session.change(sql`UPDATE ${session.table("person")} SET _record_synced_at = now(), _run_id = ${id}
    WHERE service_pid IN (SELECT pid FROM pg_temp.changed_person)`);
  await session.change(sql`UPDATE ${session.table("person_state")}
    SET group_hashes = repeat('-', length(group_hashes)), _synced_at = now(), _run_id = ${id}
    WHERE service_pid IN (SELECT pid FROM pg_temp.changed_person)`);
}

/** Segments of people, as read by feeds and written by pushes. */
export async function membershipsOf(
  db: Db,
  pids: readonly string[],
): Promise<readonly { readonly segmentId: string; readonly servicePid: string }[]> {
  return db.rows(sql`
    SELECT segment_id AS "segmentId", service_pid AS "servicePid" FROM ${db.table("segment_member")}
    WHERE is_member AND service_pid = ANY(${[...pids]}::text[])
    UNION SELECT segment_id, service_pid FROM ${db.table("segment_push_member")}
    WHERE state IN ('member', 'unknown') AND service_pid = ANY(${[...pids]}::text[]) ORDER BY 1, 2`);
}

/** Removes expired tombstones; returns how many. */
export function dropTombstones(db: Db, olderThanMs: number): Promise<number> {
  return db.transaction((session) =>
    session.change(sql`DELETE FROM ${session.table("tombstone")}
      WHERE erased_at <= now() - ${olderThanMs} * interval '1 millisecond'`),
  );
}
