import { type RawBuilder, sql } from "kysely";
import { type ClassCount, countsOf, type ReusedCount, sumOf, type WorkSize } from "../lookup-counts.ts";
import type { ParametersDecision } from "../parameters-decision.ts";
import { refreshPolicy } from "../parameters-decision.ts";
import { nextCheckpoint, type PassCheckpoint, readPassCheckpoint, recentBound } from "../pass-checkpoint.ts";
import type { Suppression } from "../suppression.ts";
import type { LookupCounts, LookupSpec, RunRef } from "../warehouse.ts";
import { classifiedAddresses, type ClassifyContext, classifiedRows, inputAddresses } from "./classify.ts";
import type { Reading } from "../foreign-database.ts";
import { type OpenedInput, openLocalInput } from "./foreign-input.ts";
import { differingEmails, emailStatements } from "./input-emails.ts";
import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";
import { changedStates, keepStatements, parametersStatements, refreshStatements } from "./parameters.ts";
import { openRejects, rejectStatements } from "./reject-unusable.ts";
import { reusableRows, reuseStatements } from "./reuse.ts";
import { runTables, type SelectionTables, temporaryTables } from "./selection-tables.ts";
import type { Session, TransactionWork } from "./session.ts";
import { declareKey, requireSameEpoch, suppressedText } from "./suppression.ts";
import { countRows } from "./table-load.ts";
import { groupedRecords, workRows } from "./work-table.ts";

/** Where a selection runs. */
export interface SelectContext {
  readonly session: Session;
  readonly names: DatasetNames;
  readonly spec: LookupSpec;
  readonly isMigrated: boolean;
  /** What was known of erasures when the selection began. */
  readonly suppression: Suppression;
  /** Opens an input of another database; null for one in BigQuery. */
  readonly openForeign: ((reading: Reading) => Promise<OpenedInput>) | null;
}

/** What a selection may change, and how: every transaction of the run goes through its lock. */
export interface Freeze {
  readonly run: RunRef;
  transaction<Row>(work: TransactionWork<Row>): Promise<Row[]>;
}

/** What a selection found. */
export interface Selected {
  readonly counts: LookupCounts;
  /** Rows of ours that the selection itself wrote: rejects, reused answers, `input_email`. */
  readonly rowsWritten: number;
  /** Where the cursor stands once everything that is due has been answered; null for a shard. */
  readonly checkpoint: PassCheckpoint | null;
}

/** What the program knows before it looks at the input. */
interface Known {
  readonly now: string;
  readonly checkpoint: PassCheckpoint | null;
  readonly decision: ParametersDecision;
  readonly isPolicyChanged: boolean;
}

async function readKnown({ session, names, spec, isMigrated }: SelectContext): Promise<Known> {
  if (!isMigrated) {
    return { now: new Date().toISOString(), checkpoint: null, decision: "accepted", isPolicyChanged: false };
  }
  const job = quoteLiteral(spec.job);
  const parameters = tableText(names, "ops", "job_parameters");
  const [row] = await session.rows<{
    now: string;
    checkpoint: string | null;
    parameters_hash: string | null;
    refresh_policy: string | null;
  }>(
    sql.raw(`SELECT CURRENT_TIMESTAMP() AS now,
      (SELECT TO_JSON_STRING(\`cursor\`) FROM ${tableText(names, "ops", "checkpoint")}
        WHERE job = ${job} AND stream = ${quoteLiteral(spec.input.name)}) AS checkpoint,
      (SELECT parameters_hash FROM ${parameters} WHERE job = ${job}) AS parameters_hash,
      (SELECT refresh_policy FROM ${parameters} WHERE job = ${job}) AS refresh_policy`),
  );
  const stored = row?.parameters_hash ?? null;
  const policy = row?.refresh_policy ?? null;
  return {
    now: row?.now ?? "",
    checkpoint: row?.checkpoint ? readPassCheckpoint(JSON.parse(row.checkpoint)) : null,
    decision:
      stored === null
        ? "first"
        : stored === spec.parametersHash
          ? "accepted"
          : (spec.acceptParameters ?? "undecided"),
    isPolicyChanged: policy !== null && policy !== refreshPolicy(spec),
  };
}

