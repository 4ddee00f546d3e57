import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { NOW } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { addPidsOfRows, removeLookupState, sparePids } from "./find.ts";
import { type OpenRequest, readRequests } from "./requests.ts";
import {
  addIdentifiers,
  anyOf,
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
    const counts = new Map<string, number>();
    for (const naming of namingTables) {
      const { name } = naming.table;
      const [rows = 0] = await session.pluck<number>(
        sql`SELECT count(*) FROM ${db.table(name)} AS t WHERE ${isAffected(naming)}`,
      );
      counts.set(name, rows);
    }
    return aboveZero(counts);
  });
}

const aboveZero = (counts: ReadonlyMap<string, number>): RowsByTable =>
  Object.fromEntries([...counts].filter(([, rows]) => rows > 0));

/** Condition for rows `t` that an erasure of the staged subjects removes or changes. */
function isAffected(naming: NamingTable): RawBuilder<unknown> {
  return anyOf([
    isOfSubject(stagedSql, naming),
    ...clearedColumns(stagedSql, naming).map(({ isCleared }) => isCleared),
  ]);
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
    }
    const total = [...removed.values()].reduce((sum, rows) => sum + rows, 0);
    if (total > 0) {
      const subjects = session.query.updateTable("ops.erasure_subject").where("erasure_id", "=", id);
      await session.change(
        subjects.set((row) => ({ rows_removed: row("rows_removed", "+", total), _synced_at: NOW })),
      );
    }
    const final = requests.filter(({ isLast }) => isLast).map(({ requestId }) => requestId);
    const done = session.query.updateTable("state.erasure_request").set({ is_final: true, _synced_at: NOW });
    await session.change(done.where(sql<boolean>`request_id = ANY(${final}::uuid[])`));
    return aboveZero(removed);
  });
}

/**
 * Stages the subjects of a request, with the PIDs of answers to their rows: a load in progress at the request may have
 * stored the person of such a row. These PIDs are removed, but don't become subjects.
 */
async function stageRequest(session: Session, { people, sparesOthers }: OpenRequest): Promise<void> {
  await stageSubjects(session, { pids: [], emails: [], rows: people.rows });
  if (!sparesOthers) {
    await addPidsOfRows(session);
    await sparePids(session);
  }
  await addIdentifiers(session, people);
}

/** Removes the rows of a table, or clears its columns that name people; returns the number of affected rows. */
async function removeFrom(session: Session, naming: NamingTable, id: string): Promise<number> {
  const { table } = naming;
  const rows = session.table(table.name);
  await markRoots(session, naming, id);
  let changed = await session.change(sql`DELETE FROM ${rows} AS t WHERE ${isOfSubject(stagedSql, naming)}`);
  const cleared = clearedColumns(stagedSql, naming);
  if (cleared.length > 0) {
    const set = cleared.map(
      ({ column, isCleared }) =>
        sql`${sql.id(column)} = CASE WHEN ${isCleared} THEN NULL ELSE t.${sql.id(column)} END`,
    );
    const runId = table.hasRunId ? sql`, _run_id = ${id}` : sql``;
    changed += await session.change(sql`UPDATE ${rows} AS t SET ${sql.join(set)}, _synced_at = now() ${runId}
      WHERE ${anyOf(cleared.map(({ isCleared }) => isCleared))}`);
  }
  return changed;
}

/**
 * Marks the parents of rows that are about to change as changed, for incremental readers. The content of a person becomes unknown: its
 * hashes cover removed values.
 */
async function markRoots(session: Session, naming: NamingTable, id: string): Promise<void> {
  const { table, isListOfPerson } = naming;
  const root = table.name === "person" || isListOfPerson ? "person" : table.parent;
  if (root === null) return;
  const key = sql.join(tableNamed(root).key.map((name) => sql.id(name)));
  const time = sql.id(root === "person" ? "_record_synced_at" : "_synced_at");
  const change = sql`UPDATE ${session.table(root)} SET ${time} = now(), _run_id = ${id}
    WHERE (${key}) IN (SELECT ${key} FROM ${session.table(table.name)} AS t WHERE ${isAffected(naming)})`;
  await session.change(
    root === "person"
      ? sql`WITH changed AS (${change} RETURNING service_pid) UPDATE ${session.table("person_state")}
          SET group_hashes = repeat('-', length(group_hashes)), _synced_at = now(), _run_id = ${id}
          WHERE service_pid IN (SELECT service_pid FROM changed)`
      : change,
  );
}

/** IDs of the segments of which one of the people is or may be a member, as read by feeds and written by pushes. */
export async function segmentsOf(db: Db, pids: readonly string[]): Promise<readonly string[]> {
  return db.pluck(sql`
    SELECT segment_id FROM ${db.table("segment_member")}
    WHERE is_member AND service_pid = ANY(${[...pids]}::text[])
    UNION SELECT segment_id FROM ${db.table("segment_push_member")}
    WHERE state IN ('member', 'unknown') AND service_pid = ANY(${[...pids]}::text[]) ORDER BY 1`);
}

/** Removes expired tombstones; returns how many. */
export function dropTombstones(db: Db, olderThanMs: number): Promise<number> {
  return db.change(sql`DELETE FROM ${db.table("tombstone")}
    WHERE erased_at <= now() - ${olderThanMs} * interval '1 millisecond'`);
}
