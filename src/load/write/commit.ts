import { sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readErasures } from "../erasure/key.ts";
import type { CounterDelta } from "../ledger/counters.ts";
import { giveBack, settleReservation } from "../ledger/reserve-call.ts";
import { addCounters, settleLedger, touchTables, upsertDrift } from "../ledger/ledger.ts";
import type { RunRef } from "../runs/run-ref.ts";
import { type CheckpointMove, moveCheckpoint } from "./checkpoints.ts";
import { changedBy, NOTHING, type Upsert, type UpsertResult, upsertRows, type Writing } from "./upsert.ts";

/** Writes of one transaction of a run. The same object is given to each attempt. */
export interface Commit<Result = null> {
  /** Outcomes of calls: the commit was carried out if and only if they are in the ledger. */
  readonly calls?: readonly Attempt[];
  readonly upserts?: readonly Upsert[];
  /** Further writes. The filter for erased people is its own concern, unless it uses `stageRows` or `withoutErased`. */
  readonly also?: ((writing: Writing) => Promise<Result>) | undefined;
  /** Reservation whose charge is known; `billed` is null for none. */
  readonly settled?: { readonly callId: string; readonly billed: number | null } | undefined;
  readonly checkpoints?: readonly CheckpointMove[];
  readonly drift?: readonly Drift[];
  /** Excludes `rows_written`, which is added. A function is called after all rows are written. */
  readonly counters?: CounterDelta | (() => CounterDelta);
  /** Run that sent the calls, to which they belong in the ledger; absent if it is the one that commits. */
  readonly sentBy?: Pick<RunRef, "runId" | "shard"> | undefined;
  /** Outcome of the latest attempt, whose reply may have been lost. Set by {@link commit}. */
  attempted?: Attempted<Result> | undefined;
}

/** Result of a commit. */
export interface Committed<Result = null> {
  /** By upsert. */
  readonly results: readonly UpsertResult[];
  /** Result of `also`; null if only the ledger shows that the commit was carried out. */
  readonly also: Result | null;
  readonly rowsWritten: number;
}

/** Outcome of an attempt, computed before COMMIT. */
interface Attempted<Result> {
  readonly committed: Committed<Result>;
  /** `_synced_at` of the run's row, which each commit updates; null without a row. */
  readonly syncedAt: string | null;
}

/**
 * Commits rows, checkpoints, ledger, drift and counters of a run in one transaction, without erased people. Repeated with the same
 * object after a lost reply, it changes nothing and returns the first result.
 */
export async function commit<Result = null>(
  db: Db,
  run: RunRef,
  parts: Commit<Result>,
): Promise<Committed<Result>> {
  const committed = await db.transaction(run, (session) => write(db, session, run, parts));
  crashPoint("after_commit");
  return committed;
}

async function write<Result>(
  db: Db,
  session: Session,
  run: RunRef,
  parts: Commit<Result>,
): Promise<Committed<Result>> {
  const { names } = db;
  const { calls = [], upserts = [], checkpoints = [], drift = [], counters = {}, settled } = parts;
  const sender = { ...run, ...parts.sentBy };
  const newCalls = await settleLedger(session, names, sender, calls);
  const isDone = calls.length > 0 ? newCalls.size === 0 : await isLatest(session, names, run, parts);
  if (isDone)
    return parts.attempted?.committed ?? { results: upserts.map(() => NOTHING), also: null, rowsWritten: 0 };
  const written = new Map<string, number>();
  const { key } = await readErasures(session, names, db.readErasureSecret);
  const writing: Writing = {
    session,
    names,
    run,
    erasureKey: key,
    touch: (table, rows) => void written.set(table, (written.get(table) ?? 0) + rows),
  };
  const results: UpsertResult[] = [];
  for (const upsert of upserts) results.push(await upsertRows(writing, upsert));
  const also = (await parts.also?.(writing)) ?? null;
  if (settled) await settleReservation(session, names, run, settled);
  await upsertDrift(session, names, run, drift);
  const changed = [...written].filter(([, rows]) => rows > 0).map(([table]) => table);
  const aside = upserts.filter((upsert, i) => upsert.isBookkeeping && changedBy(results[i]) > 0);
  await touchTables(session, names, run, [...new Set([...changed, ...aside.map(({ table }) => table)])]);
  for (const move of checkpoints) await moveCheckpoint(writing, move);
  await giveBack(session, names, sender, calls);
  const counted = typeof counters === "function" ? counters() : counters;
  const rowsWritten = [...written.values()].reduce((sum, rows) => sum + rows, 0);
  const syncedAt = await addCounters(session, names, run, { ...counted, rows_written: rowsWritten });
  const committed = { results, also, rowsWritten };
  parts.attempted = { committed, syncedAt };
  crashPoint("before_commit");
  return committed;
}

/**
 * True if an earlier attempt of a commit without calls was carried out: its update of the run's row is the latest, as a run makes
 * such commits one at a time. Waits for an attempt in progress, which locks the row.
 */
async function isLatest(
  session: Session,
  names: SchemaNames,
  { runId, job, shard }: RunRef,
  { attempted }: Commit<unknown>,
): Promise<boolean> {
  if (!attempted || attempted.syncedAt === null) return false;
  const [row] = await session.rows<{ at: string }>(sql`
    SELECT _synced_at::text AS at FROM ${tableId(names, "sync_run")}
    WHERE run_id = ${runId} AND job = ${job} AND shard = ${shard} FOR UPDATE`);
  return row?.at === attempted.syncedAt;
}
