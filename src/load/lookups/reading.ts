import { type RawBuilder, sql } from "kysely";
import { rejectCodes } from "../../schemas/reject-codes.ts";
import { quoteLiteral, type SchemaNames, tableId, tableText } from "../db/names.ts";
import { type Session, withRolePath } from "../db/session.ts";
import type { ErasedSql } from "../erasure/naming.ts";
import { createFromInput } from "../inputs/create-from-input.ts";
import type { ForeignDatabase, Reading } from "../inputs/foreign-database.ts";
import { type OpenedInput, openForeignInput, openLocalInput } from "../inputs/foreign-input.ts";
import { raw } from "../inputs/input.ts";
import type { RunRef } from "../runs/run-ref.ts";
import type { LoadContext } from "./answer.ts";
import { claimDue, countDue, forgetUnused, rankDue } from "./claims.ts";
import { type ClassCount, countsOf, type LookupCounts, type MatchHistory } from "./counts.ts";
import { type Freshness, isFresh, mayBeExpired } from "./freshness.ts";
import type { LookupSpec } from "./lookup.ts";
import { keepAnswers, readJob, resendBelow, type StoredJob, writeJob } from "./parameters.ts";
import { publishAnswers, type RowLookupType, unmarkPresent } from "./publish-answers.ts";
import {
  comparison,
  isRowOf,
  MAX_KEY_BYTES,
  type RowContext,
  seenAddresses,
  seenAddressRows,
  seenRows,
} from "./row-sql.ts";
import { KEPT_KEY_CHARACTERS, ownsKey } from "./shard-rows.ts";
import { rejectRows, resolveRejects } from "./write-answers.ts";

/** Key of an input row: the given values of its columns, and its stored text. */
export interface GivenKey {
  readonly key: readonly string[];
  readonly sourceKey: string;
}

/** What a reading needs. */
export interface ReadingContext {
  readonly session: Session;
  readonly names: SchemaNames;
  readonly spec: LookupSpec;
  /** Database of the input; null for the warehouse. */
  readonly foreign: ForeignDatabase | null;
  /** Conditions for identifiers of erased people; null if no one was erased. */
  readonly erased: ErasedSql | null;
  /** Run that stores what it reads and claims what is due; null for a plan. */
  readonly run: RunRef | null;
  readonly touch: (table: string, rows: number) => void;
  /** The only row to read; null for all. */
  readonly only: GivenKey | null;
}

/** Bytes of keys that a query of another database takes: a request to BigQuery has at most 10 MB. */
const MAX_KEYS_BYTES = 4 * 1024 * 1024;

/** Rows from which on statistics are worth their time. */
export const MANY_ROWS = 10_000;

/** A read input: its rows are in `pg_temp.seen`, for validate_emails their addresses in `seen_address` and `seen_content`. */
export interface SeenInput {
  readonly job: StoredJob;
  readonly freshness: Freshness;
  /** Rows (addresses) that weren't read again. */
  readonly quiet: number;
  /** True if `pg_temp.seen` has every row of the input. */
  readonly isWhole: boolean;
}

/**
 * Reads the input: compares the fingerprints of all rows with the stored ones in one join, and reads the values of the rows that
 * differ, or whose content is wanted. Leaves them in temporary tables.
 */
