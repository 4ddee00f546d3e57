import { sql } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import { tableNamed } from "../../schemas/registry.ts";
import type { Table } from "../../schemas/table.ts";
import { copyRows } from "../db/copy.ts";
import type { ErasureKey } from "../erasure/key.ts";
import { anyOf } from "../erasure/subjects.ts";
import type { LoadContext } from "../lookups/lookup.ts";
import { removeErasedRows } from "./erased.ts";

/** A commit in progress. */
export interface Writing extends LoadContext {
  /** Key of the hashes of erased people; null if no one was erased. */
  readonly erasureKey: ErasureKey | null;
}

interface StagedRows {
  readonly table: string;
  /** Columns of each row, without `_synced_at` and `_run_id`. */
  readonly columns: readonly string[];
  /** Iterated once per attempt. */
  readonly rows: Iterable<readonly Cell[]>;
}

/** Rows to be inserted or updated by their key, which {@link columns} contain. Other columns keep their values. If keys are equal, the last row counts. */
export interface Upsert extends StagedRows {
  /** Columns that keep their first value (`first_seen_at`). */
  readonly keep?: readonly string[];
  /** Columns that change only together with others (`observed_at`). */
  readonly along?: readonly string[];
  /** True for rows about the reading itself (`last_checked_at`), not counted as written. */
  readonly isBookkeeping?: boolean;
  /** Marks stored rows that are not among {@link rows}. */
  readonly missing?: MissingRows;
  /** Key of the parent of child rows: its other children are deleted, and it counts as changed with them. */
  readonly replaces?: Readonly<Record<string, string>>;
}

/** Marks stored rows that a reading no longer contains. */
interface MissingRows {
  /** Columns and values of the rows that the reading covers. Missing rows within it are marked. */
  readonly scope: Readonly<Record<string, string>>;
  /** Boolean column set to false; null if {@link since} alone is the mark. Null in rows without a mark. */
  readonly flag: string | null;
  /** Column set to {@link at}. */
  readonly since: string;
  /** ISO 8601 with offset. */
  readonly at: string;
  /** True if more than half of the rows can't be missing: then none is marked. */
  readonly atMostHalf?: boolean;
}

export interface UpsertResult {
  /** Distinct rows received, without those of erased people. */
  readonly given: number;
  /** Rows omitted because they name an erased person. */
  readonly suppressed: number;
  readonly inserted: number;
  /** Rows with a changed column; unchanged rows are not written. */
  readonly updated: number;
  /** Rows marked as missing, or deleted. */
  readonly marked: number;
  /** Missing rows that were not marked, because they were more than half. */
  readonly unbelieved: number;
}

export const NOTHING: UpsertResult = {
  given: 0,
  suppressed: 0,
  inserted: 0,
  updated: 0,
  marked: 0,
  unbelieved: 0,
};

/** Number of rows that an upsert changed. */
export function changedBy({ inserted, updated, marked }: UpsertResult = NOTHING): number {
  return inserted + updated + marked;
}

/** Temporary table of {@link stageRows}; the order of the rows is in `_ord`. */
export const STAGE = "staged_row";

const STAGED = sql.id("pg_temp", STAGE);

const ids = (names: readonly string[]) => sql.join(names.map((name) => sql.id(name)));

/**
 * Creates the temporary table {@link STAGE} with rows of a declared table, without erased people. Returns the number of rows
 * left out. All rows of feeds pass here.
 */
export async function stageRows(
  { session, erasureKey }: Writing,
  { table, columns, rows }: StagedRows,
): Promise<number> {
  const stage = `pg_temp.${STAGE}`;
  await session.change(sql`
    CREATE TEMP TABLE ${sql.id(STAGE)} ON COMMIT DROP AS
    SELECT ${ids(columns)}, 0::bigint AS _ord FROM ${session.table(table)} LIMIT 0`);
  await copyRows(session, stage, [...columns, "_ord"], numbered(rows));
  const erased = await removeErasedRows(session, erasureKey, { stage, table, columns });
  await session.change(sql`ANALYZE ${STAGED}`);
  return erased;
}

function* numbered(rows: Iterable<readonly Cell[]>): Generator<readonly Cell[]> {
  let ord = 0;
  for (const row of rows) yield [...row, String(ord++)];
}

