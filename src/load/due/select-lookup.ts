import { type RawBuilder, sql } from "kysely";
import { type ClassCount, countsOf, sumOf, type LookupCounts } from "./lookup-counts.ts";
import { isFirstTime, type RandomSample, readRandomSample, stratumOf } from "./strata.ts";
import type { ForeignDatabase, Reading } from "../inputs/foreign-database.ts";
import { rejectUnusable } from "./reject-unusable.ts";
import { reuseAnswers, takeReusable } from "./reuse.ts";
import {
  applyRefreshPolicy,
  keepAnswers,
  readParameters,
  writeParameters,
  resendBefore,
  type ParametersDecision,
} from "./parameters.ts";
import {
  candidateKeys,
  findCandidates,
  hasFingerprints,
  type QuietCount,
  storeFingerprints,
  TO_CLASSIFY,
} from "./find-candidates.ts";
import { classifiedAddresses, type ClassifyContext, classifiedRows, inputAddresses } from "./classify.ts";
import { createFromInput, FENCE } from "../inputs/create-from-input.ts";
import { type OpenedInput, openForeignInput, openLocalInput } from "../inputs/foreign-input.ts";
import { raw } from "../inputs/input.ts";
import { ownsKey } from "./shard-rows.ts";
import { touchTables } from "../ledger/ledger.ts";
import { markCandidates, markPresent } from "../answers/is-present.ts";
import { answerTables } from "../answers/load-answers.ts";
import { syncInputEmails } from "./input-emails.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { type Session, withRolePath } from "../db/session.ts";
import type { Suppression } from "../erasure/suppression.ts";
import { suppressedSql } from "../erasure/suppressed-sql.ts";
import { fillWorkTables } from "./work-table.ts";
import type { WorkTables } from "./lookup-record.ts";
import type { LookupSpec } from "./lookup-spec.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Context of a selection. */
export interface SelectContext {
  readonly session: Session;
  readonly names: SchemaNames;
  readonly spec: LookupSpec;
  /** Database of the input; null for the warehouse. */
  readonly foreign: ForeignDatabase | null;
  readonly suppression: Suppression;
}

/** Result of a selection. */
export interface Selected {
  readonly counts: LookupCounts;
  /** Rows written by the selection itself: rejects, reused answers, `input_email`. */
  readonly rowsWritten: number;
}

/**
 * Classifies the whole input in the current transaction and freezes what is due: rejects unusable rows, reuses fresh
 * answers for equal content, and groups the rest by content into the work tables. Without `freeze`, only counts.
 */
export async function selectDue(
  context: SelectContext,
  freeze: { readonly run: RunRef; readonly tables: WorkTables } | null,
): Promise<Selected> {
  const { session, names, spec } = context;
  const written = new Map<string, number>();
  const touch = (table: string, rows: number) => void written.set(table, (written.get(table) ?? 0) + rows);
  const read = await withRolePath(session, () =>
    readInput(context, freeze ? { runId: freeze.run.runId, touch } : null),
  );
  const { decision, resend, classCounts, parametersChanged } = read;
  // Without the user's word on changed parameters nothing is sent, so nothing is frozen either.
  const frozen = parametersChanged > 0 ? null : freeze;
  const { job, type, input, shard } = spec;
  const answers = type === "validate_emails" ? null : { job, type, source: input.name, shard };
  // Without candidates, whole inputs are joined to tables that may lack statistics: nested loops would take hours.
  if (!read.quiet) await session.client.query("SET LOCAL enable_nestloop = off");
  if (frozen) await writeParameters(session, names, spec, decision);
  if (frozen && answers) {
    const mark = read.quiet ? markCandidates : markPresent;
    touch(answerTables[answers.type].table, await mark(session, names, answers));
    await storeFingerprints(session, names, spec, read.quiet !== null);
  }
  const reused = frozen
    ? await reuseAnswers({ session, names, runId: frozen.run.runId, touch }, spec, resend)
    : await takeReusable(session, names, spec, resend);
  if (frozen) touch("reject", await rejectUnusable(session, names, spec, frozen.run));
  const work = await fillWorkTables(session, names, spec, frozen);
  const counts = countsOf(spec, classCounts, reused, work);
  const waiting = freeze === null && spec.pidFrom !== null ? await countWaiting(session, names, spec) : 0;
  const changed = [...written].filter(([, rows]) => rows > 0);
  if (freeze) {
    await touchTables(
      session,
      names,
      freeze.run,
      changed.map(([table]) => table),
    );
  }
  return {
    rowsWritten: changed.reduce((sum, [, rows]) => sum + rows, 0),
    counts: {
      ...counts,
      ...(spec.type === "validate_emails" ? { unusableKeys: await countUnusableKeys(session, spec) } : {}),
      parametersChanged,
      strata: { ...work, waiting, sample: await sampleFor(context, counts, { ...work, waiting }) },
    },
  };
}

