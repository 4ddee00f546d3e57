import { crashPoint } from "../../crash-point.ts";
import { codeOf } from "../../errors.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { Db } from "../db/db.ts";
import { isDataFault, isTableFault } from "../db/recovery.ts";
import { explainRefusal } from "../db/refusal.ts";
import type { Session } from "../db/session.ts";
import { keepOut } from "../erasure/keep-out-sql.ts";
import { readSuppression } from "../erasure/suppressed-sql.ts";
import { countAttempts } from "../ledger/counters.ts";
import { giveBack } from "../ledger/give-back.ts";
import { addCounters, settleLedger, touchTables, upsertDrift } from "../ledger/ledger.ts";
import type { RunRef } from "../runs/run-ref.ts";
import type { LoadContext, LookupAnswer, LookupReject } from "./answer.ts";
import { takeClaims } from "./claims.ts";
import { loadPersons } from "./load-persons.ts";
import type { LoadSpec, LookupRecord } from "./lookup.ts";
import { resolveAnswered, writeAnswers, writeRejects } from "./write-answers.ts";

/** Results of a group of calls, committed atomically. */
export interface LookupCommit {
  /** Run that commits, under its lock. */
  readonly run: RunRef;
  /** Run that sent the calls; the ledger belongs to it. Absent if it is the same. */
  readonly sentBy?: Pick<RunRef, "runId" | "shard">;
  readonly spec: LoadSpec;
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

/**
 * Commits a group of calls atomically and retries conflicts with other loaders: the answers by content, the published rows of every
 * input row with one of these contents, and the ledger. A record with a value that Postgres rejects becomes a reject as long as
 * others of its answer load; otherwise the table is at fault, and nothing is committed.
 */
export async function commitLookup(db: Db, commit: LookupCommit): Promise<CommitResult> {
  try {
    return await commitWhole(db, commit, writeTogether);
  } catch (error) {
    if (isTableFault(error)) throw await explainRefusal(db, error, commit.answers.length);
    if (!isDataFault(error) || commit.answers.length === 0) throw error;
    try {
      return await commitWhole(db, commit, writeValid);
    } catch (again) {
      const isRefused = isTableFault(again) || isDataFault(again);
      throw isRefused ? await explainRefusal(db, again, commit.answers.length) : again;
    }
  }
}

/** Writes answers; returns those with a value that Postgres rejects. */
type Write = (
  context: LoadContext,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
) => Promise<readonly LookupReject[]>;

const writeTogether: Write = async (context, spec, answers) => {
  if (spec.type === "enrich") await loadPersons(context, answers);
  await writeAnswers(context, spec, answers);
  return [];
};

/** Halves the answers until the invalid ones are isolated. */
const writeValid: Write = async (context, spec, answers) => {
  let lastFault: unknown = null;
  async function write(some: readonly LookupAnswer[]): Promise<readonly LookupReject[]> {
    const { client } = context.session;
    await client.query("SAVEPOINT answers");
    try {
      await writeTogether(context, spec, some);
      await client.query("RELEASE SAVEPOINT answers");
      return [];
    } catch (error) {
      if (!isDataFault(error)) throw error;
      lastFault = error;
      await client.query("ROLLBACK TO SAVEPOINT answers; RELEASE SAVEPOINT answers");
    }
    if (some.length === 1) return some.map((answer) => notLoadable(answer, lastFault));
    const middle = Math.ceil(some.length / 2);
    return [...(await write(some.slice(0, middle))), ...(await write(some.slice(middle)))];
  }
  const invalid = await write(answers);
  if (invalid.length === answers.length) throw lastFault;
  return invalid;
};

async function commitWhole(db: Db, commit: LookupCommit, write: Write): Promise<CommitResult> {
  const { names } = db;
  const { run, spec } = commit;
  const sender = { ...run, ...commit.sentBy };
  /** Result of an earlier attempt, which committed if its calls are in the ledger. */
  let earlier: CommitResult | null = null;
  const work = async (session: Session): Promise<CommitResult> => {
    const written = new Map<string, number>();
    const context: LoadContext = {
      session,
      names,
      runId: run.runId,
      touch: (table, rows) => void written.set(table, (written.get(table) ?? 0) + rows),
    };
    const newCalls = await settleLedger(session, names, sender, commit.ledger);
    // A call in the ledger is already loaded: the reply to an earlier COMMIT was lost.
    if (commit.ledger.length > 0 && newCalls.size === 0) return earlier ?? { rowsWritten: 0, notLoadable: [] };
    const known = new Set(commit.ledger.map((entry) => entry.callId));
    const newAnswers = commit.answers.filter((a) => !known.has(a.callId) || newCalls.has(a.callId));
    const suppression = await readSuppression(session, names, db.readErasureSecret);
    const received = { answers: newAnswers, rejects: commit.rejects };
    const { answers, rejects } = suppression.key
      ? await keepOut(context, suppression.key, spec, received)
      : received;
    const contents = [...answers, ...rejects].map(({ record }) => record.content);
    const taken = await takeClaims(session, names, spec.kind, run, contents);
    const invalid = answers.length === 0 ? [] : await write(context, spec, answers);
    const isInvalid = new Set(invalid.map(({ record }) => record.recordId));
    const valid = answers.filter(({ record }) => !isInvalid.has(record.recordId));
    await writeRejects(context, spec, [...rejects, ...invalid]);
    if (taken.wereRejected) await resolveAnswered(context, spec, valid.map(({ record }) => record.content));
    await upsertDrift(session, names, run, commit.drift);
    const changed = [...written].filter(([, rows]) => rows > 0).map(([table]) => table);
    await touchTables(session, names, run, changed);
    await giveBack(session, names, sender, commit.ledger);
    const rowsWritten = [...written.values()].reduce((sum, rows) => sum + rows, 0);
    // Claims that an erasure or another run took away are counted at the end of the run; the run that loads an answer counts its outcome.
    const isCounted = ({ record }: { readonly record: LookupRecord }) =>
      commit.sentBy !== undefined || taken.own.has(record.content);
    await addCounters(session, names, run, {
      ...(commit.sentBy ? {} : countAttempts(commit.ledger)),
      rows_written: rowsWritten,
      records_sent: taken.own.size,
      records_duplicate: taken.rows - taken.own.size,
      records_matched: valid.filter((answer) => isCounted(answer) && answer.outcome === "matched").length,
      records_rejected: [...rejects, ...invalid].filter(isCounted).length,
    });
    crashPoint("before_commit");
    earlier = { rowsWritten, notLoadable: [...isInvalid] };
    return earlier;
  };
  const result = await db.transaction(run, work);
  crashPoint("after_commit");
  return result;
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