/** What the statements of a selection tell, one row a figure. */
interface FoundRow {
  readonly kind: "class" | "reused" | "group" | "kept" | "open" | "emails" | "cursor" | "changed";
  readonly a: string | null;
  readonly b: string | null;
  readonly flag: boolean;
  readonly n: number;
  readonly m: number;
}

/**
 * Classifies the whole input by the engine and freezes what is due in tables of the run, which nobody else touches; then, in
 * one transaction, unusable rows are rejected and fresh answers to equal content reused. Without a freeze it only counts.
 */
export async function selectDue(context: SelectContext, freeze: Freeze | null): Promise<Selected> {
  const { session, names, spec } = context;
  const isSharded = spec.shard !== null;
  const known = await readKnown(context);
  // A shard neither goes by the cursor nor moves it: it knows nothing of the other shards' rows.
  const checkpoint = isSharded ? null : known.checkpoint;
  const recent = recentBound(checkpoint, spec, known.now);
  const options = { type: spec.type, ranked: spec.maxRecords !== null, recent, isSharded };
  const opened = context.openForeign
    ? await context.openForeign(options)
    : await openLocalInput(session, spec, options);
  try {
    const changes = { isPolicyChanged: known.isPolicyChanged, keeps: known.decision === "keep" };
    const stored = tableText(names, "data", "lookup_state");
    const classify: ClassifyContext = {
      spec,
      names,
      parts: opened.parts,
      otherParts: opened.otherParts,
      rawRows: opened.rawRows,
      isMigrated: context.isMigrated,
      hasRank: options.ranked && spec.input.orderBy !== null,
      hasRecent: recent !== null && spec.input.cursor !== null,
      suppressed: context.suppression.key && suppressedText(names),
      states: !context.isMigrated ? null : freeze ? stored : changedStates(stored, spec, changes),
    };
    const prepare = [
      ...(changes.isPolicyChanged ? refreshStatements(names, spec) : []),
      ...(changes.keeps ? keepStatements(classify) : []),
    ];
    if (freeze && prepare.length > 0) {
      await freeze.transaction(guarded(context, [], prepare));
    }
    const found = await find({ context, classify, opened, decision: known.decision }, freeze);
    const selected = selectedOf(spec, found, known.decision);
    const rowsWritten = freeze
      ? await settle({ context, decision: known.decision, found, selected, opened }, freeze)
      : 0;
    return {
      ...selected,
      rowsWritten,
      checkpoint: isSharded
        ? null
        : nextCheckpoint(spec, cursorMaxOf(found), recent === null ? null : checkpoint, known.now),
    };
  } finally {
    await opened.close();
  }
}

interface Search {
  readonly context: SelectContext;
  readonly classify: ClassifyContext;
  readonly opened: OpenedInput;
  readonly decision: ParametersDecision;
}

function keyVariables({ key }: Suppression): readonly RawBuilder<unknown>[] {
  return key === null ? [] : declareKey(key);
}

/** Statements of a transaction, with the key, that end themselves when somebody was erased since the selection began. */
function guarded(
  { names, suppression }: SelectContext,
  declare: readonly string[],
  statements: readonly string[],
): TransactionWork<never> {
  return {
    declare: [...keyVariables(suppression), ...declare.map((text) => sql.raw(text))],
    statements: [
      requireSameEpoch(names, suppression),
      ...statements.map((text) => sql.raw(text.trim().replace(/;$/, ""))),
    ],
  };
}

/** Makes the tables of a selection and counts what is in them; a plan's last as long as its script. */
async function find(search: Search, freeze: Freeze | null): Promise<readonly FoundRow[]> {
  const { session, names, suppression } = search.context;
  const tables = freeze ? runTables(names, freeze.run) : temporaryTables;
  const statements = makeTables(search, tables, freeze !== null);
  return session.script<FoundRow>(
    [
      ...keyVariables(suppression).map((variable) => sql`DECLARE ${variable}`),
      ...statements.map((text) => sql.raw(text)),
    ],
    sql.raw(figuresOf(search, tables, freeze !== null)),
  );
}