export async function seeInput(context: ReadingContext): Promise<SeenInput> {
  const { session, names, spec, run, only } = context;
  const job = await readJob(session, names, spec);
  const resend = spec.resend
    ? await resendBelow(session, names, spec, run?.runId ?? null)
    : { below: job.resendBelow, isNew: false };
  const freshness: Freshness = { ...spec, resendBelow: resend.below };
  const isWhole = only !== null || resend.isNew || job.decision !== "accepted" || !(await isKnown(context));
  const quiet = await withRolePath(session, async () => {
    const { opened, total } = await openRows(context, freshness, isWhole);
    const rows: RowContext = {
      names,
      spec,
      freshness,
      formerKind: job.formerKind,
      erased: context.erased,
      opened,
      hasRank: spec.maxRecords !== null && spec.input.orderBy !== null,
    };
    if (spec.type !== "validate_emails") {
      await createFromInput(session, "seen", seenRows(rows));
      return total === null ? 0 : total - (await countSeen(session));
    }
    await createFromInput(session, "seen", seenAddressRows(rows));
    const email = rows.erased ? sql`OR ${rows.erased.email("e")}` : sql``;
    await session.change(sql`CREATE TEMP TABLE seen_address ON COMMIT DROP AS
      SELECT source_key, copy, rank, (o - 1)::int AS position, e AS email_address, is_erased ${email} AS is_erased
      FROM pg_temp.seen LEFT JOIN LATERAL unnest(addresses) WITH ORDINALITY AS u(e, o) ON true`);
    await session.change(sql`CREATE TEMP TABLE seen_content ON COMMIT DROP AS ${seenAddresses(rows)}`);
    await session.client.query("ANALYZE pg_temp.seen_address; ANALYZE pg_temp.seen_content");
    return isWhole ? 0 : await countQuietAddresses(context);
  });
  return { job, freshness, quiet, isWhole };
}

/** True if the job has read rows of the input before. */
async function isKnown({ session, names, spec: { job, source } }: ReadingContext): Promise<boolean> {
  const found = await session.rows(sql`SELECT FROM ${tableId(names, "lookup_row")}
    WHERE job = ${job} AND source = ${source} AND fingerprint IS NOT NULL LIMIT 1`);
  return found.length > 0;
}

async function countSeen(session: Session): Promise<number> {
  const [seen] = await session.rows<{ rows: number }>(sql`SELECT count(*) AS rows FROM pg_temp.seen`);
  return seen?.rows ?? 0;
}

/** Opens the rows to read: all, or those among `pg_temp.touched`. `total` counts the rows of the input; null if all are read. */
async function openRows(
  context: ReadingContext,
  freshness: Freshness,
  isWhole: boolean,
): Promise<{ readonly opened: OpenedInput; readonly total: number | null }> {
  const { session, spec, foreign, only } = context;
  const reading: Reading = {
    type: spec.type,
    ranked: spec.maxRecords !== null,
    hasFingerprint: true,
  };
  const open = (more: Partial<Reading>) => {
    const options = { ...reading, ...more };
    return foreign
      ? openForeignInput(session, foreign, spec.input, options)
      : openLocalInput(session, spec.input, options);
  };
  if (only) {
    const opened = await open({ only: only.key });
    const isIt = `source_key = ${quoteLiteral(only.sourceKey)}`;
    return {
      opened: { ...opened, rawRows: `SELECT * FROM (${opened.rawRows}) AS one WHERE ${isIt}` },
      total: null,
    };
  }
  if (isWhole) return { opened: await open({}), total: null };
  const keys = await open({ ranked: false, isWithoutValues: true });
  const total = await findTouched(context, freshness, keys);
  if (!foreign) {
    return { opened: await open({ among: { query: "SELECT source_key FROM pg_temp.touched" } }), total };
  }
  // Another database has to be sent the keys. With more of them, it is read whole.
  const [size] = await session.rows<{ bytes: number }>(
    sql`SELECT coalesce(sum(octet_length(source_key) + 3), 0)::bigint AS bytes FROM pg_temp.touched`,
  );
  if ((size?.bytes ?? 0) <= MAX_KEYS_BYTES) {
    const touched = await session.rows<{ source_key: string }>(sql`SELECT source_key FROM pg_temp.touched`);
    return { opened: await open({ among: { keys: touched.map((row) => row.source_key) } }), total };
  }
  const opened = await open({});
  const isTouched = "coalesce(source_key, '') IN (SELECT source_key FROM pg_temp.touched)";
  return {
    opened: { ...opened, rawRows: `SELECT * FROM (${opened.rawRows}) AS every_row WHERE ${isTouched}` },
    total,
  };
}

