import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { withRolePath } from "../db/session.ts";
import { erasedSql } from "../erasure/subjects.ts";
import { readErasureKey } from "../erasure/key.ts";
import { openForeignInput, openLocalInput } from "../inputs/read.ts";
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
      const [found = null] = await session.readOnly(() =>
        session.pluck<string>(sql`
          SELECT source_key FROM (${sql.raw(opened.rawRows)}) AS found
          ORDER BY source_key = ${given.sourceKey} DESC, source_key LIMIT 1`),
      );
      return found;
    }),
  );
}

/**
 * Classes the rows with one key as a run does; writes nothing. `isUndecided` if the mapping or the parameters changed and the user
 * hasn't decided yet.
 */
export function classifyRow(db: Db, spec: LookupSpec, only: GivenKey) {
  return db.preview(async (session) => {
    const { job } = await seeInput(await contextOf(db, session, spec, { only }));
    const rows = await session.rows<ClassifiedRow>(
      spec.type === "validate_emails"
        ? sql`(SELECT class, prior, record, '' AS "recordId" FROM pg_temp.seen_content ORDER BY address COLLATE "C")
            UNION ALL SELECT 'suppressed', NULL, NULL, '' FROM pg_temp.seen_address WHERE email_address IS NOT NULL AND is_erased`
        : sql`SELECT class, prior, CASE WHEN class <> 'suppressed' THEN record END AS record, left(encode(content, 'hex'), 32) AS "recordId"
            FROM pg_temp.seen ORDER BY record COLLATE "C"`,
    );
    return { rows, isUndecided: job.decision === "undecided" };
  });
}

/** True if the row itself was erased, by its key. */
export function isRowErased(db: Db, source: string, sourceKey: string): Promise<boolean> {
  return db.transaction(async (session) => {
    const key = await readErasureKey(session, db.readErasureSecret);
    if (!key) return false;
    const isErased = erasedSql(db.names, key).sourceKey(source, "source_key");
    const [found] = await session.rows(
      sql`SELECT FROM (SELECT ${sourceKey}::text AS source_key) AS given WHERE ${isErased}`,
    );
    return found !== undefined;
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

export type RowFacts = Awaited<ReturnType<typeof readRowFacts>>;

/**
 * Reads everything stored about a row by its key; no table is read whole. Calls that answered come newest first; `missing` is null if
 * the last run found the row.
 * @param specs jobs of its input
 * @param addresses of the row now
 */
export function readRowFacts(
  db: Db,
  { source, sourceKey }: RowKey,
  specs: readonly LookupSpec[],
  addresses: readonly string[],
) {
  const answer = db.table("lookup_answer");
  const row = db.table("lookup_row");
  const isOfRow = sql<boolean>`(job = ANY(${specs.map(({ job }) => job)}::text[]) AND source = ${source} AND source_key = ${sourceKey})`;
  return db.snapshot(async (session) => {
    const { query } = session;
    const emails = await session.rows(
      query
        .selectFrom("data.input_email as i")
        .leftJoin("data.email_validation as v", "v.email_address", "i.email_address")
        .select(["i.email_address", "v.is_match", "v.email_validation_status", "v.request_completed_at"])
        .where("i.source", "=", source)
        .where("i.source_key", "=", sourceKey)
        .orderBy("i.position"),
    );
    const known = [...new Set([...addresses, ...emails.map(({ email_address: address }) => address)])];
    const states: StoredState[] = [];
    for (const spec of specs) {
      const expires = sql`nullif(${expiresAt({ ...spec, resendBelow: null })}, 'infinity')`;
      const rows =
        spec.type === "validate_emails"
          ? sql`SELECT convert_from(a.content, 'UTF8') AS source_key, a.*, ${expires} AS due_at FROM ${answer} AS a
              WHERE a.kind = ${spec.kind} AND a.content IN (SELECT convert_to(e, 'UTF8') FROM unnest(${known}::text[]) AS u(e))`
          : sql`SELECT r.source_key, a.*, ${expires} AS due_at FROM ${row} AS r JOIN ${answer} AS a ON a.content = r.content
              WHERE r.job = ${spec.job} AND r.source = ${source} AND r.source_key = ${sourceKey} AND a.kind = ${spec.kind}`;
      states.push(
        ...(await session.rows<StoredState>(sql`
          SELECT ${spec.job}::text AS job, source_key, outcome, answered_at, due_at, call_id FROM (${rows}) AS r ORDER BY source_key`)),
      );
    }
    const results = (table: "data.resolution" | "data.enrichment") =>
      session.rows(
        query
          .selectFrom(table)
          .select(["job", "is_match", "service_pid", "match_score", "is_present", "request_completed_at"])
          .select(["last_matched_at", "api_request_id"])
          .where(isOfRow),
      );
    const resolutions = await results("data.resolution");
    const enrichments = await results("data.enrichment");
    const ids = states.flatMap((state) => state.call_id ?? []);
    const calls = await session.rows(
      query
        .selectFrom("ops.api_call")
        .select(["call_id", "job", "run_id", "endpoint", "started_at", "attempt", "http_status"])
        .select(["records_sent", "possibly_billed", "api_request_id"])
        .where(sql<boolean>`call_id = ANY(${ids}::uuid[])`)
        .orderBy("call_number", "desc"),
    );
    const [missing = null] = await session.rows<{ missing_since: string; missed_runs: number }>(sql`
      SELECT min(missing_since) AS missing_since, max(missing_runs) AS missed_runs FROM ${row}
      WHERE ${isOfRow} HAVING bool_and(missing_since IS NOT NULL)`);
    return { states, resolutions, enrichments, emails, calls, missing };
  });
}
