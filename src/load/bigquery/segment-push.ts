import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { FeedCommit } from "../feed-warehouse.ts";
import type {
  PushChange,
  PushCounts,
  PushList,
  PushOptions,
  PushOutcome,
  SegmentPush,
} from "../push-warehouse.ts";
import type { Suppression } from "../suppression.ts";
import type { RunRef } from "../warehouse.ts";
import { commitFeedWith, type FeedContext } from "./feeds.ts";
import { PUSH_READING, type Reading } from "../foreign-database.ts";
import { type OpenedInput, openLocalInput } from "./foreign-input.ts";
import { findErasedPids } from "./keep-out.ts";
import { BLANKS } from "../input-fields.ts";
import { type DatasetNames, quoteLiteral, tableId, tableText } from "./names.ts";
import { inRunTransaction, requireLock } from "./run-transaction.ts";
import { NOW, type Session } from "./session.ts";
import { ownTable } from "./own-table.ts";
import { dropTable, STAGING_PREFIX } from "./staging.ts";
import { declareKey, requireSameEpoch, suppressedText } from "./suppression.ts";

/** What is compared with each other; tables as they stand in statements. */
export interface Difference {
  /** {@link PushOptions.again} as an expression. */
  readonly againSince: string | null;
  /** What the query gave, for this push alone. */
  readonly wanted: string;
  readonly state: string;
  /** Condition on a row `p` of `state`. */
  readonly ofJob: string;
}

/** A push under way. */
interface Push extends PushOptions, Difference {
  readonly context: FeedContext;
  readonly run: RunRef;
}

/** Rows of the query, before PIDs are made distinct. */
export interface Given {
  readonly total: number;
  readonly missing: number;
  readonly suppressed: number;
  readonly wanted: number;
}

/** Freezes what the query gives. */
export async function openPush(
  context: FeedContext,
  run: RunRef,
  options: PushOptions,
  openForeign: ((reading: Reading) => Promise<OpenedInput>) | null,
): Promise<SegmentPush> {
  const { session } = context;
  const { names } = session;
  const hash = createHash("sha256").update(run.job).digest("hex").slice(0, 24);
  const name = await ownTable(session, run, `${STAGING_PREFIX}push_${hash}_`);
  const push: Push = {
    ...options,
    againSince: momentOf(options.again),
    context,
    run,
    wanted: tableText(names, "data", name),
    state: tableText(names, "data", "segment_push_member"),
    ofJob: `p.job = ${quoteLiteral(run.job)} AND p.segment_id = ${quoteLiteral(options.segmentId)}`,
  };
  const opened = openForeign
    ? await openForeign(PUSH_READING)
    : await openLocalInput(session, { input: options.source, type: PUSH_READING.type }, PUSH_READING);
  const given = await stageAndClose(push, opened);
  await requireLock(session, run).catch(async (error: unknown) => {
    await dropTable(session, name);
    throw error;
  });
  const [known] = await session.rows<{ since: string | null; againSince: string | null }>(sql`
    SELECT (SELECT MIN(p.since) FROM ${sql.raw(`${push.state} AS p WHERE ${push.ofJob} AND p.state = 'adding'`)}) AS since,
      ${sql.raw(push.againSince ?? "CAST(NULL AS TIMESTAMP)")} AS againSince`);
  const againSince = known?.againSince ?? null;
  const open = { ...push, againSince: againSince === null ? null : `TIMESTAMP ${quoteLiteral(againSince)}` };
  return {
    uncertainSince: known?.since ?? null,
    againSince,
    settleUncertain: (commit, own) => settleUncertain(push, commit, own),
    count: () => countPush(session, open, given),
    async next(list, after, limit) {
      const rows = await session.rows<{ pid: string }>(sql`
        SELECT pid FROM (${sql.raw(listQuery(open, list))}) AS c WHERE pid > ${after}
        ORDER BY pid LIMIT ${sql.raw(String(limit))}`);
      return rows.map(({ pid }) => pid);
    },
    begin: (change, pids, at) => begin(push, { change, pids, at }),
    finish: (commit, change, pids, outcome) => finish(push, commit, { change, pids, outcome }),
    close: () => dropTable(session, name),
  };
}

