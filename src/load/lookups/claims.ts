import { type RawBuilder, sql } from "kysely";
import type { Session } from "../db/session.ts";
import { isBeating, type RunRef, STATEMENT_START } from "../runs/fence.ts";
import type { DueCount } from "./counts.ts";
import { anyContent, type Freshness, isFresh } from "./content.ts";
import type { LookupType } from "../inputs/input.ts";
import type { LookupRecord, LookupSpec } from "./lookup.ts";
import { createHash } from "node:crypto";

type Claimant = Pick<RunRef, "job" | "shard" | "epoch">;

/** Condition: a claim `d` belongs to the run. */
function isOwn({ job, shard, epoch }: Claimant): RawBuilder<boolean> {
  return sql`coalesce(d.epoch = ${epoch} AND d.job = ${job} AND d.shard = ${shard}, false)`;
}

/** Condition: a claim `d` belongs to another run that holds its lock. */
function isOthers(session: Session, run: Claimant | null): RawBuilder<unknown> {
  const isTheirs = sql`EXISTS (SELECT FROM ${session.table("job_lock")} AS l WHERE l.job = d.job AND l.shard = d.shard
    AND l.epoch = d.epoch AND l.released_at IS NULL AND ${isBeating("l", { now: STATEMENT_START })})`;
  return run === null ? isTheirs : sql`(${isTheirs} AND NOT ${isOwn(run)})`;
}

/**
 * Ranks the due contents of `pg_temp.due` and decides on each: `mine` up to the maximum, `later` beyond it, `other` if another run is
 * sending it. Columns of `due`: content, seen_at (`ctid` of a seen row with its record), sent_pid, rank, rows, prior, was_rejected.
 */
export async function rankDue(
  session: Session,
  { kind, maxRecords }: LookupSpec,
  run: Claimant | null,
  due: RawBuilder<unknown>,
): Promise<void> {
  const isWithin =
    maxRecords === null
      ? sql`ELSE 'mine'`
      : sql`WHEN row_number() OVER (PARTITION BY is_others ORDER BY rank NULLS LAST, content) <= ${maxRecords}::bigint
          THEN 'mine' ELSE 'later'`;
  await session.change(sql`
    CREATE TEMP TABLE due ON COMMIT DROP AS
    SELECT *, CASE WHEN is_others THEN 'other' ${isWithin} END AS claim
    FROM (
      SELECT w.*, d.content IS NOT NULL AS is_others FROM (${due}) AS w
      LEFT JOIN ${session.table("lookup_due")} AS d ON d.kind = ${kind} AND d.content = w.content AND ${isOthers(session, run)}) AS w`);
  await session.client.query("ANALYZE pg_temp.due");
}

/** Due contents `w` with their records, from the seen rows: records are long, and are sorted only once. Rows of one content differ at most in the order of addresses. */
const withRecords = (type: LookupType) =>
  sql`pg_temp.due AS w JOIN ${sql.raw(type === "validate_emails" ? "pg_temp.seen_content" : "pg_temp.seen")} AS s ON s.ctid = w.seen_at`;

/** A value of the claims of the run; null for others. */
const mine = (value: RawBuilder<unknown>) => sql`CASE WHEN claim = 'mine' THEN ${value} END`;

/**
 * Claims the contents of `pg_temp.due`: the first claim wins, whichever job or shard makes it. A commit that answers one of them
 * meanwhile waits for this transaction or is seen by its last statement.
 */