/** Leaves the keys of the rows to read (again) in `pg_temp.touched`. Returns the number of rows in the input. */
async function findTouched(
  context: ReadingContext,
  freshness: Freshness,
  keys: OpenedInput,
): Promise<number> {
  const { session, names, spec } = context;
  await session.client.query("SET LOCAL enable_nestloop = off");
  await createFromInput(session, "touched", comparison(names, spec, keys));
  await session.client.query("SET LOCAL enable_nestloop TO DEFAULT");
  const [found] = await session.rows<{ total: number; quiet: number }>(sql`
    SELECT coalesce(sum(rows), 0)::bigint AS total, coalesce(sum(rows) FILTER (WHERE source_key IS NULL), 0)::bigint AS quiet
    FROM pg_temp.touched`);
  const { total, quiet } = found ?? { total: 0, quiet: 0 };
  await session.change(sql`DELETE FROM pg_temp.touched WHERE source_key IS NULL`);
  if (!keys.keyIsUnique) await touchShared(context, keys, quiet);
  await session.change(sql`
    INSERT INTO pg_temp.touched SELECT DISTINCT w.source_key, 1 FROM (${wantedKeys(context, freshness)}) AS w
    WHERE NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = w.source_key)`);
  return total;
}

/** Adds the keys that several quiet rows share: one of the rows will be used, the others rejected. */
async function touchShared(
  { session, names, spec }: ReadingContext,
  keys: OpenedInput,
  quiet: number,
): Promise<void> {
  const row = tableId(names, "lookup_row");
  const [settled] = await session.rows<{ rows: number }>(sql`
    SELECT count(*) AS rows FROM ${row} AS r WHERE ${raw(isRowOf(spec))} AND r.fingerprint IS NOT NULL
      AND NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = r.source_key)`);
  if (quiet <= (settled?.rows ?? 0)) return;
  await createFromInput(
    session,
    "shared",
    sql`SELECT source_key, count(*) AS rows FROM (${raw(keys.rawRows)}) AS r
      WHERE source_key IS NOT NULL AND ${raw(ownsKey(spec.shard, "source_key"))} GROUP BY source_key HAVING count(*) > 1`,
  );
  await session.change(sql`
    INSERT INTO pg_temp.touched SELECT s.source_key, s.rows FROM pg_temp.shared AS s
    WHERE NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = s.source_key)`);
}

/** Keys of settled rows whose content is wanted: left by an earlier run, or expired. */
function wantedKeys({ names, spec }: ReadingContext, freshness: Freshness): RawBuilder<unknown> {
  const { kind, type, source } = spec;
  const oldest = mayBeExpired(freshness, "a");
  const due = sql`SELECT content FROM ${tableId(names, "lookup_due")} WHERE kind = ${kind}`;
  const wanted =
    oldest === null
      ? due
      : sql`${due} UNION ALL SELECT a.content FROM ${tableId(names, "lookup_answer")} AS a
          WHERE a.kind = ${kind} AND ${oldest} AND NOT ${isFresh(freshness, "a")}`;
  const row = tableId(names, "lookup_row");
  return type === "validate_emails"
    ? sql`SELECT r.source_key FROM ${tableId(names, "input_email")} AS e JOIN ${row} AS r
        ON ${raw(isRowOf(spec))} AND r.source_key = e.source_key AND r.fingerprint IS NOT NULL
        WHERE e.source = ${source} AND convert_to(e.email_address, 'UTF8') IN (${wanted})`
    : sql`SELECT r.source_key FROM ${row} AS r WHERE ${raw(isRowOf(spec))} AND r.fingerprint IS NOT NULL AND r.content IN (${wanted})`;
}

/** Counts the addresses of rows that were not read again. */
async function countQuietAddresses({ session, names, spec }: ReadingContext): Promise<number> {
  const [found] = await session.rows<{ addresses: number }>(sql`
    SELECT count(*) AS addresses FROM ${tableId(names, "input_email")} AS e JOIN ${tableId(names, "lookup_row")} AS r
      ON ${raw(isRowOf(spec))} AND r.source_key = e.source_key AND r.fingerprint IS NOT NULL
    WHERE e.source = ${spec.source} AND NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = e.source_key)`);
  return found?.addresses ?? 0;
}

