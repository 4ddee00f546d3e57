import { type RawBuilder, sql } from "kysely";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { RunRef } from "../runs/run-ref.ts";
import { countDue, rankDue } from "./claims.ts";
import { type ClassCount, countsOf, type LookupCounts, type MatchHistory } from "./counts.ts";
import type { LookupSpec } from "./lookup.ts";
import { keepAnswers, type StoredJob, writeJob } from "./parameters.ts";
import { dropSeen, type ReadingContext, type SeenInput, seeInput } from "./see-input.ts";
import { storeInput } from "./store-input.ts";

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
    seen.job.decision === "undecided"
      ? changed + (await countWaitingAnswers(context, seen.job)) || (await countBought(context, seen.job))
      : 0;
  await rankDue(session, names, spec, run, dueContents(context));
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

/** Counts the answered rows that wait for their PID: with it, they would be sent again. */
async function countWaitingAnswers(
  { session, names, spec }: ReadingContext,
  { formerKind }: StoredJob,
): Promise<number> {
  if (spec.pidFrom === null) return 0;
  const [found] = await session.rows<{ rows: number }>(sql`
    SELECT count(*) AS rows FROM pg_temp.seen AS s JOIN ${tableId(names, "lookup_answer")} AS a
      ON a.kind = ${formerKind} AND a.content = s.prior_content AND a.outcome <> 'rejected'
    WHERE s.class = 'waiting'`);
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
  await writeJob(session, names, spec, formerKind, run.runId);
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
