import type { Db } from "../db/db.ts";
import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { FeedCommit } from "./feed-commit.ts";
import { StopJobError } from "../../errors.ts";
import type { PushChange, PushCounts, PushList, PushOptions, PushOutcome, SegmentPush } from "./push.ts";
import { againIfErased } from "../erasure/suppression.ts";
import type { RunRef } from "../lookup.ts";
import { commitFeedWith, type FeedPlace } from "./feeds.ts";
import { type ForeignDatabase, PUSH_READING } from "../inputs/foreign-database.ts";
import { BLANKS } from "../inputs/input-fields.ts";
import { copyRows } from "../inputs/foreign-input.ts";
import { describeColumns, rawSelect } from "../inputs/input.ts";
import { findErasedPids } from "../erasure/keep-out-sql.ts";
import { quoteQualified, stateTableId, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readSuppression, requireSameEpoch, suppressedSql } from "../erasure/suppressed-sql.ts";

/** Begins the name of every table of what a query gave. */
export const PUSH_TABLES = "push_wanted_";

/** What is compared with each other. */
export interface Difference extends Omit<PushOptions, "again"> {
  readonly run: Pick<RunRef, "job">;
  /** {@link PushOptions.again} as a timestamp. */
  readonly againSince: RawBuilder<unknown> | null;
  /** Table of what the query gave. */
  readonly wanted: RawBuilder<unknown>;
  readonly state: RawBuilder<unknown>;
}

/** A push under way; `wanted` is in the data schema: unlogged, for this run alone. */
interface Push extends Difference {
  readonly db: Db;
  readonly run: RunRef;
}

/** Rows of the query, before PIDs are made distinct. */
export interface Given {
  readonly read: number;
  readonly missing: number;
  readonly suppressed: number;
  readonly wanted: number;
}

/** A row of the table of who is wanted that is nobody's: no PID is empty. */
const MARK = "";

/** Freezes what the query gives; `foreign` is null for a query over the warehouse itself. */
export async function openPush(db: Db, run: RunRef, options: PushOptions): Promise<SegmentPush> {
  const { names } = db;
  const foreign = db.foreignOf(options.source);
  const name = `${PUSH_TABLES}${createHash("sha256").update(run.job).digest("hex").slice(0, 24)}`;
  const push: Push = {
    ...options,
    againSince: momentOf(options.again),
    db,
    run,
    wanted: stateTableId(names, name),
    state: tableId(names, "segment_push_member"),
  };
  const create = `CREATE UNLOGGED TABLE ${quoteQualified([names.state, name])}`;
  const stage = async (session: Session) => {
    const suppression = await readSuppression(session, names, db.readErasureSecret);
    const found = await stageWanted(session, push, create, foreign);
    const isErased = suppression.key && suppressedSql(names, suppression.key).pid("service_pid");
    const suppressed = isErased ? await session.change(sql`DELETE FROM ${push.wanted} WHERE ${isErased}`) : 0;
    await requireSameEpoch(session, names, suppression);
    const [known] = await session.rows<{ since: string | null; againSince: string | null }>(sql`
      SELECT min(since) AS since, ${push.againSince ?? sql`NULL::timestamptz`} AS "againSince" FROM ${push.state}
      WHERE job = ${run.job} AND segment_id = ${push.segmentId} AND state = 'adding'`);
    return { since: null, againSince: null, ...known, given: { ...found, suppressed } };
  };
  const { given, since, againSince } = await againIfErased(() => db.transaction(run, stage));
  const open: Push = { ...push, againSince: againSince === null ? null : sql`${againSince}::timestamptz` };
  return {
    uncertainSince: since,
    againSince,
    settleUncertain: (commit, own) => settleUncertain(push, commit, own),
    count: () => db.transaction((session) => countPush(session, open, given)),
    next: (list, after, limit) =>
      db.transaction(async (session) => {
        await requireWanted(session, open);
        const rows = await session.rows<{ pid: string }>(sql`
          SELECT pid FROM (${listQuery(open, list)}) AS c WHERE pid > ${after} ORDER BY pid LIMIT ${limit}`);
        return rows.map(({ pid }) => pid);
      }),
    begin: (change, pids, at) =>
      againIfErased(() => db.transaction(run, (session) => begin(session, push, { change, pids, at }))),
    finish: (commit, change, pids, outcome) => finish(push, commit, { change, pids, outcome }),
    close: () =>
      db.transaction(run, async (session) => {
        await session.change(sql`DROP TABLE IF EXISTS ${push.wanted}`);
      }),
  };
}