/** Classes of rows whose content isn't due. */
const NOT_DUE = sql`(class LIKE 'reject:%' OR class IN ('unchanged', 'reused', 'waiting', 'suppressed'))`;

/** Contents that are due, as {@link rankDue} takes them. */
function dueContents({ names, spec: { type, job, source } }: ReadingContext): RawBuilder<unknown> {
  const rejected = sql`(SELECT x.source_key FROM ${tableId(names, "reject")} AS x
    WHERE x.job = ${job} AND x.source = ${source} AND x.resolved_at IS NULL AND x.source_key IS NOT NULL)`;
  return type === "validate_emails"
    ? sql`SELECT content, record, sent_pid, rank, rows, prior, address IN ${rejected} AS was_rejected
        FROM pg_temp.seen_content WHERE NOT ${NOT_DUE}`
    : sql`SELECT content, min(record COLLATE "C") AS record, min(sent_pid COLLATE "C") AS sent_pid, min(rank) AS rank, count(*) AS rows,
          min(prior) AS prior, bool_or(source_key IN ${rejected}) AS was_rejected
        FROM pg_temp.seen WHERE NOT ${NOT_DUE} GROUP BY content`;
}

/**
 * Reads the input of a job and decides what is due: a content that a present row has, and no fresh answer does. A run stores what
 * it read, claims what is due and publishes the answers that exist already; a plan writes nothing.
 */
export async function readInput(context: ReadingContext): Promise<LookupCounts> {
  const { session, names, spec, run } = context;
  let seen = await seeInput(context);
  if (run && seen.job.decision === "keep" && seen.job.formerKind !== null) {
    seen = await keep(context, seen, seen.job.formerKind, run);
  }
  const classes = await countClasses(context);
  const changed = classes.find((one) => one.class === "parameters_changed")?.rows ?? 0;
  const parametersChanged =
    seen.job.decision === "undecided" ? changed || (await countBought(context, seen.job)) : 0;
  await rankDue(session, names, spec, run, dueContents(context));
  const gone = run && parametersChanged === 0 ? await store(context, seen, run) : 0;
  const due = await countDue(session);
  return countsOf(spec, {
    classes,
    due,
    quiet: seen.quiet,
    gone,
    parametersChanged,
    unusableKeys: spec.type === "validate_emails" ? await countUnusableKeys(session) : 0,
    waitingRecords: run === null ? await countWaiting(session, spec) : 0,
    history: due.length === 0 ? NO_HISTORY : await readHistory(session, names, spec.kind),
  });
}

/** Counts the rows of all shards that were answered with other request parameters: none of them may send before the user has decided. */
async function countBought(
  { session, names, spec }: ReadingContext,
  { formerKind }: StoredJob,
): Promise<number> {
  if (spec.shard === null || formerKind === spec.kind) return 0;
  const [found] = await session.rows<{ rows: number }>(sql`
    SELECT count(*) AS rows FROM ${tableId(names, "lookup_row")} AS r JOIN ${tableId(names, "lookup_answer")} AS a
      ON a.kind = ${formerKind} AND a.content = r.content AND a.outcome <> 'rejected'
    WHERE r.job = ${spec.job} AND r.source = ${spec.source} AND r.missing_since IS NULL`);
  return found?.rows ?? 0;
}

/** `--accept-parameters keep`: decided for all shards, so the whole input is read. */
async function keep(
  context: ReadingContext,
  seen: SeenInput,
  formerKind: string,
  run: RunRef,
): Promise<SeenInput> {
  const { session, names, spec } = context;
  if (spec.shard !== null) {
    await dropSeen(session);
    await seeInput({ ...context, spec: { ...spec, shard: null } });
  }
  await keepAnswers(session, names, spec, formerKind);
  await dropSeen(session);
  await writeJob(session, names, spec, run.runId);
  const again = await seeInput(context);
  return { ...again, job: seen.job };
}

async function dropSeen(session: Session): Promise<void> {
  await session.client.query(
    "DROP TABLE IF EXISTS seen, seen_address, seen_content, touched, candidate_row, foreign_row, foreign_key, shared",
  );
}

