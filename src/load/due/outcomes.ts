import { sql } from "kysely";
import { type SchemaNames, stateTableId, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { Outcome } from "./lookup-record.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Input rows whose outcome changed. */
export interface RowMove {
  readonly prior: Outcome | null;
  readonly outcome: Outcome;
  /** Rows with a state; for validate_emails addresses. */
  readonly rows: number;
}

/** Outcomes of a run's frozen records, counted in the states of their rows. */
export interface Outcomes {
  /** Records with an outcome, or that the service has or may have processed. */
  readonly sent: number;
  readonly matched: number;
  readonly rejected: number;
  /** Records without an outcome, sent or not. */
  readonly open: number;
  /** Input rows behind records with an outcome, beyond one each. */
  readonly duplicate: number;
  /** Rows of people erased since the selection. */
  readonly suppressed: number;
  /** Rows behind records without an outcome, less one for each that was sent. */
  readonly remaining: number;
  readonly moves: readonly RowMove[];
}

/** Rows that a selection froze. */
export interface FrozenRows {
  readonly source: string;
  /** Name of the work table. */
  readonly rows: string;
}

/** Outcomes where nothing was frozen. */
export const noOutcomes: Outcomes = {
  sent: 0,
  matched: 0,
  rejected: 0,
  open: 0,
  duplicate: 0,
  suppressed: 0,
  remaining: 0,
  moves: [],
};

/**
 * Counts what a run has brought its frozen rows to. A row has an outcome if the run wrote it for the selected content.
 * With `recordIds`, counts these records only.
 */
export async function countOutcomes(
  session: Session,
  names: SchemaNames,
  { runId, job, shard }: Pick<RunRef, "runId" | "job" | "shard">,
  { source, rows }: FrozenRows,
  recordIds: readonly string[] | null = null,
): Promise<Outcomes> {
  const [counted] = await session.rows<Outcomes>(sql`
    WITH frozen AS (
      SELECT w.ord, w.prior, w.occurrences, w.is_sent, s.outcome, w.source_key IS NULL AS is_erased
      FROM ${tableId(names, "sync_run")} AS r CROSS JOIN ${stateTableId(names, rows)} AS w
      LEFT JOIN ${tableId(names, "lookup_state")} AS s
        ON s.job = ${job} AND s.source = ${source} AND s.source_key = w.source_key AND s.input_hash = w.input_hash
        AND s._run_id = ${runId} AND s._synced_at >= r.started_at
      WHERE r.run_id = ${runId} AND r.job = ${job} AND r.shard = ${shard}
        AND (${recordIds}::bigint[] IS NULL OR w.ord = ANY(${recordIds}::bigint[]))),
    record AS (
      SELECT max(outcome) AS outcome, (bool_or(is_sent) AND NOT bool_and(is_erased))::int AS sent,
        coalesce(sum(occurrences) FILTER (WHERE NOT is_erased), 0) AS rows,
        coalesce(sum(occurrences) FILTER (WHERE is_erased), 0) AS erased
      FROM frozen GROUP BY ord),
    moved AS (
      SELECT prior, outcome, count(*) AS rows FROM frozen WHERE outcome IS NOT NULL GROUP BY 1, 2)
    SELECT count(*) FILTER (WHERE outcome IS NOT NULL OR sent = 1) AS sent,
      count(*) FILTER (WHERE outcome = 'matched') AS matched, count(*) FILTER (WHERE outcome = 'rejected') AS rejected,
      count(*) FILTER (WHERE outcome IS NULL AND rows > 0) AS open,
      coalesce(sum(rows - 1) FILTER (WHERE outcome IS NOT NULL), 0)::bigint AS duplicate,
      coalesce(sum(erased), 0)::bigint AS suppressed,
      coalesce(sum(rows - sent) FILTER (WHERE outcome IS NULL), 0)::bigint AS remaining,
      (SELECT coalesce(json_agg(moved), '[]') FROM moved) AS moves
    FROM record`);
  return counted ?? noOutcomes;
}

/** Marks frozen records as sent although no outcome followed. */
export async function markSent(
  session: Session,
  names: SchemaNames,
  rows: string,
  recordIds: readonly string[],
): Promise<void> {
  await session.change(sql`
    UPDATE ${stateTableId(names, rows)} SET is_sent = true
    WHERE ord = ANY(${[...recordIds]}::bigint[]) AND NOT is_sent`);
}

/** Adds outcomes to the counters of a run that counted these records as remaining, or `marked` ones as sent. */
export async function addOutcomes(
  session: Session,
  names: SchemaNames,
  { runId, job, shard }: Pick<RunRef, "runId" | "job" | "shard">,
  found: Outcomes,
  marked = 0,
): Promise<void> {
  const sent = found.sent - marked;
  await session.change(sql`
    UPDATE ${tableId(names, "sync_run")} SET records_sent = records_sent + ${sent},
      records_matched = records_matched + ${found.matched}, records_rejected = records_rejected + ${found.rejected},
      records_duplicate = records_duplicate + ${found.duplicate},
      records_suppressed = records_suppressed + ${found.suppressed},
      records_remaining = records_remaining - ${sent + found.duplicate + found.suppressed}, _synced_at = now()
    WHERE run_id = ${runId} AND job = ${job} AND shard = ${shard}`);
}

/** Adds records whose answers a later run loaded to the counters of the run that sent them. */
export async function addLateOutcomes(
  session: Session,
  names: SchemaNames,
  run: Pick<RunRef, "runId" | "job" | "shard">,
  frozen: FrozenRows,
  recordIds: readonly string[],
): Promise<void> {
  const [before] = await session.rows<{ marked: number }>(sql`
    SELECT count(DISTINCT ord) FILTER (WHERE is_sent AND source_key IS NOT NULL) AS marked
    FROM ${stateTableId(names, frozen.rows)} WHERE ord = ANY(${[...recordIds]}::bigint[])`);
  const found = await countOutcomes(session, names, run, frozen, recordIds);
  await addOutcomes(session, names, run, found, before?.marked ?? 0);
}
