import { type RawBuilder, sql } from "kysely";
import type { FoundPeople, KnownBy, RowsByTable } from "../erasure-warehouse.ts";
import { namingTables, type NamingTable } from "../naming-tables.ts";
import { type ErasureKey, erasureKeyOf, makeErasureSecret } from "../subject-hash.ts";
import type { ReadErasureSecret, Suppression } from "../suppression.ts";
import { isNotFound } from "./failure.ts";
import { addRowsOfPids, findAgain, followVariables } from "./find-people.ts";
import { forgetAllDoubts } from "./forget-doubts.ts";
import { type DatasetNames, quoteIdentifier, tableId, tableText } from "./names.ts";
import { noteSubjects } from "./note-subjects.ts";
import {
  dropPeople,
  isStagedEmail,
  isStagedPid,
  isStagedRow,
  namesStaged,
  stagePeople,
  stageQueries,
} from "./people-tables.ts";
import { NOW, NOW_NAME, type Session } from "./session.ts";
import { declareKey, requireSameEpoch, subjectHashes } from "./suppression.ts";

const raw = (text: string) => sql.raw(text);

/** Rows that name these people, by table. */
export async function countPeople(session: Session, people: KnownBy): Promise<RowsByTable> {
  const counts = namingTables.map(
    (naming) =>
      `SELECT '${naming.table.name}' AS name, COUNT(*) AS n FROM ${idOf(session.names, naming)} AS t WHERE ${isConcerned(naming)}`,
  );
  const rows = await session.script(
    [
      ...stagePeople(people),
      raw(`CREATE TEMP TABLE erased_count AS ${counts.join("\n      UNION ALL ")}`),
      ...dropPeople,
    ],
    sql<{ name: string; n: number }>`SELECT name, n FROM erased_count WHERE n > 0`,
  );
  const found = new Map(rows.map(({ name, n }) => [name, n]));
  return Object.fromEntries(namingTables.flatMap(({ table: { name } }) => countOf(name, found.get(name))));
}

function countOf(name: string, n: number | undefined): readonly [string, number][] {
  return n === undefined || n === 0 ? [] : [[name, n]];
}

function idOf(names: DatasetNames, { table }: NamingTable): string {
  return tableText(names, table.room, table.name);
}

const isCleared = (column: string) => isStagedPid(`t.${quoteIdentifier(column)}`);

/** Whether a row `t` goes, or a column of it is cleared. */
function isConcerned(naming: NamingTable): string {
  return [namesStaged(naming), ...(naming.people.clears ?? []).map(isCleared)].join(" OR ");
}

/** What an erasure is noted with. */
export interface NotedErasure {
  readonly id: string;
  readonly readSecret: ReadErasureSecret;
  /** What is known of erasures before; with another one it begins anew. */
  readonly known: Suppression;
}

/** Raises the number of erasures, after the commits under way, and keeps these people out. Until it ends nobody commits. */
export async function noteErasure(
  session: Session,
  { id, readSecret, known }: NotedErasure,
  found: FoundPeople,
): Promise<void> {
  const { names } = session;
  const made = await keyFor(known, readSecret);
  await session.transaction({
    declare: [...declareKey(made.key), ...followVariables],
    statements: [
      ...raiseEpoch(names, known, id, made),
      // A row that was answered since the search would keep its state for ever: no PID stands in it.
      ...findAgain(names, found),
      ...noteSubjects(names, stagedSubjects(id), id),
      ...dropPeople,
    ],
  });
}

/** A key, and its secret where the warehouse is to keep it. */
interface KeyAtHand {
  readonly key: ErasureKey;
  readonly madeSecret: string | null;
}

/** The key of earlier erasures; before the first that of the configuration, or one that is made. */
async function keyFor({ key }: Suppression, readSecret: ReadErasureSecret): Promise<KeyAtHand> {
  if (key !== null) return { key, madeSecret: null };
  const configured = await readSecret();
  if (configured !== null) return { key: erasureKeyOf(configured), madeSecret: null };
  const madeSecret = makeErasureSecret();
  return { key: erasureKeyOf(madeSecret), madeSecret };
}

/** Makes commits that are under way begin anew, and others wait for the end of this transaction. */
function raiseEpoch(
  names: DatasetNames,
  known: Suppression,
  id: string,
  { key, madeSecret }: KeyAtHand,
): readonly RawBuilder<unknown>[] {
  const epoch = tableId(names, "ops", "erasure_epoch");
  return [
    afterEverybody(names),
    requireSameEpoch(names, known),
    sql`IF (SELECT COUNT(*) FROM ${epoch}) = 0 THEN
      INSERT INTO ${epoch} (name, epoch, key_id, made_key, _synced_at, _run_id) VALUES ('erasure', 0, NULL, NULL, ${NOW}, '');
    END IF`,
    sql`UPDATE ${epoch} SET epoch = epoch + 1, key_id = ${key.id}, made_key = IFNULL(made_key, CAST(${madeSecret} AS STRING)),
      _synced_at = ${NOW}, _run_id = ${id} WHERE TRUE`,
  ];
}