export async function claimDue(
  session: Session,
  spec: LookupSpec,
  run: RunRef,
  freshness: Freshness,
): Promise<void> {
  const { kind } = spec;
  const table = session.table("lookup_due");
  const claimed = await session.change(sql`
    INSERT INTO ${table} AS d (kind, content, record, sent_service_pid, job, shard, epoch, rows, was_rejected, is_sent, _synced_at, _run_id)
    SELECT ${kind}, w.content, ${mine(sql`s.record`)}, ${mine(sql`w.sent_pid`)}, ${mine(sql`${run.job}`)}, ${mine(sql`${run.shard}`)},
      ${mine(sql`${run.epoch}::bigint`)}, w.rows, w.was_rejected, false, now(), ${run.runId}
    FROM ${withRecords(spec.type)} ORDER BY w.content
    ON CONFLICT (kind, content) DO UPDATE SET record = excluded.record, sent_service_pid = excluded.sent_service_pid,
      job = excluded.job, shard = excluded.shard, epoch = excluded.epoch, rows = excluded.rows,
      was_rejected = d.was_rejected OR excluded.was_rejected, is_sent = false, _synced_at = now(), _run_id = excluded._run_id
    WHERE NOT ${isOthers(session, run)}`);
  const [wanted = 0] = await session.pluck<number>(
    sql`SELECT count(*) FROM pg_temp.due WHERE claim <> 'other'`,
  );
  if (claimed < wanted) {
    // Another run claimed them after this reading had ranked them.
    await session.change(sql`UPDATE pg_temp.due AS w SET claim = 'other' FROM ${table} AS d
      WHERE d.kind = ${kind} AND d.content = w.content AND ${isOthers(session, run)}`);
  }
  // Answered by a commit that ended after this reading had looked. The list is made once: statistics may still say that nothing is
  // due, by which a join would make it for each claim.
  await session.change(sql`
    WITH answered AS (
      DELETE FROM ${table} AS d WHERE d.kind = ${kind} AND NOT ${isOthers(session, run)} AND d.content = ANY (ARRAY(
        SELECT a.content FROM pg_temp.due AS w JOIN ${session.table("lookup_answer")} AS a ON a.kind = ${kind} AND a.content = w.content
        WHERE ${isFresh(freshness)})) RETURNING d.content)
    UPDATE pg_temp.due AS w SET claim = 'other' FROM answered WHERE w.content = answered.content`);
  await forgetUnwanted(session, spec, run);
}

/** Deletes contents of dead runs and earlier inputs that no row has any more, and the records of free claims. */
async function forgetUnwanted(session: Session, { kind, type }: LookupSpec, run: RunRef): Promise<void> {
  const table = session.table("lookup_due");
  const isFree = sql`d.kind = ${kind} AND NOT ${isOwn(run)} AND NOT ${isOthers(session, run)}
    AND NOT EXISTS (SELECT FROM pg_temp.due AS w WHERE w.content = d.content)`;
  const isWanted =
    type === "validate_emails"
      ? sql`EXISTS (SELECT FROM ${session.table("input_email")} AS e JOIN ${session.table("lookup_job")} AS j ON j.kind = ${kind} AND j.source = e.source
          JOIN ${session.table("lookup_row")} AS r ON r.job = j.job AND r.source = e.source AND r.source_key = e.source_key
          WHERE convert_to(e.email_address, 'UTF8') = d.content AND r.missing_since IS NULL)`
      : sql`EXISTS (SELECT FROM ${session.table("lookup_row")} AS r WHERE r.content = d.content AND r.missing_since IS NULL)`;
  // Each condition is a join of its own. Statistics may still say that nothing is due and nothing is read, by which a nested loop
  // would compare each content with each row.
  await session.client.query("SET LOCAL enable_nestloop = off");
  await session.change(sql`DELETE FROM ${table} AS d WHERE ${isFree} AND NOT ${isWanted}`);
  await session.client.query("SET LOCAL enable_nestloop TO DEFAULT");
  await session.change(sql`UPDATE ${table} AS d SET record = NULL, sent_service_pid = NULL, job = NULL, shard = NULL, epoch = NULL
    WHERE d.epoch IS NOT NULL AND ${isFree}`);
}

export function countDue(session: Session): Promise<readonly DueCount[]> {
  return session.rows<DueCount>(sql`
    SELECT claim, prior, sent_pid IS NOT NULL AS with_pid, count(*) AS records, sum(rows)::bigint AS rows
    FROM pg_temp.due GROUP BY 1, 2, 3`);
}

