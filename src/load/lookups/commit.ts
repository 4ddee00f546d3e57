import { sql } from "kysely";
import { codeOf } from "../../errors.ts";
import type { Attempt } from "../../schemas/ledger.ts";
import type { Drift } from "../../schemas/convert.ts";
import type { Db } from "../db/db.ts";
import { isDataFault, isTableFault } from "../db/failures.ts";
import { commit, explainRefusal } from "../write/commit.ts";
import { countAttempts, type CounterDelta } from "../ledger/ledger.ts";
import type { RunRef } from "../runs/fence.ts";
import type { Writing } from "../write/upsert.ts";
import type { LoadContext, LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "./lookup.ts";
import { keepResent, takeClaims } from "./claims.ts";
import { anyContent } from "./content.ts";
import { loadPersons } from "./load-persons.ts";
import { writeAnswers } from "./answers.ts";
import { withoutErased } from "./erased-answers.ts";
import { resolveAnswered, writeErased, writeRejects } from "./rejects.ts";

/** Outcomes of records of one call; a large response is committed in parts, the last one with its entry in the ledger. */
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
  /** False not to keep the content of people that an answer replaces. */
  readonly keepsPeople?: boolean;
  /** True if other records of the same answer are loaded: then a refused value is its record's fault, even if it is alone. */
  readonly othersLoad?: boolean;
}

export interface CommitResult {
  readonly rowsWritten: number;
  /** IDs of answered records with a value that Postgres rejected; now rejects with code `not_loadable`. */
  readonly notLoadable: readonly string[];
}

/**
 * Commits outcomes of a call atomically and retries conflicts with other loaders: the answers by content, the published rows of every
 * input row with one of these contents, and the ledger. A record with a value that Postgres rejects becomes a reject as long as
 * others of its answer load; otherwise the table is at fault, and nothing is committed.
 */
export async function commitLookup(db: Db, parts: LookupCommit): Promise<CommitResult> {
  try {
    return await commitWhole(db, parts);
  } catch (error) {
    const { length } = parts.answers;
    const isRefused = isTableFault(error) || (isDataFault(error) && length > 0);
    throw isRefused ? await explainRefusal(db, error, length) : error;
  }
}

/** Writes answers, and halves them until those with a value that Postgres rejects are isolated: returns these as rejects. */
async function writeValid(
  context: LoadContext,
  { spec, answers, othersLoad = false }: LookupCommit,
): Promise<readonly LookupReject[]> {
  const { client } = context.session;
  let lastFault: unknown = null;
  async function write(some: readonly LookupAnswer[]): Promise<readonly LookupReject[]> {
    await client.query("SAVEPOINT answers");
    try {
      if (spec.type === "enrich") await loadPersons(context, some);
      await writeAnswers(context, spec, some);
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
  if (answers.length === 0) return [];
  const invalid = await write(answers);
  if (invalid.length === answers.length && !othersLoad) throw lastFault;
  return invalid;
}

async function commitWhole(db: Db, parts: LookupCommit): Promise<CommitResult> {
  const { run, spec, sentBy, ledger, drift, keepsPeople = true } = parts;
  let counters: CounterDelta = {};
  const also = async (writing: Writing): Promise<readonly string[]> => {
    const { answers, rejects, erased } = await withoutErased(writing, parts);
    const contents = [...[...answers, ...rejects].map(({ record }) => record.content), ...erased];
    const taken = await takeClaims(writing.session, spec.kind, run, contents);
    const invalid = await writeValid({ ...writing, keepsPeople }, { ...parts, answers });
    const isInvalid = new Set(invalid.map(({ record }) => record.recordId));
    const valid = answers.filter(({ record }) => !isInvalid.has(record.recordId));
    await writeRejects(writing, spec, [...rejects, ...invalid]);
    await writeErased(writing, spec, erased);
    const answered = valid.map(({ record }) => record.content);
    const [one] = valid;
    if (one) await keepResent(writing.session, spec.kind, run.runId, answered, one.callId);
    if (taken.wereRejected) await resolveAnswered(writing, spec, answered);
    // Claims that an erasure or another run took away are counted at the end of the run; a later run of the job counts the outcome of
    // an answer that it loads.
    const isLater = sentBy !== undefined && spec.job === run.job;
    const isCounted = ({ record }: { readonly record: LookupRecord }) =>
      isLater || taken.own.has(record.content);
    counters = {
      ...(sentBy ? {} : countAttempts(ledger)),
      records_sent: taken.own.size,
      records_duplicate: taken.rows - taken.own.size,
      records_matched: valid.filter((answer) => isCounted(answer) && answer.outcome === "matched").length,
      records_rejected: [...rejects, ...invalid].filter(isCounted).length,
    };
    return [...isInvalid];
  };
  const done = await commit(db, run, { calls: ledger, sentBy, also, drift, counters: () => counters });
  return { rowsWritten: done.rowsWritten, notLoadable: done.also ?? [] };
}

/** Returns the contents, among some, that have an answer of a call. */
export async function readAnswered(
  db: Db,
  { kind }: LoadSpec,
  callId: string,
  contents: readonly string[],
): Promise<ReadonlySet<string>> {
  const answers = db.query
    .selectFrom("state.lookup_answer")
    .select(sql<string>`encode(content, 'hex')`.as("content"))
    .where("kind", "=", kind)
    .where("call_id", "=", callId);
  return new Set(await db.pluck(answers.where(sql<boolean>`content = ${anyContent(contents)}`)));
}

function notLoadable(answer: LookupAnswer, error: unknown): LookupReject {
  return {
    record: answer.record,
    stage: "load",
    code: "not_loadable",
    message: "Postgres rejected a value in the response.",
    details: { sqlstate: codeOf(error) },
    apiRequestId: answer.apiRequestId,
  };
}
