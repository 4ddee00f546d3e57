import { type RawBuilder, sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import { personChildren } from "../../schemas/person.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import { mergeDrift } from "../commit-group.ts";
import type {
  CommitGroup,
  CommitHead,
  CommitResult,
  LookupCommit,
  LookupPart,
  RunRef,
} from "../warehouse.ts";
import { type CommitFile, openCommitFile } from "./commit-file.ts";
import { badAnswers } from "./data-fault.ts";
import { BigQueryFailure } from "./failure.ts";
import { forgetDoubts } from "./forget-doubts.ts";
import { giveBack } from "./give-back.ts";
import { addCounters, type CounterTerms, NEW_CALLS, settleLedger, upsertDrift } from "./ledger.ts";
import { answerStatements, answerVariables, validationStatements } from "./load-answers.ts";
import { personStatements, personVariables } from "./load-persons.ts";
import type { LoadPlace } from "./load-place.ts";
import { rejectedStatements } from "./load-rejects.ts";
import { openManifest } from "./manifest.ts";
import { tableText } from "./names.ts";
import { inRunTransaction } from "./run-transaction.ts";
import { NOW, type Session, type TransactionWork } from "./session.ts";
import { stagedColumnsOf } from "./staged-columns.ts";
import { createStagingTable, dropTable, loadFile } from "./staging.ts";
import { countRows } from "./table-load.ts";

/** What a commit needs beside its content. */
export interface CommitContext {
  readonly session: Session;
  /** Folder for the file that is loaded, and for its manifest. */
  readonly workFolder: string;
}

/** What is kept of a call in memory. */
type Booked = Omit<LookupPart, "answers" | "rejects">;

/** An answer that can't be stored. */
interface Refused {
  readonly seq: number;
  readonly record_id: string;
  readonly is_match: boolean;
}

/** Commits some calls at once. */
export async function commitLookup(context: CommitContext, commit: LookupCommit): Promise<CommitResult> {
  const { run, onBehalfOf, spec, ...part } = commit;
  const group = await openCommit(context, { run, spec, ...(onBehalfOf ? { onBehalfOf } : {}) });
  try {
    await group.add(part);
    return await group.commit();
  } finally {
    await group.discard();
  }
}

/**
 * Gathers calls in a file and commits them as one: the file is loaded into a table of its own, and one transaction moves rows,
 * states, ledger and counters from there. A call that is in the ledger already is left out.
 */
export async function openCommit(context: CommitContext, head: CommitHead): Promise<CommitGroup> {
  const { session, workFolder } = context;
  const { run, spec } = head;
  const parts: Booked[] = [];
  const manifest = await openManifest(workFolder, run);
  const file = openCommitFile(manifest.file("answers.ndjson"), spec);
  const table = manifest.table("answers");
  let attempts = 0;
  let isMade = false;
  let isStaged = false;
  let done: CommitResult | null = null;

  async function stage(): Promise<void> {
    if (isStaged || file.facts.lines === 0) return;
    await file.close();
    const callIds = parts.flatMap(({ ledger }) => ledger.map(({ callId }) => callId));
    await manifest.note({ run, callIds, tables: [table] });
    crashPoint("before_copy");
    const columns = stagedColumnsOf(spec.type);
    isMade = true;
    await createStagingTable(session, table, columns);
    attempts += 1;
    await loadFile(session, { file: file.path, table, columns, jobId: manifest.jobId("answers", attempts) });
    crashPoint("after_copy");
    isStaged = true;
  }

  async function apply(refused: readonly Refused[]): Promise<CommitResult> {
    const work = transactionOf({ session, head, table, file, parts, refused });
    const [row] = await inRunTransaction<Outcome>(session, run, work);
    const wasNew = row?.is_new === true;
    return {
      rowsWritten: wasNew ? row.written : 0,
      notLoadable: wasNew ? refused.map((one) => one.record_id) : [],
    };
  }

  async function applyWhatCanBeStored(): Promise<CommitResult> {
    try {
      return await apply([]);
    } catch (error) {
      if (!isStaged || !mayBeDataFault(error)) throw error;
      const stageId = tableText(session.names, "data", table);
      const refused = await session.rows<Refused>(sql.raw(badAnswers(stageId, spec.type)));
      if (refused.length === 0) throw error;
      return apply(refused);
    }
  }

  async function discard(): Promise<void> {
    await file.close();
    if (isMade) await dropTable(session, table);
    isMade = false;
    await manifest.end();
  }

  return {
    async add({ answers, rejects, ...booked }) {
      parts.push(booked);
      await file.write(answers, rejects, booked.ledger[0]?.callId ?? null);
    },
    async commit() {
      if (done === null) {
        await stage();
        crashPoint("before_commit");
        done = await applyWhatCanBeStored();
        crashPoint("after_commit");
      }
      await discard();
      return done;
    },
    discard,
  };
}

/** Whether a value may be at fault: which messages BigQuery has for that isn't documented, so the lines are looked at. */
function mayBeDataFault(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.code === "invalidQuery" || error.code === "invalid");
}

interface TransactionParts {
  readonly session: Session;
  readonly head: CommitHead;
  readonly table: string;
  readonly file: CommitFile;
  readonly parts: readonly Booked[];
  readonly refused: readonly Refused[];
}

/** Tables whose changed rows count in `rows_written`. */
function tablesOf({ spec }: CommitHead): readonly string[] {
  if (spec.type === "validate_emails") return ["email_validation", "reject"];
  if (spec.type === "resolve") return ["resolution", "match_history", "reject"];
  const children = personChildren.map((t) => t.name);
  return ["enrichment", "match_history", "person", ...children, "person_pid_alias", "reject"];
}

