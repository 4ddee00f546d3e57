import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { withRolePath } from "../db/session.ts";
import { erasedSql } from "../erasure/subjects.ts";
import { readErasureKey } from "../erasure/key.ts";
import { openForeignInput, openLocalInput } from "../inputs/read.ts";
import { raw } from "../inputs/postgres.ts";
import type { InputSource, RowKey } from "../inputs/input.ts";
import { expiresAt } from "./content.ts";
import type { LookupSpec, Outcome } from "./lookup.ts";
import { type GivenKey, seeInput } from "./see-input.ts";
import { contextOf } from "./selection.ts";

/** One row of an input as a run would class it now; for validate_emails one address of the row. */
export interface ClassifiedRow {
  /** `unchanged`, `reused`, `waiting`, `suppressed`, `reject:CODE`, or the reason it is due. */
  readonly class: string;
  /** Outcome of the answer to its present content; null without one. */
  readonly prior: Outcome | null;
  /** Record as JSON text, for validate_emails the address; null if the row is suppressed. */
  readonly record: string | null;
  /** `record_id` of its request. */
  readonly recordId: string;
}

/** Classification of all rows with one key by one job. */
interface RowClasses {
  readonly rows: readonly ClassifiedRow[];
  /** True if the mapping or the parameters changed and the user hasn't decided yet. */
  readonly isUndecided: boolean;
}

/**
 * Finds the stored text of a key; null if the input has no such row. Equal keys can be written differently: `007` for an integer.
 * A text that isn't a value of the column's type throws a FixConfigurationError.
 */
export function findSourceKey(db: Db, input: InputSource, given: GivenKey): Promise<string | null> {
  return readSourceKey(db, input, given, false);
}

/** Like {@link findSourceKey}, but without a row: the text that a row with this key would have. */
export async function castSourceKey(db: Db, input: InputSource, given: GivenKey): Promise<string> {
  return (await readSourceKey(db, input, given, true)) ?? given.sourceKey;
}

function readSourceKey(db: Db, input: InputSource, given: GivenKey, isCast: boolean): Promise<string | null> {
  const keys = { ...input, fields: {} };
  const reading = { type: "enrich", ranked: false, only: given.key, isCast } as const;
  const foreign = db.foreignOf(input);
  return db.preview((session) =>
    withRolePath(session, async () => {
      const opened = foreign
        ? await openForeignInput(session, foreign, keys, reading)
        : await openLocalInput(session, keys, reading);
      const found = await session.readOnly(() =>
        session.rows<{ source_key: string }>(sql`
          SELECT source_key FROM (${raw(opened.rawRows)}) AS found
          ORDER BY source_key = ${given.sourceKey} DESC, source_key LIMIT 1`),
      );
      return found[0]?.source_key ?? null;
    }),
  );
}

/** Classes the rows with one key as a run does; writes nothing. */
export function classifyRow(db: Db, spec: LookupSpec, only: GivenKey): Promise<RowClasses> {
  return db.preview(async (session) => {
    const { job } = await seeInput(await contextOf(db, session, spec, { only }));
    const rows = await session.rows<ClassifiedRow>(
      spec.type === "validate_emails"
        ? sql`SELECT class, prior, record, '' AS "recordId" FROM pg_temp.seen_content ORDER BY address COLLATE "C"`
        : sql`SELECT class, prior, CASE WHEN class <> 'suppressed' THEN record END AS record, left(encode(content, 'hex'), 32) AS "recordId"
            FROM pg_temp.seen ORDER BY record COLLATE "C"`,
    );
    const suppressed =
      spec.type === "validate_emails"
        ? await session.rows<ClassifiedRow>(sql`SELECT 'suppressed' AS class, NULL AS prior, NULL AS record, '' AS "recordId"
            FROM pg_temp.seen_address WHERE email_address IS NOT NULL AND is_erased`)
        : [];
    return { rows: [...rows, ...suppressed], isUndecided: job.decision === "undecided" };
  });
}