function canReuse({ isMigrated, spec }: Pick<SelectContext, "isMigrated" | "spec">): boolean {
  return isMigrated && !spec.resend && spec.type !== "validate_emails";
}

function makeTables(
  { context, classify }: Search,
  tables: SelectionTables,
  isFrozen: boolean,
): readonly string[] {
  const { names, spec } = context;
  const isAddresses = spec.type === "validate_emails";
  const classified = isAddresses ? classifiedAddresses(classify, tables.addresses) : classifiedRows(classify);
  const ifDue = ["source_key", "input_hash", "sent_hash", "pid", "rank", "record"]
    .map((column) => `IF(class IN ('unchanged', 'waiting', 'suppressed'), NULL, ${column}) AS ${column}`)
    .join(", ");
  const isReusing = canReuse(context);
  return [
    ...(isAddresses ? [tables.create(tables.addresses, inputAddresses(classify))] : []),
    tables.create(
      tables.due,
      `SELECT class, prior, changed_parameters, occurrences, ${ifDue} FROM (${classified}) AS classified`,
    ),
    ...(isReusing ? [tables.create(tables.reused, reusableRows(classify.states ?? "", spec, tables))] : []),
    ...(isFrozen ? [tables.create(tables.work, workRows(names, spec, tables, isReusing))] : []),
  ];
}

function figure(kind: FoundRow["kind"], columns: string, from: string): string {
  return `SELECT '${kind}' AS kind, ${columns} FROM ${from}`;
}

function figuresOf(
  { context, classify, opened, decision }: Search,
  tables: SelectionTables,
  isFrozen: boolean,
): string {
  const { names, spec, isMigrated } = context;
  const isReusing = canReuse(context);
  const grouped = groupedRecords(tables, isReusing);
  const kept = isFrozen
    ? tables.work
    : spec.maxRecords === null
      ? `(${grouped})`
      : `(SELECT * FROM (${grouped}) ORDER BY rank NULLS LAST, sent_hash LIMIT ${spec.maxRecords})`;
  const isAddresses = spec.type === "validate_emails";
  const whole = { ...classify, spec: { ...spec, shard: null } };
  const wholeRows = isAddresses ? classifiedAddresses(whole, tables.addresses) : classifiedRows(whole);
  const none = "CAST(NULL AS STRING) AS a, CAST(NULL AS STRING) AS b, FALSE AS flag";
  return [
    figure(
      "class",
      "class AS a, prior AS b, changed_parameters AS flag, COUNT(*) AS n, SUM(occurrences) AS m",
      `${tables.due} GROUP BY class, prior, changed_parameters`,
    ),
    ...(isReusing
      ? [
          figure(
            "reused",
            "outcome AS a, prior AS b, FALSE AS flag, COUNT(*) AS n, 0 AS m",
            `${tables.reused} GROUP BY outcome, prior`,
          ),
        ]
      : []),
    figure("group", `${none}, COUNT(*) AS n, IFNULL(SUM(occurrences), 0) AS m`, `(${grouped}) AS g`),
    figure("kept", `${none}, COUNT(*) AS n, IFNULL(SUM(occurrences), 0) AS m`, `${kept} AS k`),
    ...(isMigrated
      ? [figure("open", `${none}, COUNT(*) AS n, 0 AS m`, `(${openRejects(names, spec)}) AS o`)]
      : []),
    ...(isAddresses && isFrozen
      ? [figure("emails", `${none}, COUNT(*) AS n, 0 AS m`, `(${differingEmails(names, spec, tables)}) AS e`)]
      : []),
    ...(decision === "undecided" && spec.shard !== null
      ? [
          figure(
            "changed",
            `${none}, 0 AS n, IFNULL(SUM(occurrences), 0) AS m`,
            `(${wholeRows}) AS whole WHERE changed_parameters`,
          ),
        ]
      : []),
    ...(opened.cursorMax === null
      ? []
      : [
          `SELECT 'cursor' AS kind, (${opened.cursorMax}) AS a, CAST(NULL AS STRING) AS b, FALSE AS flag, 0 AS n, 0 AS m`,
        ]),
  ].join("\nUNION ALL ");
}

