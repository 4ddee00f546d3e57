import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableText } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readErasureKey } from "../erasure/key.ts";
import { erasedSql } from "../erasure/subjects.ts";
import { countInDoubt, touchTables } from "../ledger/ledger.ts";
import {
  countDue,
  countOpen,
  markSent,
  type OpenClaims,
  rankDue,
  readClaims,
  readFirstDue,
  releaseClaims,
} from "./claims.ts";
import { type ClassCount, countsOf, type LookupCounts, type MatchHistory } from "./counts.ts";
import type { LookupRecord, LookupSpec } from "./lookup.ts";
import { keepAnswers, type StoredJob, writeJob } from "./parameters.ts";
import { isRowOf } from "./content.ts";
import { dropSeen, type ReadingContext, seeInput, type SeenInput } from "./see-input.ts";
import { storeInput } from "./store-input.ts";
import type { RunRef } from "../runs/fence.ts";

const NOT_DUE = sql`(class LIKE 'reject:%' OR class IN ('unchanged', 'reused', 'waiting', 'suppressed'))`;

/** Contents that are due, as {@link rankDue} takes them. */
function dueContents({ session, spec: { type, job, source } }: ReadingContext): RawBuilder<unknown> {
  const rejected = sql`(SELECT x.source_key FROM ${session.table("reject")} AS x
    WHERE x.job = ${job} AND x.source = ${source} AND x.resolved_at IS NULL AND x.source_key IS NOT NULL)`;
  return type === "validate_emails"
    ? sql`SELECT content, ctid AS seen_at, sent_pid, rank, rows, prior, address IN ${rejected} AS was_rejected
        FROM pg_temp.seen_content WHERE NOT ${NOT_DUE}`
    : sql`SELECT content, min(ctid) AS seen_at, min(sent_pid COLLATE "C") AS sent_pid, min(rank) AS rank, count(*) AS rows,
          min(prior) AS prior, bool_or(source_key IN ${rejected}) AS was_rejected
        FROM pg_temp.seen WHERE NOT ${NOT_DUE} GROUP BY content`;
}

/**
 * Reads the input of a job and decides what is due: a content that a present row has, and no fresh answer does. A run stores what
 * it read, claims what is due and publishes the answers that exist already; a plan writes nothing.
 */
async function selectDue(context: ReadingContext): Promise<LookupCounts> {
  const { session, spec, run } = context;
  let seen = await seeInput(context);
  if (run && seen.job.decision === "keep" && seen.job.formerKind !== null) {
    seen = await keep(context, seen, seen.job.formerKind, run);
  }
  let classes = await countClasses(context);
  const changed = classes.find((one) => one.class === "parameters_changed")?.rows ?? 0;
  const parametersChanged =
    seen.job.decision === "undecided"
      ? changed + (await countWaitingAnswers(context, seen.job)) || (await countBought(context, seen.job))
      : 0;
  if (spec.resend && spec.shard === null && seen.job.decision === "undecided" && parametersChanged === 0) {
    // The new parameters buy nothing, so that there is nothing to decide, and the resend begins.
    await dropSeen(session);
    seen = await seeInput({ ...context, spec: { ...spec, acceptParameters: "resend" } });
    classes = await countClasses(context);
  }
  await rankDue(session, spec, run, dueContents(context));
  const gone = run && parametersChanged === 0 ? await storeInput(context, seen, run) : 0;
  const due = await countDue(session);
  return countsOf(spec, {
    classes,
    due,
    quiet: seen.quiet,
    gone,
    parametersChanged,
    unusableKeys: spec.type === "validate_emails" ? await countUnusableKeys(session) : 0,
    waitingRecords: run === null ? await countWaiting(session, spec) : 0,
    history: due.length === 0 ? NO_HISTORY : await readHistory(session, spec.kind),
  });
}

/** Counts the rows of all shards that were answered with other request parameters: none of them may send before the user has decided. */
async function countBought({ session, spec }: ReadingContext, { formerKind }: StoredJob): Promise<number> {
  if (spec.shard === null || formerKind === spec.kind) return 0;
  const [rows = 0] = await session.pluck<number>(sql`
    SELECT count(*) FROM ${session.table("lookup_row")} AS r JOIN ${session.table("lookup_answer")} AS a
      ON a.kind = ${formerKind} AND a.content = r.content AND a.outcome <> 'rejected'
    WHERE r.job = ${spec.job} AND r.source = ${spec.source} AND r.missing_since IS NULL`);
  return rows;
}

/** Counts the answered rows that wait for their PID: with it, they would be sent again. */
async function countWaitingAnswers(
  { session, spec }: ReadingContext,
  { formerKind }: StoredJob,
): Promise<number> {
  if (spec.pidFrom === null) return 0;
  const [rows = 0] = await session.pluck<number>(sql`
    SELECT count(*) FROM pg_temp.seen AS s JOIN ${session.table("lookup_answer")} AS a
      ON a.kind = ${formerKind} AND a.content = s.prior_content AND a.outcome <> 'rejected'
    WHERE s.class = 'waiting'`);
  return rows;
}