/** Counts addresses in rows without a usable key; reads the temporary table `input_address`. */
async function countUnusableKeys(session: Session, { shard }: LookupSpec): Promise<number> {
  const [found] = await session.rows(sql<{ readonly addresses: number }>`
    SELECT count(*) AS addresses FROM pg_temp.input_address
    WHERE (copy > 1 OR source_key IS NULL) AND email_address IS NOT NULL AND NOT is_suppressed
      AND ${raw(ownsKey(shard, "email_address"))}`);
  return found?.addresses ?? 0;
}

/** Reads the sample that first-time records can be judged by; null if there are none, or nothing was answered. */
async function sampleFor(
  { session, names, spec }: SelectContext,
  { answeredBefore, states }: Pick<LookupCounts, "answeredBefore" | "states">,
  { toSend, waiting }: Omit<LookupCounts["strata"], "sample">,
): Promise<RandomSample | null> {
  if (spec.type === "validate_emails" || answeredBefore === 0) return null;
  const isNeeded = waiting > 0 || toSend.some(({ stratum }) => isFirstTime(stratum));
  return isNeeded ? await readRandomSample(session, names, spec, states.rows) : null;
}

/** Counts the distinct records behind waiting rows, without those whose content was answered for another row. */
async function countWaiting(session: Session, names: SchemaNames, spec: LookupSpec): Promise<number> {
  const [found] = await session.rows<{ records: number }>(sql`
    SELECT count(DISTINCT input_hash) AS records FROM pg_temp.classified_row AS w
    WHERE class = 'waiting' AND NOT EXISTS (SELECT FROM ${tableId(names, "lookup_state")} AS s
      WHERE s.job = ${spec.job} AND s.source = ${spec.input.name} AND s.parameters_hash = ${spec.parametersHash}
        AND s.outcome <> 'rejected' AND s.input_hash = w.input_hash)`);
  return found?.records ?? 0;
}

/** A classified input. */
interface ReadInput {
  readonly decision: ParametersDecision;
  /** Answers of calls with a lower number are due again; null for none. */
  readonly resend: number | null;
  readonly classCounts: readonly ClassCount[];
  /** Rows that were not classified because their fingerprints are the stored ones; null if all were. */
  readonly quiet: readonly QuietCount[] | null;
  /** Rows with answers to other parameters, waiting for the user's decision. */
  readonly parametersChanged: number;
}

/** An input opened for classification. */
interface OpenedClassification {
  readonly opened: OpenedInput;
  readonly quiet: readonly QuietCount[] | null;
  /** Classifies without `--resend`. */
  readonly unmarked: ClassifyContext;
  readonly decision: ParametersDecision;
}

/**
 * Opens the input, and prepares its classification as the parameters and the refresh policy require.
 * @param only key of the only row to classify, with its stored text; null for all rows
 */
export async function openClassification(
  { session, names, spec, foreign, suppression }: SelectContext,
  only: { readonly key: readonly string[]; readonly sourceKey: string } | null = null,
): Promise<OpenedClassification> {
  const isSharded = spec.shard !== null;
  const options = {
    type: spec.type,
    ranked: spec.maxRecords !== null,
    isSharded,
    ...(only ? { only: only.key } : {}),
  };
  const decision = await readParameters(session, names, spec);
  // A plan also does this (and rolls back), so that it finds the same rows as the run.
  await applyRefreshPolicy(session, names, spec);
  const open = (reading: Reading) =>
    foreign
      ? openForeignInput(session, foreign, spec.input, reading)
      : openLocalInput(session, spec.input, reading);
  const isRowJob = spec.type !== "validate_emails";
  const keys =
    isRowJob &&
    !only &&
    !isSharded &&
    !spec.resend &&
    decision === "accepted" &&
    (await hasFingerprints(session, names, spec))
      ? await open({ ...options, ranked: false, hasFingerprint: true, isWithoutValues: true })
      : null;
  const quiet = keys && (await findCandidates(session, names, spec, keys));
  const among = foreign ? { keys: quiet ? await candidateKeys(session) : [] } : { query: TO_CLASSIFY };
  const opened = await open({ ...options, hasFingerprint: isRowJob, ...(quiet ? { among } : {}) });
  const unmarked: ClassifyContext = {
    spec,
    names,
    parts: opened.parts,
    otherParts: opened.otherParts,
    rawRows: only
      ? sql`SELECT * FROM (${raw(opened.rawRows)}) AS one WHERE source_key = ${only.sourceKey}`
      : raw(opened.rawRows),
    hasRank: options.ranked && spec.input.orderBy !== null,
    resendBefore: null,
    keyIsUnique: opened.keyIsUnique,
    hasFingerprint: isRowJob,
    withRecords: only !== null,
    suppressed: suppression.key && suppressedSql(names, suppression.key),
  };
  if (decision === "keep") await keepAnswers(session, names, unmarked);
  if (spec.type === "validate_emails") {
    await createFromInput(session, "input_address", inputAddresses(unmarked));
  }
  return { opened, quiet, unmarked, decision };
}