/** Merges rows into their table; rows without a change are not written. */
export async function upsertRows(writing: Writing, upsert: Upsert): Promise<UpsertResult> {
  const { session, run } = writing;
  const { columns, keep = [], along = [], missing, replaces } = upsert;
  const table = tableNamed(upsert.table);
  const suppressed = await stageRows(writing, upsert);
  const key = ids(table.key);
  const values = columns.filter((name) => !table.key.includes(name) && !keep.includes(name));
  const stamps = table.hasRunId ? ["_synced_at", "_run_id"] : ["_synced_at"];
  const set = [...values, ...stamps].map((name) => sql`${sql.id(name)} = excluded.${sql.id(name)}`);
  const changes = values
    .filter((name) => !along.includes(name))
    .map((name) => sql`t.${sql.id(name)} IS DISTINCT FROM excluded.${sql.id(name)}`);
  const counts = await session.one<Pick<UpsertResult, "given" | "inserted" | "updated">>(sql`
    WITH given AS (
      SELECT DISTINCT ON (${key}) * FROM ${STAGED} ORDER BY ${key}, _ord DESC),
    written AS (
      INSERT INTO ${session.table(table.name)} AS t (${ids([...columns, ...stamps])})
      SELECT ${ids(columns)}, now()${table.hasRunId ? sql`, ${run.runId}` : sql``} FROM given ORDER BY ${key}
      ON CONFLICT (${key}) DO UPDATE SET ${sql.join(set)} WHERE ${anyOf(changes)}
      RETURNING (xmax = 0) AS is_new)
    SELECT (SELECT count(*) FROM given) AS given, count(*) FILTER (WHERE is_new) AS inserted,
      count(*) FILTER (WHERE NOT is_new) AS updated
    FROM written`);
  const missed = missing ? await markMissing(writing, table, missing) : { marked: 0, unbelieved: 0 };
  const deleted = replaces
    ? await session.change(sql`
        DELETE FROM ${session.table(table.name)} AS t WHERE ${hasValues(replaces)} AND NOT ${isStaged(table)}`)
    : 0;
  await session.change(sql`DROP TABLE ${STAGED}`);
  const result = { ...NOTHING, ...counts, ...missed, suppressed, marked: missed.marked + deleted };
  if (replaces && changedBy(result) > 0) await touchParent(writing, table, replaces);
  if (!upsert.isBookkeeping) writing.touch(upsert.table, changedBy(result));
  return result;
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
  const isSame = key.map((c) => sql`s.${sql.id(c)} = t.${sql.id(c)}`);
  return sql`EXISTS (SELECT FROM ${STAGED} AS s WHERE ${sql.join(isSame, sql` AND `)})`;
}

/** Updates `_synced_at` of the parent, which incremental readers follow. */
async function touchParent(
  { session, run }: Writing,
  { parent }: Table,
  key: Readonly<Record<string, string>>,
): Promise<void> {
  if (parent === null) return;
  await session.change(sql`
    UPDATE ${session.table(parent)} AS t SET _synced_at = now(), _run_id = ${run.runId} WHERE ${hasValues(key)}`);
}

/** Marks rows within the scope that are not staged. */
async function markMissing(
  { session, run }: Writing,
  table: Table,
  { scope, flag, since, at, atMostHalf }: MissingRows,
): Promise<Pick<UpsertResult, "marked" | "unbelieved">> {
  const inScope = hasValues(scope);
  const isUnmarked = flag === null ? sql`t.${sql.id(since)} IS NULL` : sql`t.${sql.id(flag)}`;
  const unflag = flag === null ? sql`` : sql`${sql.id(flag)} = false, `;
  const isMissing = sql`NOT ${isStaged(table)}`;
  const target = session.table(table.name);
  if (atMostHalf) {
    const rows = await session.one<{ all: number; missing: number }>(sql`
      SELECT count(*) AS all, count(*) FILTER (WHERE ${isMissing}) AS missing
      FROM ${target} AS t WHERE ${inScope} AND ${isUnmarked}`);
    if (rows.missing * 2 > rows.all) return { marked: 0, unbelieved: rows.missing };
  }
  const marked = await session.change(sql`
    UPDATE ${target} AS t
    SET ${unflag}${sql.id(since)} = ${at}::timestamptz, _synced_at = now()${table.hasRunId ? sql`, _run_id = ${run.runId}` : sql``}
    WHERE ${inScope} AND ${isUnmarked} AND ${isMissing}`);
  return { marked, unbelieved: 0 };
}
