import { sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Db } from "../db/db.ts";
import type { Session } from "../db/session.ts";
import type { RowKey } from "../erasure/people.ts";
import type { Outcome } from "./lookup-record.ts";

/** Stored state of a row (validate_emails: of an address) in one job. */
export interface StoredState {
  readonly job: string;
  /** Key, or address. */
  readonly source_key: string;
  readonly outcome: Outcome;
  readonly attempts: number;
  readonly answered_at: string | null;
  readonly due_at: string | null;
  readonly call_id: string | null;
}

/** Stored result of a row in one job. */
interface StoredResult {
  readonly job: string;
  readonly is_match: boolean | null;
  readonly service_pid: string | null;
  /** As text, digit for digit. */
  readonly match_score: string | null;
  readonly is_present: boolean;
  readonly request_completed_at: string | null;
  readonly last_matched_at: string | null;
  readonly api_request_id: string | null;
}

/** Address of a row with its last validation. */
interface StoredEmail {
  readonly email_address: string;
  readonly is_match: boolean | null;
  readonly email_validation_status: string | null;
  readonly request_completed_at: string | null;
}

/** Ledger entry of a call that answered. */
interface StoredCall {
  readonly call_id: string;
  readonly job: string;
  readonly run_id: string;
  readonly endpoint: string;
  readonly started_at: string;
  readonly attempt: number;
  readonly http_status: number | null;
  readonly records_sent: number;
  readonly possibly_billed: boolean;
  readonly api_request_id: string | null;
}

/** Everything stored about one input row. */
export interface RowFacts {
  readonly states: readonly StoredState[];
  readonly resolutions: readonly StoredResult[];
  readonly enrichments: readonly StoredResult[];
  readonly emails: readonly StoredEmail[];
  /** Newest first. */
  readonly calls: readonly StoredCall[];
  /** Absence found by complete runs; null if the last one found the row. */
  readonly missing: { readonly missing_since: string; readonly missed_runs: number } | null;
}

/**
 * Reads everything stored about a row by its key; no table is read whole.
 * @param addresses of the row now, whose states are keyed by address
 */
export function readRowFacts(
  db: Db,
  { source, sourceKey }: RowKey,
  jobs: readonly string[],
  addresses: readonly string[],
): Promise<RowFacts> {
  const { names } = db;
  return db.snapshot(async (session) => {
    const emails = await readEmails(session, names, { source, sourceKey });
    const keys = [...new Set([sourceKey, ...addresses, ...emails.map((row) => row.email_address)])];
    const states = await session.rows<StoredState>(sql`
      SELECT job, source_key, outcome, attempts, answered_at, due_at, call_id FROM ${tableId(names, "lookup_state")}
      WHERE job = ANY(${[...jobs]}) AND source = ${source} AND source_key = ANY(${keys}) ORDER BY job, source_key`);
    const results = (table: "resolution" | "enrichment") =>
      session.rows<StoredResult>(sql`
        SELECT job, is_match, service_pid, match_score::text AS match_score, is_present, request_completed_at,
          last_matched_at, api_request_id
        FROM ${tableId(names, table)} WHERE job = ANY(${[...jobs]}) AND source = ${source} AND source_key = ${sourceKey}`);
    const ids = states.flatMap((state) => state.call_id ?? []);
    const calls = await session.rows<StoredCall>(sql`
      SELECT call_id, job, run_id, endpoint, started_at, attempt, http_status, records_sent, possibly_billed, api_request_id
      FROM ${tableId(names, "api_call")} WHERE call_id = ANY(${ids}::uuid[]) ORDER BY call_number DESC`);
    const [missing] = await session.rows<NonNullable<RowFacts["missing"]>>(sql`
      SELECT missing_since, missed_runs FROM ${tableId(names, "missing_input_row")}
      WHERE source = ${source} AND source_key = ${sourceKey}`);
    const [resolutions, enrichments] = [await results("resolution"), await results("enrichment")];
    return { states, resolutions, enrichments, emails, calls, missing: missing ?? null };
  });
}

function readEmails(
  session: Session,
  names: SchemaNames,
  { source, sourceKey }: RowKey,
): Promise<readonly StoredEmail[]> {
  return session.rows<StoredEmail>(sql`
    SELECT i.email_address, v.is_match, v.email_validation_status, v.request_completed_at
    FROM ${tableId(names, "input_email")} AS i
    LEFT JOIN ${tableId(names, "email_validation")} AS v ON v.email_address = i.email_address
    WHERE i.source = ${source} AND i.source_key = ${sourceKey} ORDER BY i.position`);
}