/** Every transaction changes its row of `job_lock` (see run-transaction.ts): one that changes all rows meets no other. */
function afterEverybody(names: DatasetNames): RawBuilder<unknown> {
  return sql`UPDATE ${tableId(names, "ops", "job_lock")} SET _synced_at = ${NOW} WHERE TRUE`;
}

const none = (name: string) => `CAST(NULL AS STRING) AS ${name}`;

/** What is staged, as {@link noteSubjects} takes it. */
function stagedSubjects(id: string): RawBuilder<unknown> {
  const { pid, email, row } = subjectHashes;
  return raw(`SELECT '${id}' AS erasure_id, 'pid' AS kind, ${pid("pid")} AS hash, pid, ${none("source")}, ${none("source_key")},
      ${none("email")} FROM erased_pid
    UNION ALL SELECT '${id}', 'email', ${email("email")}, NULL, NULL, NULL, email FROM erased_email
    UNION ALL SELECT '${id}', 'source_key', ${row("source", "source_key")}, NULL, source, source_key, NULL FROM erased_row`);
}

const NOBODY = {
  pids: raw("SELECT CAST(NULL AS STRING) AS pid"),
  emails: raw("SELECT CAST(NULL AS STRING) AS email"),
  rows: raw("SELECT CAST(NULL AS STRING) AS source, CAST(NULL AS STRING) AS source_key"),
};

/**
 * Follows what loads have found to belong to an erasure since it was noted: rows that were answered with such a PID before
 * are the person's too, and loads that didn't know of it begin anew.
 */
export async function noteFoundByLoads(
  session: Session,
  { id, known }: Pick<NotedErasure, "id" | "known">,
): Promise<void> {
  const { names } = session;
  const { key } = known;
  const stones = sql`FROM ${tableId(names, "data", "tombstone")}
    WHERE erasure_id = ${id} AND removed_at IS NULL AND _run_id != ${id}`;
  if (key === null || (await session.rows(sql`SELECT 1 AS found ${stones} LIMIT 1`)).length === 0) return;
  await session.transaction({
    declare: declareKey(key),
    statements: [
      ...raiseEpoch(names, known, id, { key, madeSecret: null }),
      ...stageQueries({ ...NOBODY, pids: sql`SELECT service_pid AS pid ${stones}` }),
      addRowsOfPids(names),
      raw("DELETE FROM erased_pid WHERE TRUE"),
      ...noteSubjects(names, stagedSubjects(id), id),
      ...dropPeople,
    ],
  });
}

