import { to as copyTo } from "pg-copy-streams";
import { sql } from "kysely";
import { lookUp } from "../answers/answered-rows.ts";
import { copyEncoded } from "../db/copy.ts";
import { quoteLiteral, type SchemaNames, tableId, tableText } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { FENCE } from "../inputs/create-from-input.ts";
import type { OpenedInput } from "../inputs/foreign-input.ts";
import { raw } from "../inputs/input.ts";
import type { Outcome } from "./lookup-record.ts";
import type { LookupSpec } from "./lookup-spec.ts";

/** Rows to compare. */
export type ComparedRows = Pick<OpenedInput, "rawRows" | "keyIsUnique">;

/** Setting that holds the keys of the rows to classify. Parallel workers can read a setting, but not a temporary table. */
const KEYS = "person_etl.candidates";

/** Query for the keys of the rows to classify. */
export const TO_CLASSIFY = `SELECT unnest(current_setting('${KEYS}')::text[]) AS source_key`;

/** Query for the keys of rows that left the input since the last selection. */
export const GONE = raw("SELECT source_key FROM pg_temp.candidate WHERE kind IN ('gone', 'lost')");

/** Bytes of a list of candidates; with a longer one, all rows are classified. A request to BigQuery, with its keys, has at most 10 MB. */
const MAX_LIST_BYTES = 5 * 1024 * 1024;

/** Rows of the input that need no classification, by last outcome. */
export interface QuietCount {
  readonly prior: Outcome;
  readonly rows: number;
}

/**
 * Compares the fingerprints of all input rows with the stored ones, in one statement that Postgres can run in parallel. Leaves
 * the keys of all other rows in the temporary table `candidate`, and counts the quiet rows: present, unchanged, and not due.
 * Returns null if the list of candidates would be too long.
 * @param keys the input with keys and fingerprints only
 */
export async function findCandidates(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  keys: ComparedRows,
): Promise<readonly QuietCount[] | null> {
  await session.client.query(`CREATE TEMP TABLE candidate (name text NOT NULL, rows bigint NOT NULL,
    kind text GENERATED ALWAYS AS (split_part(name, ':', 1)) STORED,
    source_key text GENERATED ALWAYS AS (CASE WHEN name LIKE '%:%' THEN substr(name, strpos(name, ':') + 1) END) STORED) ON COMMIT DROP`);
  const query = comparison(names, spec, keys);
  if (!(await list(session, query))) return null;
  if (!keys.keyIsUnique && (await haveSharedKeys(session, names, spec))) {
    await forgetShared(session, names, spec, keys);
    await session.client.query("TRUNCATE pg_temp.candidate");
    if (!(await list(session, query))) return null;
  }
  await session.client.query(`ANALYZE pg_temp.candidate;
    SELECT length(set_config('${KEYS}', (SELECT coalesce(array_agg(source_key), '{}')::text
      FROM pg_temp.candidate WHERE kind IN ('known', 'new')), true))`);
  return session.rows(
    sql<QuietCount>`SELECT name AS prior, rows FROM pg_temp.candidate WHERE kind IN ('matched', 'unmatched', 'rejected')`,
  );
}

/**
 * Compares every row with its state: a group for the quiet rows of each outcome, named after it, and one for every other key,
 * named `KIND:KEY`. The full join finds rows that left the input. A fenced subquery with one column to group by keeps the planner
 * from estimating as many groups as rows, so that it groups in parallel.
 */
export function comparison(names: SchemaNames, spec: LookupSpec, { rawRows }: ComparedRows): string {
  return `SELECT name, count(*) FROM (
      SELECT CASE
          WHEN is_row AND is_settled AND i.fingerprint = s.fingerprint THEN outcome
          WHEN is_row THEN CASE WHEN s.fingerprint <> '' THEN 'known:' ELSE 'new:' END || coalesce(i.source_key, '')
          WHEN s.fingerprint = '' THEN NULL
          ELSE CASE WHEN s.fingerprint <> '' THEN 'gone:' ELSE 'lost:' END || s.source_key
        END COLLATE "C" AS name
      FROM (SELECT *, true AS is_row FROM (${rawRows}) AS r) AS i
      FULL JOIN (${states(names, spec)}) AS s ON s.source_key = i.source_key
      ${FENCE}) AS compared
    WHERE name IS NOT NULL GROUP BY name`;
}