/** `--accept-parameters keep`: decided for all shards, so the whole input is read. */
async function keep(
  context: ReadingContext,
  seen: SeenInput,
  formerKind: string,
  run: RunRef,
): Promise<SeenInput> {
  const { session, spec } = context;
  if (spec.shard !== null) {
    await dropSeen(session);
    await seeInput({ ...context, spec: { ...spec, shard: null } });
  }
  await keepAnswers(session, spec, formerKind);
  await dropSeen(session);
  await writeJob(session, spec, formerKind, run.runId);
  const again = await seeInput(context);
  return { ...again, job: seen.job };
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
  const [addresses = 0] = await session.pluck<number>(sql`
    SELECT count(*) FROM pg_temp.seen_address
    WHERE (copy > 1 OR source_key IS NULL) AND email_address IS NOT NULL AND NOT is_erased`);
  return addresses;
}

/** Counts the distinct records behind waiting rows, as far as known without their PIDs. */
async function countWaiting(session: Session, { type, pidFrom }: LookupSpec): Promise<number> {
  if (type === "validate_emails" || pidFrom === null) return 0;
  const [records = 0] = await session.pluck<number>(
    sql`SELECT count(DISTINCT content) FROM pg_temp.seen WHERE class = 'waiting'`,
  );
  return records;
}

const NO_HISTORY: MatchHistory = {
  withPid: { answered: 0, matched: 0 },
  others: { answered: 0, matched: 0 },
};

/** Days of answers that an estimate is made from. */
const HISTORY_DAYS = 90;

async function readHistory(session: Session, kind: string): Promise<MatchHistory> {
  const rows = await session.rows(
    session.query
      .selectFrom("state.lookup_answer")
      .select(({ fn }) => [
        sql<boolean>`sent_service_pid IS NOT NULL`.as("with_pid"),
        fn.countAll<number>().as("answered"),
        fn.countAll<number>().filterWhere("outcome", "=", "matched").as("matched"),
      ])
      .where("kind", "=", kind)
      .where(sql<boolean>`answered_at > now() - make_interval(days => ${HISTORY_DAYS})`)
      .where("outcome", "<>", "rejected")
      .groupBy("with_pid"),
  );
  const of = (withPid: boolean) => {
    const { answered = 0, matched = 0 } = rows.find((row) => row.with_pid === withPid) ?? {};
    return { answered, matched };
  };
  return { withPid: of(true), others: of(false) };
}

/** Records that a run claimed. */
export interface LookupSelection {
  readonly counts: LookupCounts;
  /** Warehouse rows written by the reading. */
  readonly rowsWritten: number;
  /** Pages of claimed records, ordered by content. */
  records(): AsyncIterable<readonly LookupRecord[]>;
  /** Counts the claims without an answer. */
  countOpen(): Promise<OpenClaims>;
  /** Marks records as sent although no outcome followed. */
  markSent(records: readonly LookupRecord[]): Promise<void>;
  /** Releases the claims that are left. Idempotent. */
  close(): Promise<void>;
}

/** Records per page. */
const PAGE_SIZE = 2000;

/** Context of a reading in a transaction. */
export async function contextOf(
  db: Db,
  session: Session,
  spec: LookupSpec,
  more: Partial<Pick<ReadingContext, "run" | "touch" | "only">> = {},
): Promise<ReadingContext> {
  const key = await readErasureKey(session, db.readErasureSecret);
  return {
    session,
    spec,
    foreign: db.foreignOf(spec.input),
    erased: key && erasedSql(session.names, key),
    run: null,
    touch: () => {},
    only: null,
    ...more,
  };
}

/** Counts what is due, and reads the first `count` records in the order of sending; writes nothing. */
export function previewLookup(
  db: Db,
  spec: LookupSpec,
  count: number,
): Promise<{ readonly counts: LookupCounts; readonly records: readonly LookupRecord[] }> {
  return db.preview(async (session) => {
    const counts = await selectDue(await contextOf(db, session, spec));
    return { counts, records: count === 0 ? [] : await readFirstDue(session, spec, count) };
  });
}

/** Rows from which on statistics are worth their time: without them, a join of a few thousand rows takes seconds. */
const MANY_ROWS = 500;

/**
 * Refreshes the statistics that joins of the lookup tables are planned by: after a reading, for its commits, and after these, for the
 * coverage. In a transaction of its own: its lock would make other shards wait.
 */
async function analyzeLookups(db: Db): Promise<void> {
  const [row, due, answer] = ["lookup_row", "lookup_due", "lookup_answer"].map((table) =>
    tableText(db.names, table),
  );
  // A larger sample takes longer than it saves.
  await db.transaction(({ client }) =>
    client.query(`SET LOCAL default_statistics_target = 10;
      ANALYZE (SKIP_LOCKED) ${row} (job, source, content, missing_since), ${due} (kind, content), ${answer} (kind, content, answered_at)`),
  );
}

