import { sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import { codeOf } from "../../errors.ts";
import type { CommitResult, LookupAnswer, LookupCommit, LookupReject, RowMove } from "../lookup.ts";
import type { CounterDelta } from "../ledger/books.ts";
import { forgetDoubts } from "../ledger/call-in-doubt.ts";
import { giveBack } from "../ledger/give-back.ts";
import { addCounters, settleLedger, touchTables, upsertDrift } from "../ledger/ledger.ts";
import { keepOut } from "../erasure/keep-out-sql.ts";
import { loadAnswers } from "./load-answers.ts";
import { loadPersons } from "./load-persons.ts";
import type { LookupPlace } from "./load-place.ts";
import { loadRejects } from "./load-rejects.ts";
import { loadValidations } from "./load-validations.ts";
import type { Db } from "../db/db.ts";
import { isDataFault } from "../db/recovery.ts";
import { stateTableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readSuppression } from "../erasure/suppressed-sql.ts";

/**
 * Commits a group of calls atomically and retries conflicts with other loaders. A record with a value
 * that the database rejects becomes a reject; the others are loaded.
 */
export async function commitLookup(db: Db, commit: LookupCommit): Promise<CommitResult> {
  try {
    return await commitWhole(db, commit);
  } catch (error) {
    if (isDataFault(error)) return await isolate(db, commit, error);
    throw error;
  }
}

async function commitWhole(db: Db, commit: LookupCommit): Promise<CommitResult> {
  const { names } = db;
  const { spec } = commit;
  // The committing run holds the lock; the rows belong to the run that sent the calls.
  const asker = { ...commit.run, ...commit.onBehalfOf };
  /** Result of an earlier attempt, which committed if its calls are in the ledger. */
  let earlier: CommitResult | null = null;
  const work = async (session: Session): Promise<CommitResult> => {
    const written = new Map<string, number>();
    const place: LookupPlace = {
      session,
      names,
      runId: asker.runId,
      rows: stateTableId(names, commit.workTable),
      touch: (table, rows) => void written.set(table, (written.get(table) ?? 0) + rows),
    };
    const newCalls = await settleLedger(session, names, asker, commit.ledger);
    // A call in the ledger is already loaded: the reply to an earlier COMMIT was lost.
    const isLoaded = commit.ledger.length > 0 && newCalls.size === 0;
    if (isLoaded) {
      if (earlier) return earlier;
      // The run that sent it has counted its rows, and may have dropped their table.
      const moves = commit.onBehalfOf ? [] : await findMoves(place, commit);
      return { rowsWritten: 0, moves, notLoadable: [] };
    }
    const known = new Set(commit.ledger.map((entry) => entry.callId));
    const newAnswers = commit.answers.filter((a) => !known.has(a.callId) || newCalls.has(a.callId));
    const suppression = await readSuppression(session, names, db.readErasureSecret);
    const received = { answers: newAnswers, rejects: commit.rejects };
    const { answers, rejects } = suppression.key
      ? await keepOut(place, suppression.key, spec, received)
      : received;
    if (spec.type === "enrich") await loadPersons(place, answers);
    if (answers.length > 0) {
      if (spec.type === "validate_emails") await loadValidations(place, spec, answers);
      else await loadAnswers(place, { ...spec, type: spec.type }, answers);
    }
    await loadRejects(place, spec, rejects);
    await upsertDrift(session, names, asker, commit.drift);
    await touchTables(
      session,
      names,
      asker,
      [...written].filter(([, rows]) => rows > 0).map(([table]) => table),
    );
    if (commit.ledger.some(({ possiblyBilledTwice, leavesOut }) => possiblyBilledTwice > 0 || leavesOut)) {
      const hashes = newAnswers.map(({ record }) => record.sentHash);
      await forgetDoubts(session, names, asker.job, hashes);
    }
    await giveBack(session, names, asker, commit.ledger);
    const rowsWritten = [...written.values()].reduce((sum, rows) => sum + rows, 0);
    const moves = await findMoves(place, received);
    const counters = {
      ...commit.counters,
      ...countMoves(commit, moves),
      rows_written: (commit.counters.rows_written ?? 0) + rowsWritten,
    };
    await addCounters(session, names, asker, counters);
    crashPoint("before_commit");
    earlier = { rowsWritten, moves, notLoadable: [] };
    return earlier;
  };
  const result = await db.transaction(commit.run, work, { rowsRunId: asker.runId });
  crashPoint("after_commit");
  return result;
}

/** Counts the input rows of settled records by outcome, including those of erased people. */
async function findMoves(
  { session, rows }: LookupPlace,
  { answers, rejects }: Pick<LookupCommit, "answers" | "rejects">,
): Promise<readonly RowMove[]> {
  const outcomes = [
    ...answers.map(({ record, outcome }) => ({ ord: record.recordId, outcome })),
    ...rejects.map(({ record }) => ({ ord: record.recordId, outcome: "rejected" })),
  ];
  if (outcomes.length === 0) return [];
  return session.rows<RowMove>(sql`
    SELECT w.prior, o.outcome, count(*) AS rows, sum(w.occurrences)::bigint AS occurrences
    FROM json_to_recordset(${JSON.stringify(outcomes)}::json) AS o(ord bigint, outcome text)
    JOIN ${rows} AS w USING (ord) GROUP BY 1, 2`);
}

/** Counters of the rows of settled records. If another run sent them, its remaining rows decrease. */
function countMoves(
  { answers, rejects, onBehalfOf, run, counters }: LookupCommit,
  moves: readonly RowMove[],
): CounterDelta {
  const occurrences = moves.reduce((sum, move) => sum + move.occurrences, 0);
  const isResumed = onBehalfOf?.runId === run.runId && onBehalfOf.shard === run.shard;
  // A run resumed under its id counts these rows as unchanged: its counters started over.
  if (occurrences === 0 || isResumed) return {};
  return {
    records_duplicate: occurrences - answers.length - rejects.length,
    ...(onBehalfOf ? { records_remaining: (counters.records_remaining ?? 0) - occurrences } : {}),
  };
}

/** Halves a commit that the database rejects until the invalid records are isolated, and rejects those. */
async function isolate(db: Db, commit: LookupCommit, error: unknown): Promise<CommitResult> {
  const { answers } = commit;
  const rest = { ...commit, ledger: [], drift: [], rejects: [], counters: {} };
  if (answers.length === 0) throw error;
  if (answers.length === 1) {
    const rejects = answers.map((answer) => notLoadable(answer, error));
    const matched = answers.filter(({ outcome }) => outcome === "matched").length;
    const counters = {
      ...commit.counters,
      records_rejected: (commit.counters.records_rejected ?? 0) + 1,
      records_matched: (commit.counters.records_matched ?? 0) - matched,
    };
    const result = await commitLookup(db, {
      ...commit,
      answers: [],
      rejects: [...commit.rejects, ...rejects],
      counters,
    });
    return { ...result, notLoadable: answers.map(({ record }) => record.recordId) };
  }
  const middle = Math.ceil(answers.length / 2);
  const first = await commitLookup(db, { ...rest, answers: answers.slice(0, middle) });
  const second = await commitLookup(db, { ...rest, answers: answers.slice(middle) });
  // Writes the ledger last: after a crash the halves are loaded again, without effect.
  const last = await commitLookup(db, { ...commit, answers: [] });
  return {
    rowsWritten: first.rowsWritten + second.rowsWritten + last.rowsWritten,
    moves: [...first.moves, ...second.moves, ...last.moves],
    notLoadable: [...first.notLoadable, ...second.notLoadable],
  };
}

function notLoadable(answer: LookupAnswer, error: unknown): LookupReject {
  return {
    record: answer.record,
    stage: "load",
    code: "not_loadable",
    message: "Postgres rejected a value of the answer.",
    details: { sqlstate: codeOf(error) },
    apiRequestId: answer.apiRequestId,
  };
}
