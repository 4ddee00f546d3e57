import type { Db } from "../db/db.ts";
import { isMigrated } from "../db/setup.ts";
import { type RawBuilder, sql } from "kysely";
import type { FoundPeople, KnownBy, RowsByTable } from "./people.ts";
import {
  type ErasureKey,
  erasureKeyOf,
  makeErasureSecret,
  normalizedEmail,
  type Subject,
} from "./subject-hash.ts";
import { namingTables, type NamingTable } from "./naming-tables.ts";
import { addRowsOfPids, findAgain } from "./find-people.ts";
import { forgetDoubts } from "../ledger/call-in-doubt.ts";
import { listWorkTables, RECORDS, ROWS } from "../due/work-table.ts";
import { quoteIdentifier, type SchemaNames, stateTableId, tableId } from "../db/names.ts";
import { noteSubjects } from "./note-subjects.ts";
import { isStagedEmail, isStagedPid, namesStaged, stagedPeople, stagePeople } from "./people-tables.ts";
import type { Session } from "../db/session.ts";
import { type EpochRow, keyOfEpoch, type ReadErasureSecret } from "./suppression.ts";
import { makeEpochRow } from "./suppressed-sql.ts";

/** Rows that name these people, by table. */
export async function countPeople(db: Db, people: KnownBy): Promise<RowsByTable> {
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

/** Raises the number of erasures, after the commits under way, and keeps these people out. Until it ends nobody commits. */
export async function noteErasure(db: Db, id: string, found: FoundPeople): Promise<void> {
  const { names } = db;
  await db.transaction(async (session) => {
    const key = await raiseEpoch(session, names, db.readErasureSecret, id);
    // A row that was answered since the search would keep its state for ever: no PID stands in it.
    const people = await findAgain(session, names, found);
    await noteSubjects(session, names, key, { erasureId: id, runId: id }, subjectsOf(people));
  });
}

/** Makes commits that are under way begin anew, and others wait for the end of this transaction. Returns the key of erasures. */
async function raiseEpoch(
  session: Session,
  names: SchemaNames,
  readSecret: ReadErasureSecret,
  id: string,
): Promise<ErasureKey> {
  const epoch = tableId(names, "erasure_epoch");
  await makeEpochRow(session, names);
  const [row] = await session.rows<EpochRow>(sql`SELECT epoch, key_id, made_key FROM ${epoch} FOR UPDATE`);
  if (!row) throw new Error("The row of erasure_epoch is gone.");
  const configured = row.key_id === null ? await readSecret() : null;
  const made = row.key_id === null && configured === null ? makeErasureSecret() : row.made_key;
  const key = (await keyOfEpoch(row, readSecret)) ?? erasureKeyOf(configured ?? made ?? "");
  await session.change(sql`
    UPDATE ${epoch} SET epoch = epoch + 1, key_id = ${key.id}, made_key = ${made}, _synced_at = now(), _run_id = ${id}`);
  return key;
}

/**
 * Follows what loads have found to belong to an erasure since it was noted: rows that were answered with such a PID before
 * are the person's too, and loads that didn't know of it begin anew.
 */
async function noteFoundByLoads(
  session: Session,
  names: SchemaNames,
  readSecret: ReadErasureSecret,
  id: string,
): Promise<void> {
  const found = sql<{
    pid: string | null;
  }>`SELECT service_pid AS pid FROM ${tableId(names, "tombstone")}
    WHERE erasure_id = ${id}::uuid AND removed_at IS NULL AND _run_id <> ${id}`;
  if ((await session.rows(sql`${found} LIMIT 1`)).length === 0) return;
  const key = await raiseEpoch(session, names, readSecret, id);
  const pids = await session.rows(found);
  const named = { pids: pids.flatMap(({ pid }) => pid ?? []), emails: [], rows: [] };
  await stagePeople(session, named);
  await addRowsOfPids(session, names);
  const { rows } = await stagedPeople(session);
  await noteSubjects(
    session,
    names,
    key,
    { erasureId: id, runId: id },
    subjectsOf({ ...named, pids: [], rows }),
  );
}

function subjectsOf({ pids, emails, rows }: KnownBy): readonly Subject[] {
  return [
    ...pids.map((pid): Subject => ({ kind: "pid", pid })),
    ...emails.map((email): Subject => ({ kind: "email", address: normalizedEmail(email) })),
    ...rows.map((row): Subject => ({ kind: "source_key", ...row })),
  ];
}

/** Erasures whose rows have not all been removed. */
export async function readOpenErasures(db: Db): Promise<readonly string[]> {
  if (!(await isMigrated(db))) return [];
  const { names } = db;
  return db.transaction(async (session) => {
    const rows = await session.rows<{ id: string }>(sql`
    SELECT erasure_id::text AS id FROM ${tableId(names, "tombstone")} WHERE removed_at IS NULL
    GROUP BY erasure_id ORDER BY min(erased_at), erasure_id`);
    return rows.map(({ id }) => id);
  });
}

/** Removes what the tombstones of an erasure name, from every declared table and from the lists of what is to be sent. */
export async function removeErased(db: Db, id: string): Promise<RowsByTable> {
  const { names } = db;
  await db.transaction((session) => noteFoundByLoads(session, names, db.readErasureSecret, id));
  return db.transaction((session) => removeStones(session, names, id));
}

async function removeStones(session: Session, names: SchemaNames, id: string): Promise<RowsByTable> {
  const tombstone = tableId(names, "tombstone");
  const stones = await session.rows<{
    pid: string | null;
    email: string | null;
    source: string;
    key: string | null;
  }>(sql`
    SELECT service_pid AS pid, email_address AS email, source, source_key AS key FROM ${tombstone}
    WHERE erasure_id = ${id}::uuid`);
  await stagePeople(session, {
    pids: stones.flatMap(({ pid }) => pid ?? []),
    emails: stones.flatMap(({ email }) => email ?? []),
    rows: stones.flatMap(({ source, key }) => (key === null ? [] : [{ source, sourceKey: key }])),
  });
  const removed: [string, number][] = [];
  await forgetRecords(session, names);
  for (const naming of namingTables) {
    removed.push([naming.table.name, await removeFrom(session, names, naming, id)]);
  }
  await movePersons(session, names, id);
  const total = removed.reduce((sum, [, rows]) => sum + rows, 0);
  await session.change(sql`UPDATE ${tableId(names, "erasure_subject")}
    SET rows_removed = rows_removed + ${total}, _synced_at = now() WHERE erasure_id = ${id}::uuid`);
  // Copies are told PIDs and keys; addresses are kept no longer than they are needed.
  await session.change(
    sql`DELETE FROM ${tombstone} WHERE erasure_id = ${id}::uuid AND email_address IS NOT NULL`,
  );
  await session.change(sql`UPDATE ${tombstone} SET removed_at = now(), _synced_at = now()
    WHERE erasure_id = ${id}::uuid AND removed_at IS NULL`);
  return Object.fromEntries(removed.filter(([, rows]) => rows > 0));
}

/** Removes the rows of a table, clears what names people in others, and tells how many rows that concerned. */
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

/** Remembers persons whose rows or lists are about to change. */
async function noteMoved(session: Session, owners: RawBuilder<unknown>): Promise<void> {
  await session.client.query(
    "CREATE TEMP TABLE IF NOT EXISTS moved_person (pid text PRIMARY KEY) ON COMMIT DROP",
  );
  await session.change(sql`INSERT INTO pg_temp.moved_person SELECT DISTINCT service_pid FROM (${owners}) AS o(service_pid)
    ON CONFLICT DO NOTHING`);
}

/** Lets those persons move, and takes their content for unknown: its hashes speak of values that are gone. */
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

/** Takes the records of the staged rows out of calls in doubt and out of the lists of running runs. */
async function forgetRecords(session: Session, names: SchemaNames): Promise<void> {
  const hashes = await session.rows<{ job: string; hash: string }>(sql`
    SELECT DISTINCT s.job, encode(s.sent_hash, 'hex') AS hash FROM ${tableId(names, "lookup_state")} AS s
    WHERE s.sent_hash IS NOT NULL AND (${isStagedEmail("s.source_key")}
      OR (s.source, s.source_key) IN (SELECT source, source_key FROM pg_temp.erased_row))`);
  const records = new Set((await listWorkTables(session, names, RECORDS)).map(({ name }) => name));
  for (const { name, job } of await listWorkTables(session, names, ROWS)) {
    const rows = stateTableId(names, name);
    const theirs = sql`SELECT r.ord FROM ${rows} AS r
      WHERE r.source_key IN (SELECT source_key FROM pg_temp.erased_row) OR ${isStagedEmail("r.source_key")}`;
    const recordsName = name.replace(ROWS, RECORDS);
    let erased = theirs;
    if (records.has(recordsName)) {
      const work = stateTableId(names, recordsName);
      const isTheirs = sql`(${isStagedPid("t.pid")} OR t.ord IN (${theirs}))`;
      const sent = await session.rows<{ hash: string }>(
        sql`SELECT encode(t.sent_hash, 'hex') AS hash FROM ${work} AS t WHERE ${isTheirs}`,
      );
      hashes.push(...sent.map(({ hash }) => ({ job, hash })));
      // Empty rows keep their place, by which the run that reads them knows that the list is whole.
      await session.change(
        sql`UPDATE ${work} AS t SET sent_hash = '', record = '', pid = NULL WHERE ${isTheirs}`,
      );
      erased = sql`SELECT t.ord FROM ${work} AS t WHERE t.record = ''`;
    }
    await session.change(
      sql`UPDATE ${rows} SET source_key = NULL, input_hash = '' WHERE ord IN (${erased}) AND source_key IS NOT NULL`,
    );
  }
  for (const [job, found] of Map.groupBy(hashes, (one) => one.job)) {
    await forgetDoubts(
      session,
      names,
      job,
      found.map(({ hash }) => hash),
    );
  }
}

/** The segments in which people are, as feeds have seen them and pushes have put them. */
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
    WHERE state <> 'invalid' AND service_pid = ANY(${[...pids]}::text[]) ORDER BY 1, 2`);
  });
}

/** Removes tombstones that have done their service. */
export async function dropTombstones(db: Db, olderThanMs: number): Promise<number> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.change(sql`DELETE FROM ${tableId(names, "tombstone")}
    WHERE removed_at IS NOT NULL AND greatest(erased_at, removed_at) <= now() - ${olderThanMs} * interval '1 millisecond'`);
  });
}