function countClasses({ session, spec: { type } }: ReadingContext): Promise<readonly ClassCount[]> {
  return type === "validate_emails"
    ? session.rows<ClassCount>(sql`
        SELECT class, sum(rows)::bigint AS rows, coalesce(sum(rows) FILTER (WHERE prior <> 'rejected'), 0)::bigint AS answered
        FROM pg_temp.seen_content GROUP BY class
        UNION ALL SELECT 'suppressed', count(*), 0 FROM pg_temp.seen_address WHERE email_address IS NOT NULL AND is_erased HAVING count(*) > 0`)
    : session.rows<ClassCount>(sql`
        SELECT class, count(*) AS rows, count(*) FILTER (WHERE prior <> 'rejected') AS answered FROM pg_temp.seen GROUP BY class`);
}

/** Counts addresses in rows without a usable key. */
async function countUnusableKeys(session: Session): Promise<number> {
  const [found] = await session.rows(sql<{ readonly addresses: number }>`
    SELECT count(*) AS addresses FROM pg_temp.seen_address
    WHERE (copy > 1 OR source_key IS NULL) AND email_address IS NOT NULL AND NOT is_erased`);
  return found?.addresses ?? 0;
}

/** Counts the distinct records behind waiting rows, as far as known without their PIDs. */
async function countWaiting(session: Session, { type, pidFrom }: LookupSpec): Promise<number> {
  if (type === "validate_emails" || pidFrom === null) return 0;
  const [found] = await session.rows<{ records: number }>(
    sql`SELECT count(DISTINCT content) AS records FROM pg_temp.seen WHERE class = 'waiting'`,
  );
  return found?.records ?? 0;
}

const NO_HISTORY: MatchHistory = {
  withPid: { answered: 0, matched: 0 },
  others: { answered: 0, matched: 0 },
};

/** Days of answers that an estimate is made from. */
const HISTORY_DAYS = 90;

async function readHistory(session: Session, names: SchemaNames, kind: string): Promise<MatchHistory> {
  const rows = await session.rows<{ with_pid: boolean; answered: number; matched: number }>(sql`
    SELECT sent_service_pid IS NOT NULL AS with_pid, count(*) AS answered, count(*) FILTER (WHERE outcome = 'matched') AS matched
    FROM ${tableId(names, "lookup_answer")}
    WHERE kind = ${kind} AND answered_at > now() - make_interval(days => ${HISTORY_DAYS}) AND outcome <> 'rejected' GROUP BY 1`);
  const of = (withPid: boolean) => {
    const { answered = 0, matched = 0 } = rows.find((row) => row.with_pid === withPid) ?? {};
    return { answered, matched };
  };
  return { withPid: of(true), others: of(false) };
}

/**
 * Stores the rows that were read, claims what is due, rejects what can't be sent, and publishes the answers that exist already.
 * Returns the number of rows that left the input.
 */
async function store(context: ReadingContext, seen: SeenInput, run: RunRef): Promise<number> {
  const { session, names, spec, touch } = context;
  const load: LoadContext = { session, names, runId: run.runId, touch };
  const { type } = spec;
  // Another shard may still find changed rows: without a decision, only a run of the whole input accepts new parameters.
  if (seen.job.decision !== "undecided" || spec.shard === null)
    await writeJob(session, names, spec, run.runId);
  if (!seen.job.isSameInput) await restartMissing(context, run);
  const gone = await storeGone(context, seen, run);
  if (type === "validate_emails") {
    await storeAddressRows(context, run);
    touch("input_email", await syncInputEmails(context));
  } else {
    await storeRows(context, run);
    await unmarkPresent(
      load,
      { ...spec, type },
      sql`SELECT source_key FROM pg_temp.gone UNION ALL SELECT source_key FROM pg_temp.seen
        WHERE is_known AND (class IN ('waiting', 'suppressed') OR class <> 'reject:duplicate_key'
          AND prior_content IS DISTINCT FROM content AND coalesce(prior = 'rejected', true))`,
    );
  }
  await claimDue(session, names, spec, run, seen.freshness);
  await rejectUnusable(context, load);
  if (type !== "validate_emails") await publishKnown(context, load, type);
  await forgetUnused(session, names, spec);
  return gone;
}