/** Erasures whose rows have not all been removed; none before the first migration. */
export async function readOpenErasures(session: Session): Promise<readonly string[]> {
  try {
    const rows = await session.rows<{ id: string }>(sql`
      SELECT erasure_id AS id FROM ${tableId(session.names, "data", "tombstone")} WHERE removed_at IS NULL
      GROUP BY erasure_id ORDER BY MIN(erased_at), erasure_id`);
    return rows.map(({ id }) => id);
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

/** What the tombstones of an erasure name. */
export async function readStones(session: Session, id: string): Promise<KnownBy> {
  const stones = await session.rows<{
    pid: string | null;
    email: string | null;
    source: string;
    key: string | null;
  }>(sql`SELECT service_pid AS pid, email_address AS email, source, source_key AS key
    FROM ${tableId(session.names, "data", "tombstone")} WHERE erasure_id = ${id}`);
  return {
    pids: stones.flatMap(({ pid }) => pid ?? []),
    emails: stones.flatMap(({ email }) => email ?? []),
    rows: stones.flatMap(({ source, key }) => (key === null ? [] : [{ source, sourceKey: key }])),
  };
}

/**
 * Removes what the tombstones of an erasure name from every declared table.
 * @param listed records of theirs that stand in lists of what is to be sent: `JOB HASH`, hex.
 */
export async function removeErased(
  session: Session,
  id: string,
  listed: readonly string[],
): Promise<RowsByTable> {
  const { names } = session;
  const tombstone = tableId(names, "data", "tombstone");
  const counts = namingTables.map((_, i) => `n_${i}`);
  const states =
    raw(`SELECT s.job, TO_HEX(s.sent_hash) AS hash FROM ${tableText(names, "data", "lookup_state")} AS s
    WHERE s.sent_hash IS NOT NULL AND (${isStagedEmail("s.source_key")} OR ${isStagedRow("s")})`);
  const [row] = await session.transaction<Record<string, number>>({
    declare: [
      sql`_etl_listed ARRAY<STRING> DEFAULT ${[...listed]}`,
      ...counts.map((n) => raw(`${n} INT64 DEFAULT 0`)),
    ],
    statements: [
      afterEverybody(names),
      ...stageQueries({
        pids: sql`SELECT service_pid AS pid FROM ${tombstone} WHERE erasure_id = ${id}`,
        emails: sql`SELECT email_address AS email FROM ${tombstone} WHERE erasure_id = ${id}`,
        rows: sql`SELECT source, source_key FROM ${tombstone} WHERE erasure_id = ${id}`,
      }),
      raw("CREATE TEMP TABLE moved_person AS SELECT pid FROM erased_pid WHERE FALSE"),
      ...forgetAllDoubts(
        names,
        sql`SELECT job, hash FROM (${states}) UNION ALL
          SELECT SUBSTR(l, 1, LENGTH(l) - 65), SUBSTR(l, -64) FROM UNNEST(_etl_listed) AS l`,
      ),
      ...namingTables.flatMap((naming, i) => removeFrom(names, naming, `n_${i}`, id)),
      ...movePersons(names, id),
      raw(`UPDATE ${tableText(names, "ops", "erasure_subject")}
        SET rows_removed = rows_removed + ${counts.join(" + ")}, _synced_at = ${NOW_NAME} WHERE erasure_id = '${id}'`),
      // Copies are told PIDs and keys; addresses are kept no longer than they are needed.
      sql`DELETE FROM ${tombstone} WHERE erasure_id = ${id} AND email_address IS NOT NULL`,
      sql`UPDATE ${tombstone} SET removed_at = ${NOW}, _synced_at = ${NOW} WHERE erasure_id = ${id} AND removed_at IS NULL`,
      ...dropPeople,
      raw("DROP TABLE moved_person"),
    ],
    outcome: raw(`SELECT ${counts.join(", ")}`) as RawBuilder<Record<string, number>>,
  });
  return Object.fromEntries(namingTables.flatMap(({ table }, i) => countOf(table.name, row?.[`n_${i}`])));
}

/**
 * Statements that remove the rows of a table, clear what names people in others, and count how many rows that concerned.
 * Only tables that name them are changed: BigQuery bills a whole table for each change.
 */
function removeFrom(
  names: DatasetNames,
  naming: NamingTable,
  count: string,
  id: string,
): readonly RawBuilder<unknown>[] {
  const { table, people } = naming;
  const rows = idOf(names, naming);
  const isTheirs = namesStaged(naming);
  const runId = table.hasRunId ? `, _run_id = '${id}'` : "";
  const moved = (condition: string) =>
    `INSERT INTO moved_person (pid) SELECT DISTINCT t.service_pid FROM ${rows} AS t WHERE ${condition};`;
  const clears = (people.clears ?? []).map(
    (name) => `${table.name === "person" ? moved(isCleared(name)) : ""}
      UPDATE ${rows} AS t SET ${quoteIdentifier(name)} = NULL, _synced_at = ${NOW_NAME}${runId} WHERE ${isCleared(name)};
      SET ${count} = ${count} + @@row_count;`,
  );
  return [
    raw(`IF EXISTS (SELECT 1 FROM ${rows} AS t WHERE ${isConcerned(naming)}) THEN
      ${people.isListOfPerson ? moved(isTheirs) : ""}
      DELETE FROM ${rows} AS t WHERE ${isTheirs};
      SET ${count} = ${count} + @@row_count;
      ${clears.join("\n      ")}
    END IF`),
  ];
}

/** Lets persons move whose rows or lists have changed, and takes their content for unknown: its hashes speak of what is gone. */
function movePersons(names: DatasetNames, id: string): readonly RawBuilder<unknown>[] {
  const isMoved = "service_pid IN (SELECT pid FROM moved_person)";
  return [
    raw(`IF EXISTS (SELECT 1 FROM moved_person) THEN
      UPDATE ${tableText(names, "data", "person")} SET _record_synced_at = ${NOW_NAME}, _run_id = '${id}' WHERE ${isMoved};
      UPDATE ${tableText(names, "data", "person_state")}
        SET group_hashes = REPEAT('-', LENGTH(group_hashes)), _synced_at = ${NOW_NAME}, _run_id = '${id}' WHERE ${isMoved};
    END IF`),
  ];
}

/** Removes tombstones that have done their service. */
export function dropTombstones(session: Session, olderThanMs: number): Promise<number> {
  return session.change(sql`DELETE FROM ${tableId(session.names, "data", "tombstone")}
    WHERE removed_at IS NOT NULL AND GREATEST(erased_at, removed_at)
      <= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL ${sql.raw(String(Math.round(olderThanMs)))} MILLISECOND)`);
}