async function stageAndClose(push: Push, opened: OpenedInput): Promise<Given> {
  try {
    return await stageWanted(push, opened.rawRows);
  } finally {
    await opened.close();
  }
}

/** Makes the table of who is wanted; anew when somebody was erased meanwhile. */
async function stageWanted({ context, wanted }: Push, read: string): Promise<Given> {
  const { session, suppression } = context;
  for (;;) {
    const known = await suppression.refresh();
    const create = `CREATE OR REPLACE TABLE ${wanted}
      OPTIONS (expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 14 DAY))`;
    const { statements, given: figures } = stageStatements(session.names, known, { read, wanted, create });
    const [given] = await session.script<Given>(
      statements,
      sql<Given>`SELECT ${sql.raw(figures)} FROM push_row`,
    );
    if ((await suppression.refresh()).epoch === known.epoch) {
      return given ?? { total: 0, missing: 0, suppressed: 0, wanted: 0 };
    }
  }
}

/** Statements of a script that make the table of who is wanted, and then the columns of {@link Given}, from `push_row`. */
export function stageStatements(
  names: DatasetNames,
  { key }: Suppression,
  { read, wanted, create }: { readonly read: string; readonly wanted: string; readonly create: string },
): { readonly statements: readonly RawBuilder<unknown>[]; readonly given: string } {
  const erased =
    key === null
      ? []
      : [
          sql.raw(`DELETE FROM ${wanted} WHERE ${suppressedText(names).pid("service_pid")}`),
          sql.raw("SET _etl_suppressed = @@row_count"),
        ];
  return {
    statements: [
      ...(key === null ? [] : declareKey(key).map((variable) => sql`DECLARE ${variable}`)),
      sql`DECLARE _etl_wanted INT64 DEFAULT 0`,
      sql`DECLARE _etl_suppressed INT64 DEFAULT 0`,
      sql.raw(`CREATE TEMP TABLE push_row AS ${read}`),
      sql.raw(`${create} AS
        SELECT DISTINCT source_key AS service_pid FROM push_row WHERE TRIM(source_key, ${quoteLiteral(BLANKS)}) != ''`),
      sql.raw(`SET _etl_wanted = (SELECT COUNT(*) FROM ${wanted})`),
      ...erased,
    ],
    given: `COUNT(*) AS total, COUNTIF(TRIM(IFNULL(source_key, ''), ${quoteLiteral(BLANKS)}) = '') AS missing,
      _etl_suppressed AS suppressed, _etl_wanted AS wanted`,
  };
}

/** Since when people are added again, as an expression; null for never. */
export function momentOf(again: string | null): string | null {
  if (again === null) return null;
  // A moment that is still to come would never be reached.
  return again === "now"
    ? "CURRENT_TIMESTAMP()"
    : `LEAST(TIMESTAMP ${quoteLiteral(again)}, CURRENT_TIMESTAMP())`;
}

/** Who has to be added, or removed. */
export function listQuery({ wanted, state, ofJob, againSince }: Difference, list: PushList): string {
  if (list === "removing") {
    return `SELECT p.service_pid AS pid FROM ${state} AS p
      WHERE ${ofJob} AND p.is_own AND p.state IN ('member', 'removing')
        AND p.service_pid NOT IN (SELECT w.service_pid FROM ${wanted} AS w)`;
  }
  // `since` stands while a call is under way, and after a crash.
  const isSettled = againSince ? `(p.since IS NULL AND p._synced_at >= ${againSince})` : "TRUE";
  if (list === "again") {
    return `SELECT p.service_pid AS pid FROM ${state} AS p
      WHERE ${ofJob} AND p.state = 'member' AND NOT ${isSettled}
        AND p.service_pid IN (SELECT w.service_pid FROM ${wanted} AS w)`;
  }
  return `SELECT w.service_pid AS pid FROM ${wanted} AS w
    WHERE w.service_pid NOT IN (SELECT p.service_pid FROM ${state} AS p
      WHERE ${ofJob} AND (p.state = 'member' OR (p.state = 'invalid' AND ${isSettled})))`;
}

/** What {@link changeColumns} gives. */
export interface Changes {
  readonly toAdd: number;
  readonly toRemove: number;
  readonly own: number;
}

