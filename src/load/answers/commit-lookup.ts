import { sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import { codeOf } from "../../errors.ts";
import { forgetRows } from "../due/erased-records.ts";
import { addLateOutcomes } from "../due/outcomes.ts";
import { isUncounted } from "../due/work-table.ts";
import { giveBack } from "../ledger/give-back.ts";
import { addCounters, settleLedger, touchTables, upsertDrift } from "../ledger/ledger.ts";
import { loadAnswers } from "./load-answers.ts";
import { loadPersons } from "./load-persons.ts";
import type { LookupContext } from "./load-context.ts";
import { loadRejects } from "./load-rejects.ts";
import { loadValidations } from "./load-validations.ts";
import type { Db } from "../db/db.ts";
import { isDataFault } from "../db/recovery.ts";
import { stateTableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { type ErasureKey, readErasures } from "../erasure/key.ts";
import { erasedSql } from "../erasure/naming.ts";
import { type KeptAnswer, type NamingAnswer, withoutErased } from "../write/erased.ts";
import type { LookupAnswer, LookupReject } from "./answer.ts";
import type { LookupRecord } from "../due/lookup-record.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { validateFields } from "../../schemas/validate-emails.ts";
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
    const received = { answers: newAnswers, rejects: commit.rejects };
    const { key } = await readErasures(session, names, db.readErasureSecret);
    const kept = key ? await keepOthers(context, key, spec, received) : received;
    const { answers, rejects } = kept;
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

/** Removes erased people from answers and rejects, and empties their input rows. */
async function keepOthers(
  { session, names, rows }: LookupContext,
  key: ErasureKey,
  spec: LoadSpec,
  received: Results,
): Promise<Results> {
  const ids = idsOf(received);
  // For validate_emails the key of a row is the address.
  const isErased = erasedSql(names, key).sourceKey(spec.input.name, "w.source_key");
  const erasedRows = await session.rows<{ ord: string; is_all: boolean }>(sql`
    SELECT w.ord::text AS ord, bool_and(${isErased}) AS is_all FROM ${rows} AS w
    WHERE w.ord = ANY(${[...ids]}::bigint[]) AND w.source_key IS NOT NULL GROUP BY w.ord HAVING bool_or(${isErased})`);
  await session.change(sql`UPDATE ${rows} AS w SET source_key = NULL, input_hash = '', fingerprint = NULL
    WHERE w.ord = ANY(${erasedRows.map(({ ord }) => ord)}::bigint[]) AND ${isErased}`);
  const withoutRows = new Set(erasedRows.filter((row) => row.is_all).map(({ ord }) => ord));
  const { answers, rejects } = received;
  const kept = await withoutErased(session, names, key, [
    ...answers.map((answer) => namingAnswer(spec, answer)),
    ...rejects.map(({ record }) => ({ ...ofRecord(spec, record), person: null, json: [] })),
  ]);
  const left = (record: LookupRecord, found: KeptAnswer | undefined) =>
    withoutRows.has(record.recordId) ? null : (found ?? null);
  const others = {
    answers: answers.flatMap((answer, i) => {
      const found = left(answer.record, kept[i]);
      if (!found) return [];
      const [extra = null, ...json] = found.json;
      const cells = answer.cells.map((cell, at) => {
        const ofJson = jsonCells(spec).indexOf(at);
        return ofJson < 0 ? cell : (json[ofJson] ?? null);
      });
      return { ...answer, person: found.person, extra, cells };
    }),
    rejects: rejects.filter(({ record }, i) => left(record, kept[answers.length + i])),
  };
  const known = new Set(idsOf(others));
  await forgetRows(
    session,
    rows,
    ids.filter((id) => !known.has(id)),
  );
  return others;
}

/** Positions of JSON among the cells of an answer. */
function jsonCells({ type }: LoadSpec): readonly number[] {
  const fields = { resolve: resolveFields, enrich: enrichFields, validate_emails: validateFields }[type];
  return Object.values(fields).flatMap((field, at) => (field.type === "json" ? [at] : []));
}

function namingAnswer(
  spec: LoadSpec,
  { record, servicePid, person, cells, extra }: LookupAnswer,
): NamingAnswer {
  const { pids, ...own } = ofRecord(spec, record);
  const json = [extra, ...jsonCells(spec).map((at) => cells[at] ?? null)];
  return { ...own, pids: [...pids, servicePid, person?.pid ?? null], person, json };
}

/** Identifiers that were sent. Input rows are looked up in the work list. */
function ofRecord({ type }: LoadSpec, record: LookupRecord): Pick<NamingAnswer, "pids" | "emails" | "rows"> {
  if (type === "validate_emails") return { pids: [], emails: [record.address ?? ""], rows: [] };
  // Every record is built from input rows by this program.
  const sent = JSON.parse(record.json) as {
    readonly emails?: readonly string[];
    readonly service_pid?: string;
  };
  return { pids: [record.sentPid, sent.service_pid ?? null], emails: sent.emails ?? [], rows: [] };
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