/** Stored states; `is_settled` if a row with the stored fingerprint is not due. */
function states(names: SchemaNames, { job, input, pidFrom, parametersHash }: LookupSpec): string {
  const table = tableText(names, "lookup_state");
  const of = (name: string, alias: string) =>
    `${alias}.job = ${quoteLiteral(name)} AND ${alias}.source = ${quoteLiteral(input.name)}`;
  // Null keys are compared as empty ones, which therefore are never quiet.
  const own = `SELECT source_key, outcome, fingerprint, sent_service_pid,
      fingerprint <> '' AND source_key <> '' AND coalesce(due_at > now(), true)
        AND (outcome = 'rejected' OR parameters_hash = ${quoteLiteral(parametersHash)}) AS is_settled
    FROM ${table} AS s WHERE ${of(job, "s")} ${FENCE}`;
  if (pidFrom === null) {
    return `SELECT source_key, outcome, fingerprint, is_settled AND sent_service_pid IS NULL AS is_settled FROM (${own}) AS t`;
  }
  // The jobs of an input share its fingerprints: the PID was found for the same content.
  return `SELECT t.source_key, t.outcome, t.fingerprint,
      is_settled AND (t.outcome = 'rejected' OR ps.fingerprint = t.fingerprint) AND t.sent_service_pid IS NOT DISTINCT FROM
        CASE WHEN ps.outcome = 'matched' AND r.is_match THEN r.service_pid END AS is_settled
    FROM (${own}) AS t
    LEFT JOIN ${table} AS ps ON ${of(pidFrom, "ps")} AND ps.source_key = t.source_key
    LEFT JOIN ${tableText(names, "resolution")} AS r ON ${of(pidFrom, "r")} AND r.source_key = t.source_key`;
}

/** True if a state of the job has a fingerprint. */
export async function hasFingerprints(
  session: Session,
  names: SchemaNames,
  { job, input }: LookupSpec,
): Promise<boolean> {
  const found = await session.rows(sql`
    SELECT FROM ${tableId(names, "lookup_state")}
    WHERE job = ${job} AND source = ${input.name} AND octet_length(fingerprint) > 0 LIMIT 1`);
  return found.length > 0;
}

/** Fills `candidate` with the result of a query; returns false if it is too long. A COPY runs in parallel, an INSERT doesn't. */
async function list(session: Session, query: string): Promise<boolean> {
  await session.client.query("SET LOCAL enable_nestloop = off");
  const listed = await session.readOnly(async () => {
    // COPY has no extended protocol: the rows must be those of one statement.
    await session.rows(raw(`EXPLAIN ${query}`));
    return readAtMost(session.client.query(copyTo(`COPY (${query}) TO STDOUT`)), MAX_LIST_BYTES);
  });
  await session.client.query("SET LOCAL enable_nestloop TO DEFAULT");
  if (listed === null) return false;
  await copyEncoded(session, "pg_temp.candidate", ["name", "rows"], listed);
  return true;
}

/** Reads a stream to its end; null if it is longer than `limit`. */
async function readAtMost(stream: AsyncIterable<Buffer>, limit: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes <= limit) chunks.push(chunk);
    else chunks.length = 0;
  }
  return bytes <= limit ? Buffer.concat(chunks) : null;
}

/** True if more rows were compared with a fingerprint than there are fingerprints: several rows have the key of one. */
async function haveSharedKeys(
  session: Session,
  names: SchemaNames,
  { job, input }: LookupSpec,
): Promise<boolean> {
  const [found] = await session.rows<{ shared: boolean }>(sql`
    SELECT (SELECT coalesce(sum(rows), 0) FROM pg_temp.candidate WHERE kind NOT IN ('new', 'lost')) > count(*) AS shared
    FROM ${tableId(names, "lookup_state")}
    WHERE job = ${job} AND source = ${input.name} AND octet_length(fingerprint) > 0`);
  return found?.shared ?? false;
}

/** Forgets the fingerprints of keys that several rows have, so that every selection classifies those rows. */
async function forgetShared(
  session: Session,
  names: SchemaNames,
  { job, input }: LookupSpec,
  { rawRows }: ComparedRows,
): Promise<void> {
  await session.client.query("CREATE TEMP TABLE shared_key (source_key text) ON COMMIT DROP");
  await session.readOnly(() =>
    session.change(sql`INSERT INTO pg_temp.shared_key
      SELECT source_key FROM (${raw(rawRows)}) AS r GROUP BY source_key HAVING count(*) > 1`),
  );
  await session.change(sql`
    UPDATE ${tableId(names, "lookup_state")} SET fingerprint = NULL
    WHERE job = ${job} AND source = ${input.name} AND source_key IN (SELECT source_key FROM pg_temp.shared_key)`);
}

/** Keys of the rows to classify. */
export async function candidateKeys(session: Session): Promise<readonly string[]> {
  const rows = await session.rows(sql.raw<{ source_key: string }>(TO_CLASSIFY));
  return rows.map((row) => row.source_key);
}

/** Stores the fingerprints of classified rows, and empty ones for rows that left the input. */
export async function storeFingerprints(
  session: Session,
  names: SchemaNames,
  { job, input }: LookupSpec,
  hasCandidates: boolean,
): Promise<void> {
  const state = tableId(names, "lookup_state");
  const gone = hasCandidates ? sql`UNION ALL SELECT source_key, '' FROM (${GONE}) AS g` : sql``;
  await session.change(sql`
    UPDATE ${state} AS s SET fingerprint = f.fingerprint
    FROM (
      SELECT t.ctid, p.fingerprint FROM (SELECT source_key, fingerprint FROM pg_temp.new_print ${gone}) AS p
      ${lookUp(
        sql`SELECT ctid FROM ${state} WHERE job = ${job} AND source = ${input.name} AND source_key = p.source_key`,
        "t",
      )}) AS f
    WHERE s.ctid = f.ctid`);
}
