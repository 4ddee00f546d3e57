import { type RawBuilder, sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import type { Cell } from "../../schemas/convert.ts";
import type { LatestCommits } from "../latest-commits.ts";
import type { CheckpointMove, FeedCommit, StoredCheckpoint, UpsertResult } from "../feed-warehouse.ts";
import type { RunRef } from "../warehouse.ts";
import { type FeedRows, stageRows, type StagePlace } from "./feed-rows.ts";
import { rowsChanged, upsertOutcome, upsertStatements, upsertVariables } from "./feed-upsert.ts";
import { noteOrganization } from "./identity.ts";
import { jsonRows } from "./json-rows.ts";
import { addCounters, NEW_CALLS, settleLedger, upsertDrift } from "./ledger.ts";
import { type DatasetNames, tableId } from "./names.ts";
import { inRunTransaction } from "./run-transaction.ts";
import { type JobPlace, NOW, type Session, type TransactionWork } from "./session.ts";
import { declareKey, requireSameEpoch, type SuppressionReader } from "./suppression.ts";
import { countRows } from "./table-load.ts";
import type { Suppression } from "../suppression.ts";

/** What commits of feeds need. */
export interface FeedContext extends StagePlace {
  readonly latestFeeds: LatestCommits<JobPlace>;
  readonly suppression: SuppressionReader;
}

/** What a commit of a feed did; `work` is null where it had been made already. */
export interface FeedDone<Result> {
  readonly results: readonly UpsertResult[];
  readonly work: Result | null;
  readonly rowsWritten: number;
}

/** Where a commit writes. */
export interface FeedPlace {
  readonly names: DatasetNames;
  readonly runId: string;
  readonly suppression: Suppression;
  /** The rows of {@link FeedWork.rows}, as {@link FeedRows.source} gives them. */
  readonly source: string;
  /** Statement that counts rows of a table as written; by default those of the statement before. */
  readonly count: (table: string, rows?: string) => RawBuilder<unknown>;
}

/** What else a commit writes, between its rows and its books. */
export interface FeedWork<Result> {
  readonly rows: Iterable<readonly Cell[]>;
  /** Tables whose changed rows it counts. */
  readonly tables: readonly string[];
  readonly declare: readonly RawBuilder<unknown>[];
  readonly statements: (place: FeedPlace) => readonly RawBuilder<unknown>[];
  /** What it tells, in columns of a SELECT of variables. */
  readonly outcome: string;
  /** Of `outcome`. */
  readonly read: (row: Record<string, unknown>) => Result;
}

const noWork: FeedWork<null> = {
  rows: [],
  tables: [],
  declare: [],
  statements: () => [],
  outcome: "1",
  read: () => null,
};

/** The checkpoints of a job. */
export async function readCheckpoints(session: Session, job: string): Promise<readonly StoredCheckpoint[]> {
  const rows = await session.rows<StoredCheckpoint & { readonly cursor: string }>(sql`
    SELECT stream, cursor, updated_at AS updatedAt, run_id AS runId
    FROM ${tableId(session.names, "ops", "checkpoint")} WHERE job = ${job} ORDER BY stream`);
  return rows.map((row) => ({ ...row, cursor: JSON.parse(row.cursor) as unknown }));
}

/** Writes the rows of feeds. */
export async function commitFeed(context: FeedContext, commit: FeedCommit): Promise<readonly UpsertResult[]> {
  return (await commitFeedWith(context, commit, noWork)).results;
}

const NOTHING: UpsertResult = { given: 0, suppressed: 0, inserted: 0, updated: 0, marked: 0 };

/**
 * Does some work of a feed in one transaction with its books. Where the same commit has been made already, and its reply was
 * lost, tells what it did. `work` is null, and all results empty, when only the ledger says so.
 */
export async function commitFeedWith<Result>(
  context: FeedContext,
  commit: FeedCommit,
  work: FeedWork<Result>,
): Promise<FeedDone<Result>> {
  const { session, latestFeeds } = context;
  const place = latestFeeds.find(commit) ?? { jobId: null };
  latestFeeds.keep(commit, place);
  const lists = [...commit.upserts.map(({ rows }) => rows), work.rows];
  const rows = await stageRows(context, commit.run, lists);
  try {
    const [row] = await context.suppression.within((suppression) => {
      crashPoint("before_commit");
      return inRunTransaction<Outcome>(session, commit.run, {
        ...transactionOf(session.names, { commit, work, rows, suppression }),
        place,
      });
    });
    crashPoint("after_commit");
    if (row?.feed_is_new !== true) {
      return { results: commit.upserts.map(() => NOTHING), work: null, rowsWritten: 0 };
    }
    return { results: row.feed_results, work: work.read(row), rowsWritten: row.feed_written };
  } finally {
    await rows.drop();
  }
}

/** What a transaction tells, beside what the work does. */
interface Outcome extends Record<string, unknown> {
  readonly feed_is_new: boolean;
  readonly feed_written: number;
  readonly feed_results: readonly UpsertResult[];
}

interface Parts<Result> {
  readonly commit: FeedCommit;
  readonly work: FeedWork<Result>;
  readonly rows: FeedRows;
  readonly suppression: Suppression;
}

/** A statement that others are joined to. */
function withoutEnd(statement: string): RawBuilder<unknown> {
  return sql.raw(statement.trim().replace(/;$/, ""));
}

function transactionOf<Result>(
  names: DatasetNames,
  { commit, work, rows, suppression }: Parts<Result>,
): TransactionWork<Outcome> {
  const { run, upserts, ledger: entries } = commit;
  const { runId } = run;
  const ledger = settleLedger(names, run, entries);
  const tablesOf = (isBookkeeping: boolean) =>
    upserts.filter((upsert) => (upsert.isBookkeeping ?? false) === isBookkeeping).map(({ table }) => table);
  const counts = countRows([...new Set([...tablesOf(false), ...work.tables])], [...new Set(tablesOf(true))]);
  const count = (table: string, changed?: string) => withoutEnd(counts.add(table, changed));
  const upsertPlace = { names, runId, hasErased: suppression.key !== null };
  const place: FeedPlace = { names, runId, suppression, source: rows.source(upserts.length), count };
  const sum = counts.names.length === 0 ? "0" : counts.names.join(" + ");
  const loads: readonly RawBuilder<unknown>[] = [
    ...upserts.flatMap((upsert, i) => [
      ...upsertStatements(upsertPlace, upsert, i, rows.source(i)),
      upsert.isBookkeeping
        ? withoutEnd(counts.addAside(upsert.table, rowsChanged(i)))
        : count(upsert.table, rowsChanged(i)),
    ]),
    ...(commit.organization === undefined ? [] : [noteOrganization(names, runId, commit.organization)]),
    ...work.statements(place),
    ...upsertDrift(names, run, commit.drift),
    ...(counts.declare.length === 0 ? [] : counts.touch(names, run).map((text) => sql.raw(text))),
    ...moveCheckpoints(names, run, commit.checkpoints),
    addCounters(names, run, commit.counters, NOW, { rows_written: sql.raw(sum) }),
  ];
  return {
    declare: [
      ...ledger.declare,
      ...rows.declare,
      ...(suppression.key === null ? [] : declareKey(suppression.key)),
      ...["_etl_is_new BOOL", ...counts.declare].map((text) => sql.raw(text)),
      ...work.declare,
      ...upserts.flatMap((_, i) => upsertVariables(i).map((text) => sql.raw(text))),
    ],
    statements: [
      requireSameEpoch(names, suppression),
      ...ledger.statements,
      sql`SET _etl_is_new = ${entries.length === 0 ? sql`TRUE` : sql`ARRAY_LENGTH(${NEW_CALLS}) > 0`}`,
      sql`IF _etl_is_new THEN ${sql.join(
        loads.map((statement) => sql`${statement};`),
        sql.raw("\n"),
      )} END IF`,
    ],
    outcome: sql.raw<Outcome>(
      `SELECT _etl_is_new AS feed_is_new, ${sum} AS feed_written, [${upserts.map((_, i) => upsertOutcome(i)).join(", ")}] AS feed_results, ${work.outcome}`,
    ),
  };
}

/** Moves or forgets checkpoints. */
function moveCheckpoints(
  names: DatasetNames,
  run: RunRef,
  moves: readonly CheckpointMove[],
): readonly RawBuilder<unknown>[] {
  if (moves.length === 0) return [];
  const checkpoint = tableId(names, "ops", "checkpoint");
  const kept = moves.filter(({ cursor }) => cursor !== null);
  const rows = kept.map(({ stream, cursor }) => ({ stream, cursor: JSON.stringify(cursor) }));
  return [
    sql`DELETE FROM ${checkpoint} WHERE job = ${run.job} AND stream IN UNNEST(${moves.map(({ stream }) => stream)})`,
    ...(rows.length === 0
      ? []
      : [
          sql`INSERT INTO ${checkpoint} (job, stream, cursor, updated_at, run_id, _synced_at)
            SELECT ${run.job}, stream, PARSE_JSON(cursor, wide_number_mode => 'round'), ${NOW}, ${run.runId}, ${NOW}
            FROM (${jsonRows(sql`${JSON.stringify(rows)}`, { stream: "STRING", cursor: "STRING" })})`,
        ]),
  ];
}