interface ClaimedRow {
  readonly content: string;
  /** Present in each claim. */
  readonly record: string | null;
  readonly sent_pid: string | null;
}

const HEX = sql<string>`encode(d.content, 'hex')`.as("content");

const isAmong = (contents: readonly string[]) => sql<boolean>`d.content = ${anyContent(contents)}`;

/** Query of the run's claims `d`. */
function claimsOf(session: Session, kind: string, run: Claimant) {
  return session.query.selectFrom("state.lookup_due as d").where("d.kind", "=", kind).where(isOwn(run));
}

function recordOf(type: LookupType, { content, record, sent_pid: sentPid }: ClaimedRow): LookupRecord {
  const json = record ?? "";
  if (type !== "validate_emails") return { recordId: content.slice(0, 32), json, content, sentPid };
  const recordId = createHash("sha256").update(Buffer.from(content, "hex")).digest("hex").slice(0, 32);
  // The reading wrote the address as a JSON string.
  return { recordId, json, address: String(JSON.parse(json)), content, sentPid };
}

/** Reads a page of the run's claims after a content (hex), in the order of contents. */
export async function readClaims(
  session: Session,
  { kind, type }: Pick<LookupSpec, "kind" | "type">,
  run: Claimant,
  { after, size }: { readonly after: string; readonly size: number },
): Promise<readonly LookupRecord[]> {
  const rows = await session.rows(
    claimsOf(session, kind, run)
      .select([HEX, "record", "sent_service_pid as sent_pid"])
      .where(sql<boolean>`content > decode(${after}, 'hex')`)
      .orderBy("d.content")
      .limit(size),
  );
  return rows.map((row) => recordOf(type, row));
}

/** Reads the first records of `pg_temp.due`, which a plan doesn't claim. */
export async function readFirstDue(
  session: Session,
  { type }: Pick<LookupSpec, "type">,
  count: number,
): Promise<readonly LookupRecord[]> {
  const rows = await session.rows<ClaimedRow>(sql`
    SELECT encode(w.content, 'hex') AS content, s.record, w.sent_pid FROM ${withRecords(type)} WHERE claim = 'mine'
    ORDER BY w.content LIMIT ${count}`);
  return rows.map((row) => recordOf(type, row));
}

/** Returns those of the records whose claim the run lost: a person was erased, or another run took it over. */
export async function findLostClaims(
  session: Session,
  kind: string,
  run: Claimant,
  records: readonly LookupRecord[],
): Promise<readonly string[]> {
  const contents = records.map(({ content }) => content);
  const own = new Set(await session.pluck(claimsOf(session, kind, run).select(HEX).where(isAmong(contents))));
  return records.filter(({ content }) => !own.has(content)).map(({ recordId }) => recordId);
}

/** Marks claimed contents as sent although no answer followed. */
export async function markSent(
  session: Session,
  kind: string,
  run: Claimant,
  contents: readonly string[],
): Promise<void> {
  await session.change(
    session.query
      .updateTable("state.lookup_due as d")
      .set({ is_sent: true })
      .where("kind", "=", kind)
      .where(isAmong(contents))
      .where(isOwn(run))
      .where("is_sent", "=", false),
  );
}

/**
 * Deletes contents that are answered. Readings that want them wait, or are waited for. Returns those that the run had claimed, the
 * number of its input rows behind them, and whether a row of any content may have an open reject.
 */
export async function takeClaims(session: Session, kind: string, run: Claimant, contents: readonly string[]) {
  const taken = await session.rows<{
    content: string;
    rows: number;
    was_rejected: boolean;
    is_own: boolean;
  }>(sql`
    DELETE FROM ${session.table("lookup_due")} AS d WHERE d.kind = ${kind} AND d.content = ${anyContent(contents)}
    RETURNING encode(d.content, 'hex') AS content, d.rows, d.was_rejected, ${isOwn(run)} AS is_own`);
  const own = taken.filter((row) => row.is_own);
  return {
    own: new Set(own.map((row) => row.content)),
    rows: own.reduce((sum, { rows }) => sum + rows, 0),
    // Without the claim, as for an answer that a later run loads, nothing is known.
    wereRejected: taken.length < contents.length || taken.some((row) => row.was_rejected),
  };
}

