import { sql } from "kysely";
import { z } from "zod";
import { crashPoint } from "../../crash-point.ts";
import { codeOf, StopJobError } from "../../errors.ts";
import type { Db } from "../db/db.ts";
import { isDataFault } from "../db/failures.ts";
import { NOW } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readErasureKey } from "../erasure/key.ts";
import {
  addCounters,
  type CounterDelta,
  recordOutcomes,
  touchTables,
  upsertDrift,
} from "../ledger/ledger.ts";
import { releaseReservations, recordCharge } from "../ledger/reserve.ts";
import type { RunRef } from "../runs/fence.ts";
import { changedBy, NOTHING, type Upsert, type UpsertResult, upsertRows, type Writing } from "./upsert.ts";
import { type Drift, instantText } from "../../schemas/convert.ts";
import type { Attempt } from "../../schemas/ledger.ts";
import type { Database } from "../../schemas/registry.ts";

/** Writes of one transaction of a run. */
export interface Commit<Result = null> {
  /** Outcomes of calls: the commit was carried out if and only if they are in the ledger. */
  readonly calls?: readonly Attempt[];
  readonly upserts?: readonly Upsert[];
  /** Further writes. The filter for erased people is its own concern, unless it uses `stageRows` or `withoutErased`. */
  readonly also?: ((writing: Writing) => Promise<Result>) | undefined;
  /** Reservation whose charge is known; `billed` is null for none. */
  readonly charge?: { readonly callId: string; readonly billed: number | null } | undefined;
  readonly checkpoints?: readonly CheckpointMove[];
  readonly drift?: readonly Drift[];
  /** Excludes `rows_written`, which is added. A function is called after all rows are written. */
  readonly counters?: CounterDelta | (() => CounterDelta);
  /** Run that sent the calls, to which they belong in the ledger; absent if it is the one that commits. */
  readonly sentBy?: Pick<RunRef, "runId" | "shard"> | undefined;
}

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
 * Commits rows, checkpoints, ledger, drift and counters of a run in one transaction, without erased people. Its repetition
 * after a lost reply changes nothing and returns the first result.
 */
export async function commit<Result = null>(
  db: Db,
  run: RunRef,
  parts: Commit<Result>,
): Promise<Committed<Result>> {
  const { calls = [], upserts = [], checkpoints = [], drift = [], counters = {}, charge } = parts;
  /** Outcome of the latest attempt, whose reply may have been lost. */
  let attempted: Attempted<Result> | null = null;
  const committed = await db.transaction(run, async (session) => {
    const sender = { ...run, ...parts.sentBy };
    const newCalls = await recordOutcomes(session, sender, calls);
    const isDone = calls.length > 0 ? newCalls.size === 0 : await isLatest(session, run, attempted);
    if (isDone)
      return attempted?.committed ?? { results: upserts.map(() => NOTHING), also: null, rowsWritten: 0 };
    const written = new Map<string, number>();
    const key = await readErasureKey(session, db.readErasureSecret);
    const writing: Writing = {
      session,
      run,
      erasureKey: key,
      touch: (table, rows) => void written.set(table, (written.get(table) ?? 0) + rows),
    };
    const results: UpsertResult[] = [];
    for (const upsert of upserts) results.push(await upsertRows(writing, upsert));
    const also = (await parts.also?.(writing)) ?? null;
    if (charge) await recordCharge(session, run, charge);
    await upsertDrift(session, run, drift);
    const changed = [...written].filter(([, rows]) => rows > 0).map(([table]) => table);
    const aside = upserts.filter((upsert, i) => upsert.isBookkeeping && changedBy(results[i]) > 0);
    await touchTables(session, run, [...new Set([...changed, ...aside.map(({ table }) => table)])]);
    for (const move of checkpoints) await moveCheckpoint(writing, move);
    await releaseReservations(session, sender, calls);
    const counted = typeof counters === "function" ? counters() : counters;
    const rowsWritten = [...written.values()].reduce((sum, rows) => sum + rows, 0);
    const syncedAt = await addCounters(session, run, { ...counted, rows_written: rowsWritten });
    const result = { results, also, rowsWritten };
    attempted = { committed: result, syncedAt };
    crashPoint("before_commit");
    return result;
  });
  crashPoint("after_commit");
  return committed;
}

/**
 * True if an earlier attempt of a commit without calls was carried out: its update of the run's row is the latest, as a run makes
 * such commits one at a time. Waits for an attempt in progress, which locks the row.
 */