/** What a transaction tells. */
interface Outcome {
  readonly written: number;
  /** False when all calls had been loaded before. */
  readonly is_new: boolean;
}

/** One transaction that moves everything at once. */
function transactionOf(of: TransactionParts): TransactionWork<Outcome> {
  const { session, head, parts, refused } = of;
  const { names } = session;
  const { facts } = of.file;
  const { spec } = head;
  // The lock is that of the run that commits; what it writes is the asking run's.
  const asker: RunRef = { ...head.run, ...head.onBehalfOf };
  const entries = parts.flatMap((part) => part.ledger);
  const ledger = settleLedger(names, asker, entries);
  const rows = countRows(facts.lines === 0 ? [] : tablesOf(head));
  const place = placeOf(of, asker.runId, rows.add);
  const loads = [
    ...(facts.persons > 0 ? personStatements(place, facts) : []),
    ...(facts.answers === 0
      ? []
      : spec.type === "validate_emails"
        ? validationStatements(place, facts)
        : answerStatements(place, facts)),
    ...(facts.rejects > 0 || refused.length > 0 ? rejectedStatements(place) : []),
    ...(rows.declare.length === 0 ? [] : rows.touch(names, asker)),
    `SET written = ${rows.names.length === 0 ? "0" : rows.names.join(" + ")}`,
  ];
  const isAnyNew =
    entries.length === 0 || parts.some((part) => part.ledger.length === 0)
      ? sql`TRUE`
      : sql`ARRAY_LENGTH(${NEW_CALLS}) > 0`;
  return {
    declare: [
      ...ledger.declare,
      ...[
        "is_new BOOL",
        "written INT64 DEFAULT 0",
        ...rows.declare,
        ...(facts.persons > 0 ? personVariables : []),
        ...(facts.answers > 0 ? answerVariables : []),
      ].map((text) => sql.raw(text)),
    ],
    statements: [
      ...ledger.statements,
      sql`SET is_new = ${isAnyNew}`,
      ...loads.map((text) => sql.raw(text.trim().replace(/;$/, ""))),
      sql`IF is_new THEN ${sql.join(
        booksOf(of, asker, place).map((statement) => sql`${statement};`),
        sql.raw("\n"),
      )} END IF`,
    ],
    outcome: sql.raw<Outcome>("SELECT written, is_new"),
  };
}

function placeOf(
  { session, head, table, refused }: TransactionParts,
  runId: string,
  count: LoadPlace["count"],
): LoadPlace {
  const bad = refused.map(({ seq }) => seq).join(", ");
  const isNew = "(s.call_id IS NULL OR s.call_id IN UNNEST(_etl_new_calls))";
  return {
    names: session.names,
    spec: head.spec,
    runId,
    stage: tableText(session.names, "data", table),
    isLoaded: refused.length === 0 ? isNew : `${isNew} AND s.seq NOT IN (${bad})`,
    isRefused: refused.length === 0 ? null : `${isNew} AND s.seq IN (${bad})`,
    count,
  };
}

/** Everything beside the rows: drift, doubts, budgets, counters. */
function booksOf(
  { session, head, file, parts, refused }: TransactionParts,
  asker: RunRef,
  place: LoadPlace,
): readonly RawBuilder<unknown>[] {
  const { names } = session;
  const entries = parts.flatMap((part) => part.ledger);
  const hasDoubts =
    file.facts.answers > 0 && entries.some(({ possiblyBilledTwice }) => possiblyBilledTwice > 0);
  const answered = sql.raw(`SELECT s.sent_hash AS hash FROM ${place.stage} AS s WHERE s.kind = 'answer'`);
  return [
    ...upsertDrift(names, asker, mergeDrift(parts.map((part) => part.drift))),
    ...(hasDoubts ? forgetDoubts(names, asker.job, answered) : []),
    ...giveBack(names, asker, entries),
    // A run that is over has nothing under way.
    addCounters(names, asker, {}, head.onBehalfOf ? null : NOW, countersOf(parts, refused)),
  ];
}

const counterNames = Object.keys(runCounters) as RunCounter[];

/** What the calls add to the counters: only those that were not loaded before. */
function countersOf(parts: readonly Booked[], refused: readonly Refused[]): CounterTerms {
  const rejected: Booked["counters"] = {
    records_rejected: refused.length,
    records_matched: -refused.filter((one) => one.is_match).length,
  };
  const counted = [
    ...parts.map(({ ledger: [first], counters }) => ({ call: first?.callId ?? null, ...counters })),
    ...(refused.length === 0 ? [] : [{ call: null, ...rejected }]),
  ];
  const json = JSON.stringify(counted);
  const terms: CounterTerms = Object.fromEntries(
    counterNames
      .filter((name) => counted.some((counters) => (counters[name] ?? 0) !== 0))
      .map((name) => [
        name,
        sql`SELECT IFNULL(SUM(CAST(JSON_VALUE(e, ${sql.raw(`'$.${name}'`)}) AS INT64)), 0)
          FROM UNNEST(JSON_QUERY_ARRAY(${json})) AS e
          WHERE JSON_VALUE(e, '$.call') IS NULL OR JSON_VALUE(e, '$.call') IN UNNEST(${NEW_CALLS})`,
      ]),
  );
  const written = sql.raw("written");
  return {
    ...terms,
    rows_written: terms.rows_written === undefined ? written : sql`(${terms.rows_written}) + ${written}`,
  };
}