/**
 * Makes contents due again whose answer is still older than a job's last `--resend`: their call was made before it, and loaded late.
 * @param callId call that answered them
 */
export async function keepResent(
  session: Session,
  kind: string,
  runId: string,
  contents: readonly string[],
  callId: string,
): Promise<void> {
  // Most calls are later: then no content is looked up.
  await session.change(sql`
    INSERT INTO ${session.table("lookup_due")} (kind, content, rows, was_rejected, is_sent, _synced_at, _run_id)
    SELECT ${kind}, a.content, 0, false, false, now(), ${runId}
    FROM (SELECT max(resend_below) AS below FROM ${session.table("lookup_job")} WHERE kind = ${kind} AND retired_at IS NULL) AS j
    JOIN (SELECT coalesce((SELECT call_number FROM ${session.table("api_call")} WHERE call_id = ${callId}::uuid), 0) AS number) AS c
      ON c.number < j.below
    CROSS JOIN LATERAL (SELECT content FROM ${session.table("lookup_answer")}
      WHERE kind = ${kind} AND content = ${anyContent(contents)}
        AND outcome <> 'rejected' AND call_number < j.below OFFSET 0) AS a
    ORDER BY a.content ON CONFLICT (kind, content) DO NOTHING`);
}

export interface OpenClaims {
  readonly records: number;
  /** Input rows behind them. */
  readonly rows: number;
  /** Records that were sent and got no answer. */
  readonly sent: number;
}

/** Counts the run's claims without an answer. */
export function countOpen(session: Session, kind: string, run: Claimant): Promise<OpenClaims> {
  return session.one(
    claimsOf(session, kind, run).select(({ fn }) => [
      fn.countAll<number>().as("records"),
      sql<number>`coalesce(sum(rows), 0)::bigint`.as("rows"),
      fn.countAll<number>().filterWhere("is_sent", "=", true).as("sent"),
    ]),
  );
}

/** Releases the run's claims: their contents stay due. */
export async function releaseClaims(session: Session, kind: string, run: Claimant): Promise<void> {
  await session.change(
    session.query
      .updateTable("state.lookup_due as d")
      .set({ record: null, sent_service_pid: null, job: null, shard: null, epoch: null, is_sent: false })
      .where("kind", "=", kind)
      .where(isOwn(run)),
  );
}

/** Deletes answers that no row has any more, once they would have expired. */
export async function forgetUnused(session: Session, spec: LookupSpec): Promise<void> {
  const { kind, type, refreshAfterMs, refreshUnmatchedAfterMs } = spec;
  if (refreshAfterMs === null || refreshUnmatchedAfterMs === null) return;
  const longestMs = Math.max(refreshAfterMs, refreshUnmatchedAfterMs);
  const isUsed =
    type === "validate_emails"
      ? sql`a.content IN (SELECT convert_to(email_address, 'UTF8') FROM ${session.table("input_email")})`
      : sql`EXISTS (SELECT FROM ${session.table("lookup_row")} AS r WHERE r.content = a.content)`;
  // Few answers are that old: those of rows are sent again.
  await session.change(sql`DELETE FROM ${session.table("lookup_answer")} AS a WHERE a.kind = ${kind}
    AND a.answered_at <= now() - ${longestMs} * interval '1 millisecond' AND NOT ${isUsed}
    AND NOT EXISTS (SELECT FROM ${session.table("lookup_job")} AS j WHERE j.kind = a.kind
      AND (j.refresh_after_ms IS NULL OR j.refresh_after_ms > ${longestMs}))`);
}