/** Fingerprint and content to store with a seen row: none for rows that have to be read again by the next run. */
async function storeRows({ session, names, spec }: ReadingContext, run: RunRef): Promise<void> {
  // A PID may change while it is read: rows stay unsettled if their resolve job runs at the same time.
  const isResolving =
    spec.pidFrom === null
      ? sql`false`
      : sql`EXISTS (SELECT FROM ${tableId(names, "job_lock")} WHERE job = ${spec.pidFrom} AND released_at IS NULL AND expires_at > now())`;
  const isNone = sql`(class IN ('waiting', 'suppressed'))`;
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_row")} AS r (job, source, source_key, fingerprint, content, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.source}, source_key, CASE WHEN NOT (is_shared OR ${isNone} OR ${isResolving}) THEN fingerprint END,
      CASE WHEN NOT ${isNone} THEN content END, now(), ${run.runId}
    FROM pg_temp.seen
    WHERE class NOT IN ('reject:missing_key', 'reject:key_too_long', 'reject:duplicate_key') AND (class <> 'suppressed' OR is_known)
    ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET fingerprint = excluded.fingerprint, content = excluded.content,
      missing_since = NULL, missing_runs = NULL, missing_run_id = NULL, _synced_at = now(), _run_id = excluded._run_id
    WHERE (r.fingerprint, r.content, r.missing_since) IS DISTINCT FROM (excluded.fingerprint, excluded.content, NULL::timestamptz)`);
}

async function storeAddressRows({ session, names, spec }: ReadingContext, run: RunRef): Promise<void> {
  const tooLong = sql`EXISTS (SELECT FROM unnest(addresses) AS u(e) WHERE octet_length(e) > ${MAX_KEY_BYTES})`;
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_row")} AS r (job, source, source_key, fingerprint, _synced_at, _run_id)
    SELECT ${spec.job}, ${spec.source}, source_key, CASE WHEN NOT (is_shared OR ${tooLong}) THEN fingerprint END, now(), ${run.runId}
    FROM pg_temp.seen WHERE copy = 1 AND source_key IS NOT NULL AND octet_length(source_key) <= ${MAX_KEY_BYTES} AND NOT is_erased
    ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET fingerprint = excluded.fingerprint, missing_since = NULL, missing_runs = NULL,
      missing_run_id = NULL, _synced_at = now(), _run_id = excluded._run_id
    WHERE (r.fingerprint, r.missing_since) IS DISTINCT FROM (excluded.fingerprint, NULL::timestamptz)`);
}

/** Marks the rows that left the input as missing, and counts this run for those that stay missing. Leaves the former in `pg_temp.gone`. */
async function storeGone(
  { session, names, spec }: ReadingContext,
  seen: SeenInput,
  run: RunRef,
): Promise<number> {
  const row = tableId(names, "lookup_row");
  const isTouched = seen.isWhole ? sql`true` : sql`r.source_key IN (SELECT source_key FROM pg_temp.touched)`;
  await session.change(sql`UPDATE ${row} AS r SET missing_runs = r.missing_runs + 1, missing_run_id = ${run.runId}, _synced_at = now()
    WHERE ${raw(isRowOf(spec))} AND r.missing_since IS NOT NULL AND r.missing_run_id <> ${run.runId}
      AND ${spec.erasesMissing} AND NOT EXISTS (SELECT FROM pg_temp.seen AS s WHERE s.source_key = r.source_key)`);
  await session.client.query("CREATE TEMP TABLE gone (source_key text) ON COMMIT DROP");
  return session.change(sql`
    WITH missed AS (
      UPDATE ${row} AS r SET fingerprint = NULL, missing_since = now(), missing_runs = 1, missing_run_id = ${run.runId}, _synced_at = now(),
        _run_id = ${run.runId}
      WHERE ${raw(isRowOf(spec))} AND r.missing_since IS NULL AND ${isTouched}
        AND NOT EXISTS (SELECT FROM pg_temp.seen AS s WHERE s.source_key = r.source_key)
      RETURNING r.source_key)
    INSERT INTO pg_temp.gone SELECT source_key FROM missed`);
}