/** Reads the input, claims what is due and publishes answers that exist already, in one transaction. */
export async function selectLookup(db: Db, spec: LookupSpec, run: RunRef): Promise<LookupSelection> {
  const { counts, rowsWritten, recordsInDoubt } = await db.transaction(run, async (session) => {
    const written = new Map<string, number>();
    const touch = (table: string, rows: number) => void written.set(table, (written.get(table) ?? 0) + rows);
    const before = await countInDoubt(session, run);
    const read = await selectDue(await contextOf(db, session, spec, { run, touch }));
    const tables = [...written].flatMap(([table, rows]) => (rows > 0 ? [table] : []));
    await touchTables(session, run, tables);
    const rows = [...written.values()].reduce((sum, own) => sum + own, 0);
    return { counts: read, recordsInDoubt: before, rowsWritten: rows };
  });
  if (Math.max(counts.due, rowsWritten) > MANY_ROWS) await analyzeLookups(db);
  async function* records(): AsyncGenerator<readonly LookupRecord[]> {
    let after = "";
    let read = 0;
    for (;;) {
      const page = await db.transaction(run, (session) =>
        readClaims(session, spec, run, { after, size: PAGE_SIZE }),
      );
      const last = page.at(-1);
      if (!last) return;
      const before = read;
      yield page.map((record, i) =>
        before + i < recordsInDoubt ? { ...record, mayBeBilled: true } : record,
      );
      read += page.length;
      after = last.content;
    }
  }
  return {
    counts,
    rowsWritten,
    records,
    countOpen: () => db.transaction((session) => countOpen(session, spec.kind, run)),
    markSent: (sent) =>
      db.transaction(run, (session) =>
        markSent(
          session,
          spec.kind,
          run,
          sent.map(({ content }) => content),
        ),
      ),
    close: () => db.transaction(run, (session) => releaseClaims(session, spec.kind, run)),
  };
}

/** Coverage of an input, in rows; for validate_emails in distinct addresses. */
export interface Coverage {
  readonly source: string;
  readonly inputRows: number;
  readonly answered: number;
  readonly matched: number;
  readonly unmatched: number;
  readonly rejected: number;
  readonly due: number;
  readonly oldestAnswerAt: string | null;
}

/** Counts what a job has answered of its input. @param unusable rows without a usable key, which have no content */
export async function readCoverage(db: Db, spec: LookupSpec, unusable: number): Promise<Coverage> {
  await analyzeLookups(db);
  return await db.transaction(async (session) => {
    const counts = await session.one<Omit<Coverage, "source" | "answered">>(sql`
      SELECT count(*) + ${unusable}::bigint AS "inputRows", count(*) FILTER (WHERE a.outcome = 'matched') AS matched,
        count(*) FILTER (WHERE a.outcome = 'unmatched') AS unmatched,
        count(*) FILTER (WHERE a.outcome = 'rejected') + ${unusable}::bigint AS rejected,
        count(d.content) AS due, min(a.answered_at)::text AS "oldestAnswerAt"
      FROM (${contentsOf(session, spec)}) AS r
      LEFT JOIN ${session.table("lookup_answer")} AS a ON a.kind = ${spec.kind} AND a.content = r.content
      LEFT JOIN ${session.table("lookup_due")} AS d ON d.kind = ${spec.kind} AND d.content = r.content`);
    return { source: spec.source, answered: counts.matched + counts.unmatched, ...counts };
  });
}

/** Content of each present row; for validate_emails each address once. */
function contentsOf(session: Session, spec: LookupSpec): RawBuilder<unknown> {
  const rows = sql`${session.table("lookup_row")} AS r`;
  const isPresent = sql`${sql.raw(isRowOf(spec))} AND r.missing_since IS NULL`;
  return spec.type === "validate_emails"
    ? sql`SELECT DISTINCT convert_to(e.email_address, 'UTF8') AS content FROM ${rows}
        JOIN ${session.table("input_email")} AS e ON e.source = r.source AND e.source_key = r.source_key WHERE ${isPresent}`
    : sql`SELECT r.content FROM ${rows} WHERE ${isPresent}`;
}

/** The coverage that the job's last run recorded, for a run that changed nothing; null without one. */
export function lastCoverage(db: Db, { job, source }: LookupSpec, shard: string): Promise<Coverage | null> {
  return db.transaction(async (session) => {
    const [last] = await session.rows(
      session.query
        .selectFrom("ops.input_coverage")
        .select(["source", "input_rows as inputRows", "answered", "matched", "unmatched", "rejected", "due"])
        .select(sql<string | null>`oldest_answer_at::text`.as("oldestAnswerAt"))
        .where("job", "=", job)
        .where("source", "=", source)
        .where("shard", "=", shard)
        .orderBy("_synced_at", "desc")
        .limit(1),
    );
    return last ?? null;
  });
}