/** Runs all statements that read the input, and thereby the user's SQL; leaves their results in temporary tables. */
async function readInput(
  context: SelectContext,
  run: { readonly runId: string; readonly touch: (table: string, rows: number) => void } | null,
): Promise<ReadInput> {
  const { session, names, spec } = context;
  const isSharded = spec.shard !== null;
  const { opened, quiet, unmarked, decision } = await openClassification(context);
  const resend = spec.resend
    ? await resendBefore(session, names, spec, run?.runId ?? null, (before) =>
        isResending(session, unmarked, before),
      )
    : null;
  const classify = { ...unmarked, resendBefore: resend };
  const classCounts = [
    ...(await classifyInto(session, classify, run?.touch ?? null)),
    ...(quiet ?? []).map(unchanged),
  ];
  if (run && spec.shard?.index === 0) {
    await createFromInput(
      session,
      "input_key",
      sql`SELECT source_key FROM (${raw(opened.rawRows)}) AS r WHERE source_key IS NOT NULL`,
    );
  }
  const parametersChanged =
    decision !== "undecided"
      ? 0
      : isSharded
        ? await countChangedParameters(session, { ...classify, spec: { ...spec, shard: null } })
        : sumOf(classCounts, (count) => count.changed_parameters);
  return {
    decision,
    resend,
    classCounts,
    quiet,
    parametersChanged,
  };
}

function unchanged({ prior, rows }: QuietCount): ClassCount {
  return { class: "unchanged", prior, changed_parameters: false, rows, occurrences: rows };
}

/**
 * Classifies all rows into the temporary table `classified_row`, with views of it: `due_row` without unchanged, waiting and
 * suppressed rows; `known_row` with those that have a state; `new_print` with the fingerprints to store. Counts all classes.
 */
export async function classifyInto(
  session: Session,
  classify: ClassifyContext,
  touch: ((table: string, rows: number) => void) | null,
): Promise<readonly ClassCount[]> {
  if (classify.spec.type === "validate_emails" && touch) {
    touch("input_email", await syncInputEmails(session, classify.names, classify.spec));
  }
  const { rows, occurrences } = classified(classify);
  await createFromInput(
    session,
    "classified_row",
    sql`SELECT source_key, class, prior, coalesce(changed_parameters, false) AS changed_parameters, is_current, input_hash, sent_hash,
      pid, ${stratumOf(classify.spec)} AS stratum, rank, record, ${occurrences} AS occurrences, fingerprint, prior_print, new_print
    FROM (${rows} ${raw(FENCE)}) AS c`,
  );
  await session.client.query(`
    CREATE TEMP VIEW due_row AS SELECT * FROM pg_temp.classified_row WHERE class NOT IN ('unchanged', 'waiting', 'suppressed');
    CREATE TEMP VIEW known_row AS SELECT source_key, prior = 'matched' AND is_current AS is_current FROM pg_temp.classified_row
      WHERE prior IS NOT NULL AND class <> 'reject:duplicate_key';
    CREATE TEMP VIEW new_print AS SELECT source_key, new_print AS fingerprint FROM pg_temp.classified_row
      WHERE prior IS NOT NULL AND new_print IS DISTINCT FROM prior_print`);
  return session.rows(sql<ClassCount>`
    SELECT class, prior, changed_parameters, count(*) AS rows, sum(occurrences)::bigint AS occurrences
    FROM pg_temp.classified_row GROUP BY 1, 2, 3`);
}

/** All rows of the input, or addresses, with their class. */
function classified(classify: ClassifyContext): {
  readonly rows: RawBuilder<unknown>;
  readonly occurrences: RawBuilder<unknown>;
} {
  return classify.spec.type === "validate_emails"
    ? { rows: classifiedAddresses(classify), occurrences: raw("occurrences") }
    : { rows: classifiedRows(classify), occurrences: raw("1::bigint") };
}

/** True if rows of the whole input are still unanswered in the current resend. */
async function isResending(session: Session, context: ClassifyContext, before: number): Promise<boolean> {
  const { rows } = classified({ ...context, spec: { ...context.spec, shard: null }, resendBefore: before });
  const resending = sql`SELECT FROM (${rows}) AS c WHERE class = 'resend' LIMIT 1`;
  return (await session.readOnly(() => session.rows(resending))).length > 0;
}

/** Counts rows of the whole input bought with other parameters: no shard continues until the user has decided. */
async function countChangedParameters(session: Session, classify: ClassifyContext): Promise<number> {
  const { rows, occurrences } = classified(classify);
  const counting = sql<{ occurrences: number }>`
    SELECT coalesce(sum(${occurrences}), 0)::bigint AS occurrences FROM (${rows}) AS classified WHERE changed_parameters`;
  const [changed] = await session.readOnly(() => session.rows(counting));
  return changed?.occurrences ?? 0;
}