/** Begins counting missing rows again: the definition of the input changed. */
async function restartMissing({ session, names, spec }: ReadingContext, run: RunRef): Promise<void> {
  await session.change(sql`UPDATE ${tableId(names, "lookup_row")} SET missing_since = now(), missing_runs = 0, missing_run_id = ''
    WHERE job = ${spec.job} AND source = ${spec.source} AND missing_since IS NOT NULL AND missing_run_id <> ${run.runId}`);
}

/** Updates `input_email` for the seen rows: writes only what differs. Keeps rows whose key left the input. */
async function syncInputEmails({ session, names, spec: { source } }: ReadingContext): Promise<number> {
  const table = tableId(names, "input_email");
  const isCurrent = sql`a.copy = 1 AND NOT a.is_erased AND a.email_address IS NOT NULL`;
  const removed = await session.change(sql`
    DELETE FROM ${table} AS t WHERE t.source = ${source} AND t.source_key IN (SELECT source_key FROM pg_temp.seen)
      AND NOT EXISTS (SELECT FROM pg_temp.seen_address AS a
        WHERE a.source_key = t.source_key AND a.position = t.position AND ${isCurrent})`);
  const written = await session.change(sql`
    INSERT INTO ${table} AS t (source, source_key, position, email_address, _synced_at, _run_id)
    SELECT ${source}, source_key, position, email_address, now(), current_setting('person_etl.run_id')
    FROM pg_temp.seen_address AS a
    WHERE ${isCurrent} AND source_key IS NOT NULL AND octet_length(source_key) <= ${MAX_KEY_BYTES}
    ORDER BY source_key COLLATE "C", position
    ON CONFLICT (source, source_key, position) DO UPDATE
      SET email_address = excluded.email_address, _synced_at = excluded._synced_at, _run_id = excluded._run_id
      WHERE t.email_address <> excluded.email_address`);
  return removed + written;
}

/** Messages of rejects that are found before a call. */
const REJECT_MESSAGES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(rejectCodes).flatMap(([code, { stage, means }]) =>
    stage === "input" ? [[code, means]] : [],
  ),
);

/** Reject codes of rows without a stored content. Every run finds them again and keeps one open reject each. */
const WITHOUT_CONTENT: readonly string[] = ["missing_key", "key_too_long", "duplicate_key"];

