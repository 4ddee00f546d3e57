import { crashPoint } from "../../crash-point.ts";
import { codeOf } from "../../errors.ts";
import { forgetRows } from "../due/erased-records.ts";
import { addLateOutcomes } from "../due/outcomes.ts";
import { isUncounted } from "../due/work-table.ts";
import { giveBack } from "../ledger/give-back.ts";
import { addCounters, settleLedger, touchTables, upsertDrift } from "../ledger/ledger.ts";
import { keepOut } from "../erasure/keep-out-sql.ts";
import { loadAnswers } from "./load-answers.ts";
import { loadPersons } from "./load-persons.ts";
import type { LookupContext } from "./load-context.ts";
import { loadRejects } from "./load-rejects.ts";
import { loadValidations } from "./load-validations.ts";
import type { Db } from "../db/db.ts";
import { isDataFault } from "../db/recovery.ts";
import { stateTableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { readSuppression } from "../erasure/suppressed-sql.ts";
import type { LookupAnswer, LookupReject } from "./answer.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { RunRef } from "../runs/run-ref.ts";
import { countAttempts } from "../ledger/counters.ts";

/** Results of a group of calls, committed atomically. */
export interface LookupCommit {
  /** Run that commits, under its lock. */
  readonly run: RunRef;
  /** Run that sent the calls, if another run loads the answers. Rows, ledger and counters belong to it. */
  readonly onBehalfOf?: Pick<RunRef, "runId" | "shard">;
  readonly spec: LoadSpec;
  /** Name of the table with the input rows of each record. */
  readonly workTable: string;
  readonly ledger: readonly Attempt[];
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
  readonly drift: readonly Drift[];
}

/** Effects of a commit. */
export interface CommitResult {
  readonly rowsWritten: number;
  /** IDs of answered records with a value that Postgres rejected; now rejects with code `not_loadable`. */
  readonly notLoadable: readonly string[];
}

type Results = Pick<LookupCommit, "answers" | "rejects">;

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
    const context: LookupContext = {
      session,
      names,
      runId: asker.runId,
      rows: stateTableId(names, commit.workTable),
      touch: (table, rows) => void written.set(table, (written.get(table) ?? 0) + rows),
    };
    const newCalls = await settleLedger(session, names, asker, commit.ledger);
    // A call in the ledger is already loaded: the reply to an earlier COMMIT was lost.
    const isLoaded = commit.ledger.length > 0 && newCalls.size === 0;
    if (isLoaded) return earlier ?? { rowsWritten: 0, notLoadable: [] };
    const known = new Set(commit.ledger.map((entry) => entry.callId));
    const newAnswers = commit.answers.filter((a) => !known.has(a.callId) || newCalls.has(a.callId));
    const suppression = await readSuppression(session, names, db.readErasureSecret);
    const received = { answers: newAnswers, rejects: commit.rejects };
    const kept = suppression.key ? await keepOut(context, suppression.key, spec, received) : received;
    const { answers, rejects } = kept;
    await forgetRows(session, context.rows, keptOut(received, kept));
    if (spec.type === "enrich") await loadPersons(context, answers);
    if (answers.length > 0) {
      if (spec.type === "validate_emails") await loadValidations(context, spec, answers);
      else await loadAnswers(context, { ...spec, type: spec.type }, answers);
    }
    await loadRejects(context, spec, rejects);
    const isOfEnded =
      commit.onBehalfOf &&
      !isSameRun(commit.run, asker) &&
      !(await isUncounted(session, names, commit.workTable));
    if (isOfEnded) {
      const frozen = { source: spec.input.name, rows: commit.workTable };
      await addLateOutcomes(session, names, asker, frozen, idsOf(received));
    }
    await upsertDrift(session, names, asker, commit.drift);
    await touchTables(
      session,
      names,
      asker,
      [...written].filter(([, rows]) => rows > 0).map(([table]) => table),
    );
    await giveBack(session, names, asker, commit.ledger);
    const rowsWritten = [...written.values()].reduce((sum, rows) => sum + rows, 0);
    const counters = { ...countAttempts(commit.ledger), rows_written: rowsWritten };
    await addCounters(session, names, asker, counters);
    crashPoint("before_commit");
    earlier = { rowsWritten, notLoadable: [] };
    return earlier;
  };
  const result = await db.transaction(commit.run, work, { rowsRunId: asker.runId });
  crashPoint("after_commit");
  return result;
}

function isSameRun(one: RunRef, other: RunRef): boolean {
  return one.runId === other.runId && one.shard === other.shard;
}

function idsOf({ answers, rejects }: Results): readonly string[] {
  return [...answers, ...rejects].map(({ record }) => record.recordId);
}

/** Ids of records that were kept out. */
function keptOut(received: Results, kept: Results): readonly string[] {
  const left = new Set(idsOf(kept));
  return idsOf(received).filter((id) => !left.has(id));
}

/** Halves a commit that the database rejects until the invalid records are isolated, and rejects those. */
async function isolate(db: Db, commit: LookupCommit, error: unknown): Promise<CommitResult> {
  const { answers } = commit;
  const rest = { ...commit, ledger: [], drift: [], rejects: [] };
  if (answers.length === 0) throw error;
  if (answers.length === 1) {
    const rejects = answers.map((answer) => notLoadable(answer, error));
    const result = await commitLookup(db, {
      ...commit,
      answers: [],
      rejects: [...commit.rejects, ...rejects],
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