async function isLatest(
  session: Session,
  { runId, job, shard }: RunRef,
  attempted: Attempted<unknown> | null,
): Promise<boolean> {
  if (attempted === null || attempted.syncedAt === null) return false;
  const [syncedAt] = await session.pluck<string>(sql`
    SELECT _synced_at::text FROM ${session.table("sync_run")}
    WHERE run_id = ${runId} AND job = ${job} AND shard = ${shard} FOR UPDATE`);
  return syncedAt === attempted.syncedAt;
}

const INSTANT = "must be an instant with a time zone, such as 2026-11-21T04:00:00Z";

const COUNT = "must be a count: a whole number, 0 or more";

export const cursorCount = z.int(COUNT).min(0, COUNT);

/** Instant of a stored cursor as text; without a zone it would depend on the machine. */
export const cursorInstant = z
  .string(INSTANT)
  .refine((text) => /(?:[Zz]|[+-]\d\d(?::?\d\d)?)$/u.test(text) && instantText(text) !== null, INSTANT);

export const cursorDay = z.iso.date("must be a day such as 2026-11-18");

/** Sets a stream's checkpoint to any JSON value; null deletes it. */
export interface CheckpointMove {
  readonly stream: string;
  readonly cursor: unknown;
}

const CHECKPOINT = ["stream", "cursor", "updated_at", "run_id"] as const;

export type StoredCheckpoint = Pick<Database["ops.checkpoint"], (typeof CHECKPOINT)[number]>;

export function readCheckpoints(db: Db, job: string): Promise<readonly StoredCheckpoint[]> {
  const checkpoints = db.query.selectFrom("ops.checkpoint").select(CHECKPOINT);
  return db.rows(checkpoints.where("job", "=", job).orderBy("stream"));
}

async function moveCheckpoint(
  { session, run: { job, runId } }: Writing,
  { stream, cursor }: CheckpointMove,
): Promise<void> {
  const key = { job, stream };
  const moved = { cursor: JSON.stringify(cursor), updated_at: NOW, run_id: runId, _synced_at: NOW };
  const insert = session.query.insertInto("ops.checkpoint").values({ ...key, ...moved });
  await session.change(
    cursor === null
      ? session.query.deleteFrom("ops.checkpoint").where((row) => row.and(key))
      : insert.onConflict((clash) => clash.columns(["job", "stream"]).doUpdateSet(moved)),
  );
}

/** Fields of an error of the server that name its place; none of them is a value. */
type Place = Partial<Readonly<Record<"schema" | "table" | "column" | "constraint" | "where", string>>>;

/** Code of a refusal that may be due to a value, as the answer has a single record. */
const VALUE_REFUSED = "value_refused";

/** True if a refusal may be due to a value. */
export function isValueRefused(error: unknown): boolean {
  return codeOf(error) === VALUE_REFUSED;
}

/** Returns the error of a job whose rows a table refuses, with the place: everything received stays on disk. */
export async function explainRefusal(db: Db, error: unknown, records: number): Promise<StopJobError> {
  const { schema, table, column, constraint, where } = error instanceof Error ? (error as Place) : {};
  const trigger = /function ([\w."]+)\(/u.exec(where ?? "")?.[1];
  const tables =
    table === undefined ? await tablesWithTrigger(db, trigger) : [[schema, table].filter(Boolean).join(".")];
  const named = [
    ...tables.map((name) => `table ${name}`),
    ...(column === undefined ? [] : [`column ${column}`]),
    ...(constraint === undefined ? [] : [`constraint ${constraint}`]),
    ...(trigger === undefined ? [] : [`trigger function ${trigger}`]),
  ];
  const place = named.length === 0 ? "a table of the warehouse" : named.join(", ");
  return new StopJobError(
    isDataFault(error) && records === 1 ? VALUE_REFUSED : "warehouse_refused",
    `Postgres refused every row of a response: ${place} (SQLSTATE ${codeOf(error) ?? "unknown"}). The likely cause is a column, constraint or ` +
      "trigger that was added to the table. Nothing received is lost: remove the cause and run again; the next run loads it and sends nothing twice.",
    { cause: error },
  );
}

/** Tables of ours with a trigger that calls a function; a raised error names only the function. */
async function tablesWithTrigger(db: Db, name: string | undefined): Promise<readonly string[]> {
  if (name === undefined) return [];
  return db.pluck<string>(sql`
    SELECT DISTINCT format('%I.%I', n.nspname, c.relname) AS table FROM pg_catalog.pg_trigger AS t
    JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.pronamespace
    JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE NOT t.tgisinternal AND n.nspname = ANY(${[db.names.data, db.names.ops, db.names.state]}::text[])
      AND ${name} IN (format('%I', p.proname), format('%I.%I', pn.nspname, p.proname)) ORDER BY 1`);
}