/** Columns that count the difference. */
export function changeColumns(push: Difference): string {
  return `(SELECT COUNT(*) FROM (${listQuery(push, "adding")}) AS a)
        + (SELECT COUNT(*) FROM (${listQuery(push, "again")}) AS g) AS toAdd,
      (SELECT COUNT(*) FROM (${listQuery(push, "removing")}) AS r) AS toRemove,
      (SELECT COUNT(*) FROM ${push.state} AS p WHERE ${push.ofJob} AND p.is_own
        AND p.state IN ('member', 'removing')) AS own`;
}

async function countPush(session: Session, push: Push, given: Given): Promise<PushCounts> {
  const [changes] = await session.rows<Changes>(sql.raw(`SELECT ${changeColumns(push)}`));
  return pushCounts(given, changes ?? { toAdd: 0, toRemove: 0, own: 0 });
}

/** The figures of a push. */
export function pushCounts(
  { total: read, missing, suppressed, wanted }: Given,
  { toAdd, toRemove, own }: Changes,
): PushCounts {
  const unchanged = wanted - suppressed - toAdd;
  return { read, missing, suppressed, unchanged, toAdd, toRemove, own, duplicate: read - missing - wanted };
}

/** What is noted of a change before it is sent. */
interface Begun {
  readonly change: PushChange;
  readonly pids: readonly string[];
  readonly at: string;
}

function begin(push: Push, begun: Begun): Promise<readonly string[]> {
  const { session, suppression } = push.context;
  return suppression.within(async (known) => {
    const { key } = known;
    const erased = key === null ? new Set<string>() : await findErasedPids(session, key, begun.pids);
    const pids = begun.pids.filter((pid) => !erased.has(pid));
    await note(push, { ...begun, pids }, known);
    return pids;
  });
}

async function note(
  { context, run, segmentId, ofJob }: Push,
  { change, pids, at }: Begun,
  known: Suppression,
): Promise<void> {
  const { names } = context.session;
  const state = tableId(names, "data", "segment_push_member");
  const isOwn = sql.raw(change === "removing" ? "TRUE" : "FALSE");
  const moved =
    change === "adding" ? sql`IF(p.state = 'member', p.state, 'adding')` : sql.raw(quoteLiteral(change));
  await inRunTransaction(context.session, run, {
    declare: [
      sql`_etl_pids ARRAY<STRING> DEFAULT ${[...pids]}`,
      sql`_etl_at TIMESTAMP DEFAULT CAST(${at} AS TIMESTAMP)`,
    ],
    statements: [
      requireSameEpoch(names, known),
      sql`UPDATE ${state} AS p SET state = ${moved}, since = _etl_at, run_id = ${run.runId}, _synced_at = ${NOW}
        WHERE ${sql.raw(ofJob)} AND p.service_pid IN UNNEST(_etl_pids)`,
      sql`INSERT INTO ${state} (job, segment_id, service_pid, state, is_own, since, run_id, _synced_at)
        SELECT ${run.job}, ${segmentId}, pid, ${change}, ${isOwn}, _etl_at, ${run.runId}, ${NOW}
        FROM (SELECT DISTINCT pid FROM UNNEST(_etl_pids) AS pid)
        WHERE pid NOT IN (SELECT p.service_pid FROM ${state} AS p WHERE ${sql.raw(ofJob)})`,
    ],
  });
}

/** What has become of a change. */
interface Finished {
  readonly change: PushChange;
  readonly pids: readonly string[];
  readonly outcome: PushOutcome;
}

