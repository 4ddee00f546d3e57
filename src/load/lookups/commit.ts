import { sql } from "kysely";
import { codeOf } from "../../errors.ts";
import type { Attempt } from "../../schemas/ledger.ts";
import type { Drift } from "../../schemas/convert.ts";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { validateFields } from "../../schemas/validate-emails.ts";
import type { Db } from "../db/db.ts";
import { isDataFault, isTableFault } from "../db/failures.ts";
import { commit, explainRefusal } from "../write/commit.ts";
import { countAttempts, type CounterDelta } from "../ledger/ledger.ts";
import type { RunRef } from "../runs/fence.ts";
import { type NamingAnswer, withoutErased } from "../write/erased.ts";
import type { Writing } from "../write/upsert.ts";
import type { LoadContext, LoadSpec, LookupAnswer, LookupRecord, LookupReject } from "./lookup.ts";
import { keepResent, takeClaims } from "./claims.ts";
import { anyContent } from "./content.ts";
import { loadPersons } from "./load-persons.ts";
import { writeAnswers } from "./answers.ts";
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
    return await commitWhole(db, parts, writeTogether);
  } catch (error) {
    if (isTableFault(error)) throw await explainRefusal(db, error, parts.answers.length);
    if (!isDataFault(error) || parts.answers.length === 0) throw error;
    try {
      return await commitWhole(db, parts, writeValid);
    } catch (again) {
      const isRefused = isTableFault(again) || isDataFault(again);
      throw isRefused ? await explainRefusal(db, again, parts.answers.length) : again;
    }
  }
}

/** Writes answers; returns those with a value that Postgres rejects. */
type Write = (
  context: LoadContext,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
  othersLoad: boolean,
) => Promise<readonly LookupReject[]>;

const writeTogether = async (context: LoadContext, spec: LoadSpec, answers: readonly LookupAnswer[]) => {
  if (spec.type === "enrich") await loadPersons(context, answers);
  await writeAnswers(context, spec, answers);
  return [];
};

/** Halves the answers until the invalid ones are isolated. */
const writeValid: Write = async (context, spec, answers, othersLoad) => {
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
  if (invalid.length === answers.length && !othersLoad) throw lastFault;
  return invalid;
};

async function commitWhole(db: Db, parts: LookupCommit, write: Write): Promise<CommitResult> {
  const { run, spec, sentBy, ledger, drift, othersLoad = false, keepsPeople = true } = parts;
  let counters: CounterDelta = {};
  const also = async (writing: Writing): Promise<readonly string[]> => {
    const { answers, rejects, erased } = await answersWithoutErased(writing, spec, parts);
    const contents = [...[...answers, ...rejects].map(({ record }) => record.content), ...erased];
    const taken = await takeClaims(writing.session, spec.kind, run, contents);
    const invalid =
      answers.length === 0 ? [] : await write({ ...writing, keepsPeople }, spec, answers, othersLoad);
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

/**
 * Removes erased people from answers and rejects; returns also the contents that were answered with one: they would be sent again every
 * night.
 */
async function answersWithoutErased(
  { session, erasureKey }: Writing,
  spec: LoadSpec,
  { answers, rejects }: Pick<LookupCommit, "answers" | "rejects">,
): Promise<Pick<LookupCommit, "answers" | "rejects"> & { readonly erased: readonly string[] }> {
  if (erasureKey === null) return { answers, rejects, erased: [] };
  const named = [
    ...answers.map((answer) => namingAnswer(spec, answer)),
    ...rejects.map(({ record }) => ({ ...ofRecord(spec, record), person: null, json: [] })),
  ];
  const kept = await withoutErased(session, erasureKey, named);
  return {
    erased: named.flatMap(({ content }, i) => (kept[i] === "person" ? [content] : [])),
    answers: answers.flatMap((answer, i) => {
      const found = kept[i];
      if (typeof found !== "object") return [];
      const [extra = null, ...json] = found.json;
      const cells = [...answer.cells];
      for (const [i, at] of jsonCells(spec).entries()) cells[at] = json[i] ?? null;
      return { ...answer, person: found.person, extra, cells };
    }),
    rejects: rejects.filter((_, i) => typeof kept[answers.length + i] === "object"),
  };
}

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

/** Content and identifiers that were sent. */
function ofRecord(
  { type }: LoadSpec,
  { content, address, json, sentPid }: LookupRecord,
): Pick<NamingAnswer, "content" | "pids" | "emails"> {
  if (type === "validate_emails") return { content, pids: [], emails: [address ?? ""] };
  // Every record is built from input rows by this program.
  const sent = JSON.parse(json) as { readonly emails?: readonly string[]; readonly service_pid?: string };
  return { content, pids: [sentPid, sent.service_pid ?? null], emails: sent.emails ?? [] };
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