/** True if the row itself was erased, by its key. */
export function isRowErased(db: Db, source: string, sourceKey: string): Promise<boolean> {
  return db.transaction(async (session) => {
    const key = await readErasureKey(session, db.readErasureSecret);
    if (!key) return false;
    const isErased = erasedSql(db.names, key).sourceKey(source, "source_key");
    const [found] = await session.rows<{ erased: boolean }>(sql`
      SELECT ${isErased} AS erased FROM (SELECT ${sourceKey}::text AS source_key) AS given`);
    return found?.erased ?? false;
  });
}

/** Stored answer to the content of a row (validate_emails: to an address) in one job. */
export interface StoredState {
  readonly job: string;
  /** Key, or address. */
  readonly source_key: string;
  readonly outcome: Outcome;
  readonly answered_at: string;
  /** When the answer expires; null for never. */
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
  /** Absence found by runs; null if the last one found the row. */
  readonly missing: { readonly missing_since: string; readonly missed_runs: number } | null;
}

/**
 * Reads everything stored about a row by its key; no table is read whole.
 * @param specs jobs of its input
 * @param addresses of the row now
 */
export function readRowFacts(
  db: Db,
  { source, sourceKey }: RowKey,
  specs: readonly LookupSpec[],
  addresses: readonly string[],
): Promise<RowFacts> {
  const { names } = db;
  const answer = tableId(names, "lookup_answer");
  const isOfRow = sql`source = ${source} AND source_key = ${sourceKey}`;
  const jobs = specs.map(({ job }) => job);
  return db.snapshot(async (session) => {
    const emails = await session.rows<StoredEmail>(sql`
      SELECT i.email_address, v.is_match, v.email_validation_status, v.request_completed_at
      FROM ${tableId(names, "input_email")} AS i
      LEFT JOIN ${tableId(names, "email_validation")} AS v ON v.email_address = i.email_address
      WHERE i.source = ${source} AND i.source_key = ${sourceKey} ORDER BY i.position`);
    const known = [...new Set([...addresses, ...emails.map((row) => row.email_address)])];
    const states: StoredState[] = [];
    for (const spec of specs) {
      const expires = sql`nullif(${expiresAt({ ...spec, resendBelow: null }, "a")}, 'infinity')`;
      const rows =
        spec.type === "validate_emails"
          ? sql`SELECT convert_from(a.content, 'UTF8') AS source_key, a.*, ${expires} AS due_at FROM ${answer} AS a
              WHERE a.kind = ${spec.kind} AND a.content IN (SELECT convert_to(e, 'UTF8') FROM unnest(${known}::text[]) AS u(e))`
          : sql`SELECT r.source_key, a.*, ${expires} AS due_at
              FROM ${tableId(names, "lookup_row")} AS r JOIN ${answer} AS a ON a.content = r.content
              WHERE r.job = ${spec.job} AND r.source = ${source} AND r.source_key = ${sourceKey} AND a.kind = ${spec.kind}`;
      states.push(
        ...(await session.rows<StoredState>(sql`
          SELECT ${spec.job}::text AS job, source_key, outcome, answered_at, due_at, call_id FROM (${rows}) AS r ORDER BY source_key`)),
      );
    }
    const results = (table: "resolution" | "enrichment") =>
      session.rows<StoredResult>(sql`
        SELECT job, is_match, service_pid, match_score::text AS match_score, is_present, request_completed_at,
          last_matched_at, api_request_id
        FROM ${tableId(names, table)} WHERE job = ANY(${jobs}::text[]) AND ${isOfRow}`);
    const ids = states.flatMap((state) => state.call_id ?? []);
    const calls = await session.rows<StoredCall>(sql`
      SELECT call_id, job, run_id, endpoint, started_at, attempt, http_status, records_sent, possibly_billed, api_request_id
      FROM ${tableId(names, "api_call")} WHERE call_id = ANY(${ids}::uuid[]) ORDER BY call_number DESC`);
    const [missing] = await session.rows<NonNullable<RowFacts["missing"]>>(sql`
      SELECT min(missing_since) AS missing_since, max(missing_runs) AS missed_runs FROM ${tableId(names, "lookup_row")}
      WHERE job = ANY(${jobs}::text[]) AND ${isOfRow} HAVING bool_and(missing_since IS NOT NULL)`);
    const [resolutions, enrichments] = [await results("resolution"), await results("enrichment")];
    return { states, resolutions, enrichments, emails, calls, missing: missing ?? null };
  });
}
