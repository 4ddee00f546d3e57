import { type RawBuilder, sql } from "kysely";
import { personChildren } from "../../schemas/person.ts";
import { type RunCounter, runCounters } from "../../schemas/ops.ts";
import { mergeDrift } from "../commit-group.ts";
import type { Suppression } from "../suppression.ts";
import type { CommitHead, LookupPart, RunRef } from "../warehouse.ts";
import type { CommitFile } from "./commit-file.ts";
import { forgetDoubts } from "./forget-doubts.ts";
import { giveBack } from "./give-back.ts";
import { addCounters, type CounterTerms, NEW_CALLS, settleLedger, upsertDrift } from "./ledger.ts";
import { answerStatements, answerVariables, validationStatements } from "./load-answers.ts";
import { aliasStatements, personStatements, personVariables } from "./load-persons.ts";
import type { KeptLines } from "./keep-out.ts";
import type { LoadPlace } from "./load-place.ts";
import { rejectedStatements } from "./load-rejects.ts";
import { tableText } from "./names.ts";
import { declareLearnt, learntRows, noteSubjects } from "./note-subjects.ts";
import { NOW, type Session, type TransactionWork } from "./session.ts";
import { requireSameEpoch } from "./suppression.ts";
import { countRows } from "./table-load.ts";

/** What is kept of a call in memory. */
export type Booked = Omit<LookupPart, "answers" | "rejects">;

/** An answer that can't be stored. */
export interface Refused {
  readonly seq: number;
  readonly record_id: string;
  readonly is_match: boolean;
}

/** What a commit's transaction is made of. */
export interface TransactionParts {
  readonly session: Session;
  readonly head: CommitHead;
  readonly table: string;
  readonly file: CommitFile;
  readonly parts: readonly Booked[];
  readonly refused: readonly Refused[];
  /** What was known of erasures when the lines were staged, and what the answers told of the erased. */
  readonly suppression: Suppression;
  readonly content: Pick<KeptLines, "learnt" | "outHashes">;
}

/** Tables whose changed rows count in `rows_written`. */
function tablesOf({ spec }: CommitHead): readonly string[] {
  if (spec.type === "validate_emails") return ["email_validation", "reject"];
  if (spec.type === "resolve") return ["resolution", "match_history", "reject"];
  const children = personChildren.map((t) => t.name);
  return ["enrichment", "match_history", "person", ...children, "person_pid_alias", "reject"];
}

/** What a transaction tells. */
export interface CommitOutcome {
  readonly written: number;
  /** False when all calls had been loaded before. */
  readonly is_new: boolean;
}

/** One transaction that moves everything at once; ends itself when somebody was erased since the lines were staged. */
export function commitTransaction(of: TransactionParts): TransactionWork<CommitOutcome> {
  const { session, head, parts, refused, suppression, content } = of;
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
    ...aliasStatements(place, facts),
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
      sql`_etl_out_hashes ARRAY<STRING> DEFAULT ${[...content.outHashes]}`,
      ...(suppression.key === null ? [] : [declareLearnt(suppression.key, content.learnt)]),
      ...[
        "is_new BOOL",
        "written INT64 DEFAULT 0",
        ...rows.declare,
        ...(facts.persons > 0 ? personVariables : []),
        ...(facts.answers > 0 ? answerVariables : []),
      ].map((text) => sql.raw(text)),
    ],
    statements: [
      requireSameEpoch(names, suppression),
      ...ledger.statements,
      sql`SET is_new = ${isAnyNew}`,
      ...loads.map((text) => sql.raw(text.trim().replace(/;$/, ""))),
      sql`IF is_new THEN ${sql.join(
        booksOf(of, asker, place).map((statement) => sql`${statement};`),
        sql.raw("\n"),
      )} END IF`,
    ],
    outcome: sql.raw<CommitOutcome>("SELECT written, is_new"),
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
  { session, head, file, parts, refused, content }: TransactionParts,
  asker: RunRef,
  place: LoadPlace,
): readonly RawBuilder<unknown>[] {
  const { names } = session;
  const entries = parts.flatMap((part) => part.ledger);
  const hasDoubts =
    file.facts.answers > 0 && entries.some(({ possiblyBilledTwice }) => possiblyBilledTwice > 0);
  const answered = sql`SELECT s.sent_hash AS hash FROM ${sql.raw(place.stage)} AS s WHERE s.kind = 'answer'
    UNION ALL SELECT out_hash FROM UNNEST(_etl_out_hashes) AS out_hash`;
  return [
    ...(content.learnt.length > 0 ? noteSubjects(names, learntRows, asker.runId) : []),
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
