import { type RawBuilder, sql } from "kysely";
import { raw } from "../inputs/input.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/** Rows sent for the first time; `unresolved` ones were rejected by the job of `pid_from`. */
export type FirstStratum = "new" | "with_pid" | "without_pid" | "unresolved";

/** Due records of about the same match rate. `matched` and `unmatched` ones are sent again with the same content. */
export type Stratum = FirstStratum | "changed" | "matched" | "unmatched";

/** True for records that were never answered. */
export function isFirstTime(stratum: Stratum): stratum is FirstStratum {
  return stratum !== "changed" && stratum !== "matched" && stratum !== "unmatched";
}

/** Records of a stratum. */
export interface StratumCount {
  readonly stratum: Stratum;
  readonly records: number;
  /** Input rows behind them. */
  readonly rows: number;
}

/** Records answered so far, of one stratum. */
export interface Sample {
  readonly records: number;
  readonly matched: number;
}

/** Answered records that are a random part of the input. */
export interface RandomSample {
  readonly strata: Readonly<Partial<Record<FirstStratum, Sample>>>;
  /** Rows that the input didn't have when records were drawn. */
  readonly rowsAdded: number;
}

/** SQL for the stratum of a row that was not answered before. */
function firstStratum({ pidFrom }: LookupSpec, pid: string, isUnresolved: string): string {
  if (pidFrom === null) return "'new'";
  return `CASE WHEN ${pid} IS NOT NULL THEN 'with_pid' WHEN ${isUnresolved} THEN 'unresolved' ELSE 'without_pid' END`;
}

/** SQL for the stratum of a classified row. */
export function stratumOf(spec: LookupSpec): RawBuilder<unknown> {
  return raw(`CASE
    WHEN class = 'never_answered' THEN ${firstStratum(spec, "pid", "is_unresolved")}
    WHEN class IN ('expired', 'resend', 'parameters_changed') AND prior IN ('matched', 'unmatched') THEN prior
    ELSE 'changed' END`);
}

/**
 * Reads the answered records by stratum while they are a random part of the input: under a cap, records are sent in the order
 * of their hashes. Null if `order_by` chose them, or once a run has sent everything, because rows that come later differ.
 * @param inputRows rows of the input, or of the shard
 */
export async function readRandomSample(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  inputRows: number,
): Promise<RandomSample | null> {
  const { job, input, shard } = spec;
  if (input.orderBy !== null) return null;
  const [drawn] = await session.rows<{ rows: number | null }>(sql`
    SELECT min(input_rows)::bigint AS rows FROM (
      SELECT sum(input_rows) AS input_rows FROM ${tableId(names, "input_coverage")}
      WHERE job = ${job} AND source = ${input.name} GROUP BY run_id) AS run
    WHERE NOT EXISTS (SELECT FROM ${tableId(names, "sync_run")}
      WHERE job = ${job} AND status = 'succeeded' AND records_remaining = 0 AND records_waiting = 0)`);
  const drawnFrom = drawn?.rows ?? null;
  if (drawnFrom === null) return null;
  const state = tableId(names, "lookup_state");
  const resolved =
    spec.pidFrom === null
      ? raw("CROSS JOIN (SELECT NULL::text AS outcome) AS r")
      : sql`LEFT JOIN ${state} AS r ON r.job = ${spec.pidFrom} AND r.source = s.source AND r.source_key = s.source_key`;
  const rows = await session.rows<Sample & { readonly stratum: FirstStratum }>(sql`
    SELECT stratum, count(*) AS records, count(*) FILTER (WHERE is_match) AS matched
    FROM (
      SELECT bool_or(s.outcome = 'matched') AS is_match,
        min(${raw(firstStratum(spec, "s.sent_service_pid", "r.outcome = 'rejected'"))}) AS stratum
      FROM ${state} AS s ${resolved}
      WHERE s.job = ${job} AND s.source = ${input.name} AND s.parameters_hash = ${spec.parametersHash}
        AND s.sent_hash IS NOT NULL
      GROUP BY s.sent_hash) AS answered
    GROUP BY stratum`);
  const strata = Object.fromEntries(
    rows.map(({ stratum, records, matched }) => [stratum, { records, matched }]),
  );
  return { strata, rowsAdded: Math.max(0, inputRows * (shard?.count ?? 1) - drawnFrom) };
}