/** Rejects the seen rows that can't be sent. An unusable content counts as answered: rejected. */
async function rejectUnusable({ session, names, spec }: ReadingContext, load: LoadContext): Promise<void> {
  const reject = tableId(names, "reject");
  const { job, source, kind, type, shard } = spec;
  await session.change(
    type === "validate_emails"
      ? sql`CREATE TEMP TABLE unusable ON COMMIT DROP AS SELECT substring(class FROM 8) AS code, NULL::bytea AS content,
          left(address, ${KEPT_KEY_CHARACTERS}) AS source_key FROM pg_temp.seen_content WHERE class LIKE 'reject:%'`
      : sql`CREATE TEMP TABLE unusable ON COMMIT DROP AS SELECT substring(class FROM 8) AS code, content,
          CASE WHEN class = 'reject:key_too_long' THEN left(source_key, ${KEPT_KEY_CHARACTERS}) ELSE source_key END AS source_key
          FROM pg_temp.seen WHERE class LIKE 'reject:%'`,
  );
  const codes = [...WITHOUT_CONTENT];
  const open = sql`
    SELECT reject_id, code, source_key,
      row_number() OVER (PARTITION BY code, source_key ORDER BY created_at, reject_id) AS copy
    FROM ${reject} WHERE job = ${job} AND source = ${source} AND resolved_at IS NULL AND code = ANY(${codes})
      AND ${raw(ownsKey(shard, "source_key"))}`;
  const resolved = await session.change(sql`
    UPDATE ${reject} AS t SET resolved_at = now(), _synced_at = now()
    FROM (${open}) AS o
    LEFT JOIN (SELECT code, source_key, count(*) AS copies FROM pg_temp.unusable GROUP BY code, source_key) AS f
      ON f.code = o.code AND coalesce(f.source_key, '') = coalesce(o.source_key, '')
    WHERE t.reject_id = o.reject_id AND o.copy > coalesce(f.copies, 0)`);
  load.touch("reject", resolved);
  const messages = sql`json_each_text(${JSON.stringify(REJECT_MESSAGES)}::json) AS m(code, message)`;
  await resolveRejects(
    load,
    sql`SELECT ${job} AS job, ${source} AS source, source_key FROM pg_temp.unusable WHERE code <> ALL(${codes})`,
  );
  const rejected = await session.change(sql`
    INSERT INTO ${reject}
      (reject_id, run_id, job, source, source_key, stage, code, message, details, created_at, _synced_at)
    SELECT gen_random_uuid(), ${load.runId}, ${job}, ${source}, f.source_key, 'input', f.code, m.message, NULL, now(), now()
    FROM (SELECT code, source_key, row_number() OVER (PARTITION BY code, source_key) AS copy FROM pg_temp.unusable) AS f
    JOIN ${messages} ON m.code = f.code
    LEFT JOIN (SELECT code, source_key, max(copy) AS copies FROM (${open}) AS o GROUP BY code, source_key) AS o
      ON o.code = f.code AND coalesce(o.source_key, '') = coalesce(f.source_key, '')
    WHERE f.copy > coalesce(o.copies, 0)`);
  load.touch("reject", rejected);
  await session.change(sql`
    INSERT INTO ${tableId(names, "lookup_answer")} (kind, content, outcome, reject, answered_at, call_number, is_first, _synced_at, _run_id)
    SELECT DISTINCT ON (f.content) ${kind}, f.content, 'rejected',
      jsonb_build_object('stage', 'input', 'code', f.code, 'message', m.message, 'details', NULL), now(), 0, true, now(), ${load.runId}
    FROM pg_temp.unusable AS f JOIN ${messages} ON m.code = f.code WHERE f.code <> ALL(${codes}) ORDER BY f.content
    ON CONFLICT (kind, content) DO NOTHING`);
}

/** Publishes the answers that the contents of seen rows have already. */
async function publishKnown(
  { session, names, spec }: ReadingContext,
  load: LoadContext,
  type: RowLookupType,
): Promise<void> {
  const [found] =
    await session.rows(sql`SELECT FROM pg_temp.seen WHERE prior IS NOT NULL OR class = 'reused' UNION ALL
    SELECT FROM pg_temp.due WHERE claim = 'other' LIMIT 1`);
  if (!found) return;
  const rows = (isMeant: RawBuilder<unknown>) => sql`
    SELECT ${spec.job} AS job, ${spec.source} AS source, s.source_key, false AS is_missing, a.*
    FROM pg_temp.seen AS s JOIN ${tableId(names, "lookup_answer")} AS a ON a.kind = ${spec.kind} AND a.content = s.content
    WHERE ${isMeant}`;
  const isReused = sql`s.class = 'reused'`;
  await publishAnswers(
    load,
    type,
    rows(sql`s.class NOT LIKE 'reject:%' AND s.class NOT IN ('waiting', 'suppressed')`),
  );
  await rejectRows(load, type, rows(isReused));
  await resolveRejects(
    load,
    sql`SELECT r.job, r.source, r.source_key FROM (${rows(isReused)}) AS r WHERE r.outcome <> 'rejected'`,
  );
}

/** Refreshes the statistics that commits are planned by, outside of the reading: its lock would make other shards wait. */
export function analyzeStatement(names: SchemaNames): string {
  return `ANALYZE (SKIP_LOCKED) ${tableText(names, "lookup_row")}, ${tableText(names, "lookup_due")}`;
}