function cursorMaxOf(found: readonly FoundRow[]): string | null {
  return found.find(({ kind }) => kind === "cursor")?.a ?? null;
}

function sizeOf(found: readonly FoundRow[]): WorkSize {
  const groups = found.find(({ kind }) => kind === "group");
  const kept = found.find(({ kind }) => kind === "kept");
  return { groups: groups?.n ?? 0, rows: groups?.m ?? 0, keptGroups: kept?.n ?? 0, keptRows: kept?.m ?? 0 };
}

function selectedOf(
  spec: LookupSpec,
  found: readonly FoundRow[],
  decision: ParametersDecision,
): { readonly counts: LookupCounts } {
  const classes = found
    .filter(({ kind }) => kind === "class")
    .map(
      ({ a, b, flag, n, m }): ClassCount => ({
        class: a ?? "",
        // What `outcome` holds.
        prior: b as ClassCount["prior"],
        changed_parameters: flag,
        rows: n,
        occurrences: m,
      }),
    );
  const reused = found
    .filter(({ kind }) => kind === "reused")
    .map(
      ({ a, b, n }): ReusedCount => ({
        prior: b as ReusedCount["prior"],
        outcome: a === "matched" ? "matched" : "unmatched",
        rows: n,
      }),
    );
  const wholeChanged = found.find(({ kind }) => kind === "changed");
  const parametersChanged =
    decision !== "undecided"
      ? 0
      : (wholeChanged?.m ?? sumOf(classes, ({ changed_parameters }) => changed_parameters));
  return { counts: { ...countsOf(spec, classes, reused, sizeOf(found)), parametersChanged } };
}

/** Writes what a selection does by itself, and drops the tables that nobody needs any more; returns the rows written. */
async function settle(
  of: {
    readonly context: SelectContext;
    readonly decision: ParametersDecision;
    readonly found: readonly FoundRow[];
    readonly selected: { readonly counts: LookupCounts };
    readonly opened: OpenedInput;
  },
  freeze: Freeze,
): Promise<number> {
  const { session, names, spec } = of.context;
  const { counts } = of.selected;
  const { run } = freeze;
  const tables = runTables(names, run);
  const place = { names, spec, tables, runId: run.runId };
  // Without the user's word on changed parameters nothing is sent, so nothing is frozen either.
  const isFrozen = counts.parametersChanged === 0;
  const has = (kind: FoundRow["kind"]) => of.found.some((row) => row.kind === kind && row.n > 0);
  const hasRejects = counts.rejectedBeforeSending > 0 || has("open");
  const rows = countRows([
    ...(has("emails") ? ["input_email"] : []),
    ...(isFrozen && counts.reused > 0
      ? ["match_history", spec.type === "enrich" ? "enrichment" : "resolution"]
      : []),
    ...(isFrozen && hasRejects ? ["reject"] : []),
  ]);
  const statements = [
    ...(has("emails") ? [emailStatements(place, rows.add)] : []),
    ...(isFrozen ? parametersStatements(names, spec, of.decision) : []),
    ...(isFrozen && counts.reused > 0 ? [reuseStatements(place, rows.add)] : []),
    ...(isFrozen && hasRejects ? [rejectStatements(place, rows.add)] : []),
    ...(rows.declare.length > 0 ? rows.touch(names, run) : []),
  ];
  const [written] =
    statements.length === 0
      ? []
      : await freeze.transaction<Record<string, number>>({
          ...guarded(of.context, rows.declare, statements),
          outcome: sql.raw(`SELECT ${rows.declare.length === 0 ? "0 AS none" : rows.outcome}`),
        });
  const done = [tables.due, tables.reused, tables.addresses, ...(isFrozen ? [] : [tables.work])];
  await session.script(done.map((table) => sql.raw(`DROP TABLE IF EXISTS ${table}`)));
  return Object.values(written ?? {}).reduce((sum, n) => sum + n, 0);
}