/** Since when people are added again; null for never. */
export function momentOf(again: string | null): RawBuilder<unknown> | null {
  if (again === null) return null;
  // A moment that is still to come would never be reached.
  return again === "now" ? sql`now()` : sql`least(${again}::timestamptz, now())`;
}

/** Makes the table of who is wanted, by a `create` that lacks its columns; inside a transaction. */
export async function stageWanted(
  session: Session,
  { source, wanted }: Pick<Difference, "source" | "wanted">,
  create: string,
  foreign: ForeignDatabase | null,
): Promise<Omit<Given, "suppressed">> {
  await session.client.query("CREATE TEMP TABLE push_row (source_key text) ON COMMIT DROP");
  if (foreign) {
    await foreign.read(source, PUSH_READING, (rows) => copyRows(session, rows, "push_row"));
  } else {
    const columns = await describeColumns(session, source);
    const read = rawSelect(source, [], columns, { ranked: false, recent: null });
    await session.client.query(`INSERT INTO pg_temp.push_row ${read}`);
  }
  await session.change(sql`DROP TABLE IF EXISTS ${wanted}`);
  await session.client.query(`${create} (service_pid text COLLATE "C" PRIMARY KEY)`);
  const distinct = await session.change(sql`
    INSERT INTO ${wanted} SELECT DISTINCT source_key FROM pg_temp.push_row WHERE btrim(source_key, ${BLANKS}) <> ''`);
  await session.change(sql`INSERT INTO ${wanted} VALUES (${MARK})`);
  await session.change(sql`ANALYZE ${wanted}`);
  const [counts] = await session.rows<{ read: number; missing: number }>(sql`
    SELECT count(*) AS read, count(*) FILTER (WHERE coalesce(btrim(source_key, ${BLANKS}), '') = '') AS missing
    FROM pg_temp.push_row`);
  return { read: counts?.read ?? 0, missing: counts?.missing ?? 0, wanted: distinct };
}

/** The table of who is wanted is unlogged: a crash of the server empties it, and then everybody would seem to be unwanted. */
async function requireWanted(session: Session, { run, wanted }: Difference): Promise<void> {
  const found = await session.rows(sql`SELECT 1 AS found FROM ${wanted} WHERE service_pid = ${MARK}`);
  if (found.length > 0) return;
  throw new StopJobError(
    "work_table_lost",
    `${run.job}: the database has crashed meanwhile, and with it went the list of whom the query gave. Nobody was removed ` +
      "for it; run the job again, and it goes on where it was.",
  );
}

