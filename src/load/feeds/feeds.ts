import { sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import type { Cell } from "../../schemas/convert.ts";
import { tableNamed } from "../../schemas/registry.ts";
import type { Table } from "../../schemas/table.ts";
import type {
  CheckpointMove,
  FeedCommit,
  FeedUpsert,
  MissingRows,
  StoredCheckpoint,
  UpsertResult,
} from "./feed-commit.ts";
import { copyRows } from "../db/copy.ts";
import { addCounters, settleLedger, touchTables, upsertDrift } from "../ledger/ledger.ts";
import type { LoadContext } from "../answers/load-context.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";
import { type Erasures, readErasures } from "../erasure/key.ts";
import { erasedSql } from "../erasure/naming.ts";
import { removeErasedRows } from "../write/erased.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Rows per COPY. */
const COPY_ROWS = 5000;

/** Result of a commit; `work` is null if only the ledger shows that it happened. */
export interface FeedDone<Result> {
  readonly results: readonly UpsertResult[];
  readonly work: Result | null;
  readonly rowsWritten: number;
}

/** Result of a commit, computed before COMMIT, whose reply may be lost. */
export interface MadeFeed {
  readonly done: FeedDone<unknown>;
  /** `_synced_at` of the run's row, which each commit updates; null without a row. */
  readonly syncedAt: string | null;
}

/** Additional writes of a commit. */
export type FeedWork<Result> = (context: FeedLoadContext) => Promise<Result>;

/** Context of a commit, with the people to suppress. */
export interface FeedLoadContext extends LoadContext {
  readonly erasures: Erasures;
}

/** Returns the checkpoints of a job. */
export async function readCheckpoints(db: Db, job: string): Promise<readonly StoredCheckpoint[]> {
  const { names } = db;
  return db.transaction(async (session) => {
    return session.rows<StoredCheckpoint>(sql`
    SELECT stream, cursor, updated_at AS "updatedAt", run_id AS "runId"
    FROM ${tableId(names, "checkpoint")} WHERE job = ${job} ORDER BY stream`);
  });
}

/** Commits rows, checkpoints, ledger, drift and counters in one transaction. */
export async function commitFeed(db: Db, commit: FeedCommit): Promise<readonly UpsertResult[]> {
  const { results } = await commitFeedWith(db, commit, async () => null);
  return results;
}

/**
 * Like {@link commitFeed}, with additional writes. Repeated after a lost reply, it changes nothing and returns the first
 * result. If only the ledger shows the earlier commit, `work` is null and all results are empty.
 */
export async function commitFeedWith<Result>(
  db: Db,
  commit: FeedCommit,
  work: FeedWork<Result>,
): Promise<FeedDone<Result>> {
  const { names } = db;
  const { run } = commit;
  const done = await db.transaction(run, async (session) => {
    const made = await madeBefore(db, session, commit);
    // Stored by an earlier attempt with the same `work`.
    if (made) return made as FeedDone<Result>;
    const newCalls = await settleLedger(session, names, run, commit.ledger);
    if (commit.ledger.length > 0 && newCalls.size === 0) {
      return { results: commit.upserts.map(() => NOTHING), work: null, rowsWritten: 0 };
    }
    const written = new Map<string, number>();
    const erasures = await readErasures(session, names, db.readErasureSecret);
    const context: FeedLoadContext = {
      erasures,
      session,
      names,
      runId: run.runId,
      touch: (table, rows) => void written.set(table, (written.get(table) ?? 0) + rows),
    };
    const results: UpsertResult[] = [];
    for (const upsert of commit.upserts) results.push(await upsertRows(context, upsert));
    const result = await work(context);
    await upsertDrift(session, names, run, commit.drift);
    const changed = [...written].filter(([, rows]) => rows > 0).map(([table]) => table);
    const aside = commit.upserts.filter((upsert, i) => upsert.isBookkeeping && changedBy(results[i]) > 0);
    await touchTables(session, names, run, [...new Set([...changed, ...aside.map(({ table }) => table)])]);
    for (const move of commit.checkpoints) await moveCheckpoint(context, run, move);
    const rowsWritten = [...written.values()].reduce((sum, rows) => sum + rows, 0);
    const counters = { ...commit.counters, rows_written: rowsWritten };
    const syncedAt = await addCounters(session, names, run, counters);
    const outcome = { results, work: result, rowsWritten };
    db.latestFeeds.keep(commit, { done: outcome, syncedAt });
    crashPoint("before_commit");
    return outcome;
  });
  crashPoint("after_commit");
  return done;
}

/** Returns the result of an earlier committed attempt; null if there is none. Waits for an attempt in progress, which locks the row. */
async function madeBefore(
  { latestFeeds, names }: Db,
  session: Session,
  commit: FeedCommit,
): Promise<FeedDone<unknown> | null> {
  // Only this file stores commits of feeds.
  const earlier = latestFeeds.find(commit) as MadeFeed | null;
  if (!earlier || earlier.syncedAt === null) return null;
  const { runId, job, shard } = commit.run;
  const [row] = await session.rows<{ at: string }>(sql`
    SELECT _synced_at::text AS at FROM ${tableId(names, "sync_run")}
    WHERE run_id = ${runId} AND job = ${job} AND shard = ${shard} FOR UPDATE`);
  return row?.at === earlier.syncedAt ? earlier.done : null;
}

const changedBy = ({ inserted, updated, marked }: UpsertResult = NOTHING): number =>
  inserted + updated + marked;

const NOTHING: UpsertResult = { given: 0, suppressed: 0, inserted: 0, updated: 0, marked: 0, unbelieved: 0 };
const STAGE = "stage_feed";

/** COPYs rows in chunks. `target` is quoted. */
export async function copyMany(
  session: Session,
  target: string,
  columns: readonly string[],
  rows: Iterable<readonly Cell[]>,
): Promise<number> {
  let count = 0;
  let piece: (readonly Cell[])[] = [];
  for (const row of rows) {
    piece.push(row);
    if (piece.length < COPY_ROWS) continue;
    await copyRows(session, target, columns, piece);
    count += piece.length;
    piece = [];
  }
  await copyRows(session, target, columns, piece);
  return count + piece.length;
}

function* numbered(rows: Iterable<readonly Cell[]>): Generator<readonly Cell[]> {
  let ord = 0;
  for (const row of rows) yield [...row, String(ord++)];
}

async function upsertRows(context: FeedLoadContext, upsert: FeedUpsert): Promise<UpsertResult> {
  const { session, names } = context;
  const table = tableNamed(upsert.table);
  const target = tableId(names, table.name);
  const stage = `pg_temp.${STAGE}`;
  const list = sql.raw(upsert.columns.map(quoteIdentifier).join(", "));
  const key = sql.raw(table.key.map(quoteIdentifier).join(", "));
  await session.change(sql`
    CREATE TEMP TABLE ${sql.raw(STAGE)} ON COMMIT DROP AS SELECT ${list}, 0::bigint AS _ord FROM ${target} LIMIT 0`);
  await copyMany(session, stage, [...upsert.columns, "_ord"], numbered(upsert.rows));
  const erased = await removeErasedRows(session, names, context.erasures.key, { ...upsert, stage });
  await session.change(sql`ANALYZE pg_temp.${sql.raw(STAGE)}`);
  const values = upsert.columns.filter((c) => !table.key.includes(c) && !upsert.keep?.includes(c));
  const set = sql.raw(values.map((c) => `${quoteIdentifier(c)} = excluded.${quoteIdentifier(c)}, `).join(""));
  const isChanged = sql.raw(
    values
      .filter((c) => !upsert.along?.includes(c))
      .map((c) => `t.${quoteIdentifier(c)} IS DISTINCT FROM excluded.${quoteIdentifier(c)}`)
      .join(" OR ") || "false",
  );
  const { hasRunId } = table;
  const [counts] = await session.rows<{ given: number; inserted: number; updated: number }>(sql`
    WITH given AS (
      SELECT DISTINCT ON (${key}) * FROM pg_temp.${sql.raw(STAGE)} ORDER BY ${key}, _ord DESC),
    written AS (
      INSERT INTO ${target} AS t (${list}, _synced_at${sql.raw(hasRunId ? ", _run_id" : "")})
      SELECT ${list}, now()${hasRunId ? sql`, ${context.runId}` : sql``} FROM given ORDER BY ${key}
      ON CONFLICT (${key}) DO UPDATE SET ${set}_synced_at = excluded._synced_at${sql.raw(hasRunId ? ", _run_id = excluded._run_id" : "")}
      WHERE ${isChanged}
      RETURNING (xmax = 0) AS is_new)
    SELECT (SELECT count(*) FROM given) AS given, count(*) FILTER (WHERE is_new) AS inserted,
      count(*) FILTER (WHERE NOT is_new) AS updated
    FROM written`);
  const missed = upsert.missing
    ? await markMissing(context, table, upsert.missing)
    : { marked: 0, unbelieved: 0 };
  const deleted = upsert.replaces ? await deleteOthers(context, table, upsert.replaces) : 0;
  await session.change(sql`DROP TABLE pg_temp.${sql.raw(STAGE)}`);
  const marked = missed.marked + deleted;
  const result = { ...(counts ?? NOTHING), suppressed: erased, ...missed, marked };
  if (upsert.replaces && changedBy(result) > 0) await touchParent(context, table, upsert.replaces);
  if (!upsert.isBookkeeping) context.touch(upsert.table, changedBy(result));
  return result;
}

/** Deletes the rows of erased people from a temporary table; returns their number. */
export async function dropErased(context: FeedLoadContext, stage: string): Promise<number> {
  const { session, names, erasures } = context;
  if (erasures.key === null) return 0;
  const isErased = erasedSql(names, erasures.key).pid("service_pid");
  return session.change(sql`DELETE FROM pg_temp.${sql.id(stage)} WHERE ${isErased}`);
}

/** Condition that columns of `t` have these values. */
function hasValues(values: Readonly<Record<string, string>>) {
  return sql.join(
    Object.entries(values).map(([c, value]) => sql`t.${sql.id(c)} = ${value}`),
    sql` AND `,
  );
}

/** Condition that the row `t` is staged. */
function isStaged({ key }: Table) {
  const isSame = key.map((c) => `s.${quoteIdentifier(c)} = t.${quoteIdentifier(c)}`).join(" AND ");
  return sql`EXISTS (SELECT FROM pg_temp.${sql.raw(STAGE)} AS s WHERE ${sql.raw(isSame)})`;
}

/** Deletes children of a parent that are not staged. */
function deleteOthers(
  { session, names }: LoadContext,
  table: Table,
  parent: Readonly<Record<string, string>>,
) {
  return session.change(sql`
    DELETE FROM ${tableId(names, table.name)} AS t WHERE ${hasValues(parent)} AND NOT ${isStaged(table)}`);
}

/** Updates `_synced_at` of the parent, with which children are published. */
async function touchParent(
  { session, names, runId }: LoadContext,
  { parent }: Table,
  key: Readonly<Record<string, string>>,
): Promise<void> {
  if (parent === null) return;
  await session.change(sql`
    UPDATE ${tableId(names, parent)} AS t SET _synced_at = now(), _run_id = ${runId} WHERE ${hasValues(key)}`);
}

/** Marks rows within the scope that are not staged. */
async function markMissing(
  context: LoadContext,
  table: Table,
  missing: MissingRows,
): Promise<Pick<UpsertResult, "marked" | "unbelieved">> {
  const { scope, flag, since, at, atMostHalf } = missing;
  const inScope = hasValues(scope);
  const isUnmarked = flag === null ? sql`t.${sql.id(since)} IS NULL` : sql`t.${sql.id(flag)}`;
  const unflag = flag === null ? sql`` : sql`${sql.id(flag)} = false, `;
  const { hasRunId } = table;
  const isMissing = sql`NOT ${isStaged(table)}`;
  if (atMostHalf) {
    const [rows = { all: 0, missing: 0 }] = await context.session.rows<{ all: number; missing: number }>(sql`
      SELECT count(*) AS all, count(*) FILTER (WHERE ${isMissing}) AS missing
      FROM ${tableId(context.names, table.name)} AS t WHERE ${inScope} AND ${isUnmarked}`);
    if (rows.missing * 2 > rows.all) return { marked: 0, unbelieved: rows.missing };
  }
  const marked = await context.session.change(sql`
    UPDATE ${tableId(context.names, table.name)} AS t
    SET ${unflag}${sql.id(since)} = ${at}::timestamptz, _synced_at = now()${hasRunId ? sql`, _run_id = ${context.runId}` : sql``}
    WHERE ${inScope} AND ${isUnmarked} AND ${isMissing}`);
  return { marked, unbelieved: 0 };
}

/** Moves or deletes a checkpoint. */
async function moveCheckpoint(
  { session, names }: LoadContext,
  run: RunRef,
  { stream, cursor }: CheckpointMove,
): Promise<void> {
  const checkpoint = tableId(names, "checkpoint");
  if (cursor === null) {
    await session.change(sql`DELETE FROM ${checkpoint} WHERE job = ${run.job} AND stream = ${stream}`);
    return;
  }
  await session.change(sql`
    INSERT INTO ${checkpoint} (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES (${run.job}, ${stream}, ${JSON.stringify(cursor)}::jsonb, now(), ${run.runId}, now())
    ON CONFLICT (job, stream) DO UPDATE SET cursor = excluded.cursor, updated_at = excluded.updated_at,
      run_id = excluded.run_id, _synced_at = excluded._synced_at`);
}