async function finish(
  { context, run, ofJob }: Push,
  commit: FeedCommit,
  { change, pids, outcome }: Finished,
): Promise<{ readonly rowsWritten: number }> {
  const { invalid, own, apiRequestId, rejectMessage } = outcome;
  const { rowsWritten } = await commitFeedWith(context, commit, {
    rows: [],
    tables: ["segment_push_member", "reject"],
    declare: [
      sql`_etl_pids ARRAY<STRING> DEFAULT ${[...pids]}`,
      sql`_etl_invalid ARRAY<STRING> DEFAULT ${[...invalid]}`,
      sql`_etl_own ARRAY<STRING> DEFAULT ${[...(own ?? [])]}`,
    ],
    statements: ({ names, suppression, count }) => {
      const state = tableId(names, "data", "segment_push_member");
      const ofBatch = sql`${sql.raw(ofJob)} AND p.service_pid IN UNNEST(_etl_pids)`;
      const isOwn = sql.raw(own === null ? "TRUE" : "p.service_pid IN UNNEST(_etl_own)");
      const moved =
        change === "adding"
          ? sql`UPDATE ${state} AS p SET state = IF(p.service_pid IN UNNEST(_etl_invalid), 'invalid', 'member'),
              is_own = p.service_pid NOT IN UNNEST(_etl_invalid) AND (p.is_own OR (p.state = 'adding' AND ${isOwn})),
              since = NULL, run_id = ${run.runId}, _synced_at = ${NOW}
            WHERE ${ofBatch}`
          : sql`DELETE FROM ${state} AS p WHERE ${ofBatch}`;
      const reject = tableId(names, "data", "reject");
      // Of those whom the service knows now.
      const resolved = sql`UPDATE ${reject} AS r SET resolved_at = ${NOW}, _synced_at = ${NOW}
        WHERE r.job = ${run.job} AND r.source = ${run.job} AND r.code = 'unknown_pid' AND r.resolved_at IS NULL
          AND r.source_key IN UNNEST(_etl_pids) AND r.source_key NOT IN UNNEST(_etl_invalid)`;
      const done = [
        moved,
        count("segment_push_member"),
        ...(change === "adding" ? [resolved, count("reject")] : []),
      ];
      if (invalid.length === 0) return done;
      const isErased = sql.raw(suppression.key === null ? "FALSE" : suppressedText(names).pid("pid"));
      const rejected = sql`INSERT INTO ${reject} (reject_id, run_id, job, source, source_key, stage, code, message, details,
          api_request_id, created_at, _synced_at)
        SELECT GENERATE_UUID(), ${run.runId}, ${run.job}, ${run.job}, pid, 'send', 'unknown_pid', ${rejectMessage}, NULL,
          CAST(${apiRequestId} AS STRING), ${NOW}, ${NOW}
        FROM (SELECT DISTINCT pid FROM UNNEST(_etl_invalid) AS pid)
        WHERE NOT (${isErased}) AND pid NOT IN (SELECT r.source_key FROM ${reject} AS r
          WHERE r.job = ${run.job} AND r.resolved_at IS NULL AND r.source_key IS NOT NULL)`;
      return [...done, rejected, count("reject")];
    },
    outcome: "1 AS done",
    read: () => null,
  });
  return { rowsWritten };
}

async function settleUncertain(
  { context, run, ofJob, state: stateText }: Push,
  commit: FeedCommit,
  own: ReadonlySet<string>,
): Promise<{ readonly rowsWritten: number }> {
  // Of `own` only those: others may have added any number of people meanwhile, and a variable holds 1 MB.
  const uncertain = await context.session.rows<{ pid: string }>(
    sql.raw(`SELECT p.service_pid AS pid FROM ${stateText} AS p WHERE ${ofJob} AND p.state = 'adding'`),
  );
  const found = uncertain.map(({ pid }) => pid).filter((pid) => own.has(pid));
  const { rowsWritten } = await commitFeedWith(context, commit, {
    rows: [],
    tables: [],
    declare: [sql`_etl_own ARRAY<STRING> DEFAULT ${found}`],
    statements: ({ names }): readonly RawBuilder<unknown>[] => {
      const state = tableId(names, "data", "segment_push_member");
      const isUncertain = sql.raw(`${ofJob} AND p.state = 'adding'`);
      return [
        sql`UPDATE ${state} AS p SET state = 'member', is_own = TRUE, since = NULL, run_id = ${run.runId}, _synced_at = ${NOW}
          WHERE ${isUncertain} AND p.service_pid IN UNNEST(_etl_own)`,
        // Those were the job's own before, and it was about to remove them, then to add them again: both can be done once more.
        sql`UPDATE ${state} AS p SET state = 'removing', since = NULL, run_id = ${run.runId}, _synced_at = ${NOW}
          WHERE ${isUncertain} AND p.is_own`,
        // Of the others it isn't known: they are asked for again where the query still gives them.
        sql`DELETE FROM ${state} AS p WHERE ${isUncertain}`,
      ];
    },
    outcome: "1 AS done",
    read: () => null,
  });
  return { rowsWritten };
}