/** Who has to be added, or removed. */
export function listQuery(
  { run, segmentId, wanted, state, againSince }: Difference,
  list: PushList,
): RawBuilder<unknown> {
  const ofJob = sql`p.job = ${run.job} AND p.segment_id = ${segmentId}`;
  if (list === "removing") {
    return sql`
      SELECT p.service_pid AS pid FROM ${state} AS p
      WHERE ${ofJob} AND p.is_own AND p.state IN ('member', 'removing')
        AND NOT EXISTS (SELECT FROM ${wanted} AS w WHERE w.service_pid = p.service_pid)`;
  }
  // `since` stands while a call is under way, and after a crash.
  const isSettled = againSince ? sql`(p.since IS NULL AND p._synced_at >= ${againSince})` : sql`true`;
  if (list === "again") {
    return sql`
      SELECT p.service_pid AS pid FROM ${state} AS p JOIN ${wanted} AS w ON w.service_pid = p.service_pid
      WHERE ${ofJob} AND p.state = 'member' AND NOT ${isSettled}`;
  }
  return sql`
    SELECT w.service_pid AS pid FROM ${wanted} AS w
    WHERE w.service_pid <> ${MARK} AND NOT EXISTS (
      SELECT FROM ${state} AS p WHERE ${ofJob} AND p.service_pid = w.service_pid
        AND (p.state = 'member' OR (p.state = 'invalid' AND ${isSettled})))`;
}

/** Counts the difference. */
export async function countPush(session: Session, push: Difference, given: Given): Promise<PushCounts> {
  await requireWanted(session, push);
  const [counts] = await session.rows<{ toAdd: number; toRemove: number; own: number }>(sql`
    SELECT (SELECT count(*) FROM (${listQuery(push, "adding")}) AS a)
        + (SELECT count(*) FROM (${listQuery(push, "again")}) AS g) AS "toAdd",
      (SELECT count(*) FROM (${listQuery(push, "removing")}) AS r) AS "toRemove",
      (SELECT count(*) FROM ${push.state} AS p WHERE job = ${push.run.job} AND segment_id = ${push.segmentId} AND is_own
        AND state IN ('member', 'removing')) AS own`);
  const { toAdd = 0, toRemove = 0, own = 0 } = counts ?? {};
  const { read, missing, suppressed, wanted } = given;
  const unchanged = wanted - suppressed - toAdd;
  return { read, missing, suppressed, unchanged, toAdd, toRemove, own, duplicate: read - missing - wanted };
}

async function begin(
  session: Session,
  { db, run, segmentId, state }: Push,
  {
    change,
    pids,
    at,
  }: { readonly change: PushChange; readonly pids: readonly string[]; readonly at: string },
): Promise<readonly string[]> {
  const { names } = db;
  const suppression = await readSuppression(session, names, db.readErasureSecret);
  const { key } = suppression;
  const erased = key === null ? new Set<string>() : await findErasedPids(session, names, key, pids);
  const noted = pids.filter((pid) => !erased.has(pid));
  await session.change(sql`
    INSERT INTO ${state} AS p (job, segment_id, service_pid, state, is_own, since, run_id, _synced_at)
    SELECT ${run.job}, ${segmentId}, pid, ${change}, ${change === "removing"}, ${at}::timestamptz, ${run.runId}, now()
    FROM unnest(${[...noted]}::text[]) AS u(pid)
    ON CONFLICT (job, segment_id, service_pid) DO UPDATE SET
      state = CASE WHEN p.state = 'member' AND excluded.state = 'adding' THEN p.state ELSE excluded.state END,
      since = excluded.since, run_id = excluded.run_id, _synced_at = excluded._synced_at`);
  await requireSameEpoch(session, names, suppression);
  return noted;
}

async function finish(
  { db, run, segmentId, state }: Push,
  commit: FeedCommit,
  done: {
    readonly change: PushChange;
    readonly pids: readonly string[];
    readonly outcome: PushOutcome;
  },
): Promise<{ readonly rowsWritten: number }> {
  const { change, pids, outcome } = done;
  const { invalid, own, apiRequestId, rejectMessage } = outcome;
  const { rowsWritten } = await commitFeedWith(db, commit, async (place) => {
    const { session } = place;
    const ofBatch = sql`p.job = ${run.job} AND p.segment_id = ${segmentId} AND p.service_pid = ANY(${[...pids]}::text[])`;
    const isInvalid = sql`p.service_pid = ANY(${[...invalid]}::text[])`;
    const isOwn = own === null ? sql`true` : sql`p.service_pid = ANY(${[...own]}::text[])`;
    const written =
      change === "adding"
        ? await session.change(sql`
            UPDATE ${state} AS p SET state = CASE WHEN ${isInvalid} THEN 'invalid' ELSE 'member' END,
              is_own = NOT (${isInvalid}) AND (p.is_own OR (p.state = 'adding' AND ${isOwn})), since = NULL, run_id = ${run.runId},
              _synced_at = now()
            WHERE ${ofBatch}`)
        : await session.change(sql`DELETE FROM ${state} AS p WHERE ${ofBatch}`);
    place.touch("segment_push_member", written);
    if (change === "adding") await resolveRejects(place, run, pids, invalid);
    await rejectInvalid(place, run, invalid, { apiRequestId, rejectMessage });
    return null;
  });
  return { rowsWritten };
}

