import { sql } from "kysely";
import type { CallGrant, CallReservation, RunRef } from "../warehouse.ts";
import { createBatcher } from "./batcher.ts";
import { HASH_BYTES } from "./call-in-doubt.ts";
import { giveBackRest } from "./give-back.ts";
import { jsonRows } from "./json-rows.ts";
import { tableId } from "./names.ts";
import { type Block, reserveBlock } from "./reserve-block.ts";
import { inRunTransaction, isHeldBy, lockLost } from "./run-transaction.ts";
import type { Session } from "./session.ts";

/** Reserves the calls of one run. */
export interface Reserving {
  reserve(call: CallReservation): Promise<CallGrant>;
  /** Gives back what is left of the last block. */
  giveBackRest(): Promise<void>;
}

/** Most records that a block holds beyond what is asked for: a crash loses at most these. */
const MOST_AHEAD = 10_000;

/** A call with what it was granted. */
interface Granted {
  readonly call: CallReservation;
  readonly granted: number;
}

/**
 * Reserves records in blocks: a transaction for every call would take longer than the call. A block is what is asked for at the
 * moment and half of what the run has taken before, so that a small run reserves what it sends, and a long one asks rarely.
 * Each call is noted in the ledger before it is sent all the same, by statements that only append, for all waiting calls
 * together.
 */
export function createReserving(session: Session, run: RunRef): Reserving {
  let rest = 0;
  let taken = 0;
  let block: Block | null = null;
  let blockSinceMs = 0;
  /** Grants that are not noted yet, by call: a call that is asked for again gets the same. */
  const grants = new Map<string, CallGrant>();

  /** The warehouse's time, as far as this process can tell. */
  function now(): Date {
    return new Date(Date.parse(block?.reservedAt ?? "") + Math.round(performance.now() - blockSinceMs));
  }

  function isOfToday(): boolean {
    return block !== null && now().toISOString().slice(0, 10) === block.reservedAt.slice(0, 10);
  }

  async function takeBlock(wanted: number, { limits }: CallReservation): Promise<Block> {
    const isLeft = isOfToday();
    const records = wanted - (isLeft ? rest : 0) + Math.min(MOST_AHEAD, Math.floor(taken / 2));
    const outdated = { records: isLeft ? 0 : rest, reservedAt: block?.reservedAt ?? "1970-01-01T00:00:00Z" };
    const next = await reserveBlock(session, run, { records, limits }, outdated);
    rest = (isLeft ? rest : 0) + next.granted;
    block = next;
    blockSinceMs = performance.now();
    return next;
  }

  async function grantAll(calls: readonly CallReservation[]): Promise<void> {
    const [first] = calls;
    if (!first) return;
    const wanted = calls.reduce((sum, { recordHashes }) => sum + recordHashes.length, 0);
    const limitedBy = rest >= wanted && isOfToday() ? null : (await takeBlock(wanted, first)).limitedBy;
    for (const call of calls) {
      const granted = Math.min(rest, call.recordHashes.length);
      rest -= granted;
      taken += granted;
      grants.set(call.callId, { granted, limitedBy: granted === 0 ? limitedBy : null });
    }
  }

  const reserve = createBatcher(async (calls: readonly CallReservation[]) => {
    await grantAll(calls.filter(({ callId }) => !grants.has(callId)));
    const granted = calls.map((call) => ({ call, granted: grants.get(call.callId)?.granted ?? 0 }));
    await note(
      session,
      run,
      granted.filter((of) => of.granted > 0),
      now().toISOString(),
    );
    return calls.map(({ callId }) => {
      const grant = grants.get(callId) ?? { granted: 0, limitedBy: null };
      grants.delete(callId);
      return grant;
    });
  });

  return {
    reserve,
    async giveBackRest() {
      const statements = giveBackRest(session.names, run, {
        records: rest,
        reservedAt: block?.reservedAt ?? "1970-01-01T00:00:00Z",
      });
      if (statements.length === 0) return;
      await inRunTransaction(session, run, { statements });
      rest = 0;
    },
  };
}

/** Writes calls as under way: appended, which no transaction hinders. */
async function note(session: Session, run: RunRef, calls: readonly Granted[], at: string): Promise<void> {
  if (calls.length === 0) return;
  const { names } = session;
  const rows = calls.map(({ call, granted }) => ({
    callId: call.callId,
    endpoint: call.endpoint,
    attempt: call.attempt,
    startedAt: call.startedAt,
    granted,
    hashes: call.recordHashes
      .slice(0, granted)
      .map((hash) => hash.slice(0, 2 * HASH_BYTES))
      .join(""),
  }));
  const list = sql`${JSON.stringify(rows)}`;
  const isHeld = sql`EXISTS (SELECT 1 FROM ${tableId(names, "ops", "job_lock")} WHERE ${isHeldBy(run)})`;
  const calledRows = jsonRows(list, {
    callId: "STRING",
    endpoint: "STRING",
    attempt: "INT64",
    startedAt: "TIMESTAMP",
    granted: "INT64",
  });
  // Doubts first: a call that stands in the ledger without its records could not be told from one that carried none.
  await session.change(sql`
    INSERT INTO ${tableId(names, "data", "call_in_doubt")} (call_id, job, record_hashes, _synced_at, _run_id)
    SELECT callId, ${run.job}, FROM_HEX(hashes), CURRENT_TIMESTAMP(), ${run.runId}
    FROM (${jsonRows(list, { callId: "STRING", hashes: "STRING" })}) WHERE ${isHeld}`);
  const noted = await session.change(sql`
    INSERT INTO ${tableId(names, "ops", "api_call")} (call_id, run_id, job, endpoint, started_at, attempt, records_sent,
      response_bytes, possibly_billed, budget, reserved_at, records_reserved, records_possibly_billed_twice, _synced_at)
    SELECT callId, ${run.runId}, ${run.job}, endpoint, startedAt, attempt, granted, 0, TRUE, ${run.jobType},
      TIMESTAMP(${at}), granted, 0, CURRENT_TIMESTAMP()
    FROM (${calledRows}) WHERE ${isHeld}`);
  if (noted === 0) throw lockLost(run);
}