/** Resolves the rejects of those whom the service knows now. */
async function resolveRejects(
  place: FeedPlace,
  run: RunRef,
  pids: readonly string[],
  invalid: readonly string[],
): Promise<void> {
  const resolved = await place.session.change(sql`
    UPDATE ${tableId(place.names, "reject")} AS r SET resolved_at = now(), _synced_at = now()
    WHERE r.job = ${run.job} AND r.source = ${run.job} AND r.source_key = ANY(${[...pids]}::text[])
      AND r.source_key <> ALL(${[...invalid]}::text[]) AND r.code = 'unknown_pid' AND r.resolved_at IS NULL`);
  place.touch("reject", resolved);
}

async function rejectInvalid(
  place: FeedPlace,
  run: RunRef,
  invalid: readonly string[],
  { apiRequestId, rejectMessage }: Pick<PushOutcome, "apiRequestId" | "rejectMessage">,
): Promise<void> {
  if (invalid.length === 0) return;
  const { names, suppression } = place;
  const reject = tableId(names, "reject");
  const isErased = suppression.key ? suppressedSql(names, suppression.key).pid("pid") : sql`false`;
  const written = await place.session.change(sql`
    INSERT INTO ${reject} (reject_id, run_id, job, source, source_key, stage, code, message, details, api_request_id,
      created_at, _synced_at)
    SELECT gen_random_uuid(), ${run.runId}, ${run.job}, ${run.job}, pid, 'send', 'unknown_pid', ${rejectMessage}, NULL,
      ${apiRequestId}, now(), now()
    FROM unnest(${[...new Set(invalid)]}::text[]) AS u(pid)
    WHERE NOT (${isErased}) AND NOT EXISTS (
      SELECT FROM ${reject} AS r WHERE r.job = ${run.job} AND r.source_key = pid AND r.resolved_at IS NULL)`);
  place.touch("reject", written);
}

async function settleUncertain(
  { db, run, segmentId, state }: Push,
  commit: FeedCommit,
  own: ReadonlySet<string>,
): Promise<{ readonly rowsWritten: number }> {
  const { rowsWritten } = await commitFeedWith(db, commit, async ({ session }) => {
    const isUncertain = sql`p.job = ${run.job} AND p.segment_id = ${segmentId} AND p.state = 'adding'`;
    await session.change(sql`
      UPDATE ${state} AS p SET state = 'member', is_own = true, since = NULL, run_id = ${run.runId}, _synced_at = now()
      WHERE ${isUncertain} AND p.service_pid = ANY(${[...own]}::text[])`);
    // Those were the job's own before, and it was about to remove them, then to add them again: both can be done once more.
    await session.change(sql`
      UPDATE ${state} AS p SET state = 'removing', since = NULL, run_id = ${run.runId}, _synced_at = now()
      WHERE ${isUncertain} AND p.is_own`);
    // Of the others it isn't known: they are asked for again where the query still gives them.
    await session.change(sql`DELETE FROM ${state} AS p WHERE ${isUncertain}`);
    return null;
  });
  return { rowsWritten };
}
