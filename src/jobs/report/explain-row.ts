import { limitText } from "../../advice.ts";
import type { InputConfig } from "../../config/config.ts";
import { countText, timeText } from "../../figures.ts";
import type { ShownRequest } from "../job-type.ts";
import { type Cap, limitsOf, lookupSpecOf, tightestCap, usedOf } from "../lookup/lookup-spec.ts";
import { isLookupJob, type LookupJobConfig } from "../lookup/lookup-types.ts";
import { shownRequests } from "../lookup/plan-lookup.ts";
import { inspectInputs } from "../prepare.ts";
import { type JobServices, plainRun, wholeInput } from "../services.ts";
import { inputSourceOf, throwProblems } from "../sources.ts";
import type { Db } from "../../load/db/db.ts";
import type { RowKey } from "../../load/inputs/input.ts";
import { readBudgetUse } from "../../load/ledger/reserve.ts";
import type { DueReason } from "../../load/lookups/counts.ts";
import {
  type ClassifiedRow,
  classifyRow,
  findSourceKey,
  isRowErased,
  readRowFacts,
  type RowFacts,
  type StoredState,
} from "../../load/lookups/explain-row.ts";
import type { GivenKey } from "../../load/lookups/see-input.ts";
import {
  countRejects,
  listRejects,
  type RejectFilter,
  type RejectGroup,
  type StoredReject,
} from "../../load/runs/rejects.ts";
import { lastRuns, type PastRun } from "../../load/runs/status.ts";
import { explainReject, rejectCodes } from "../../schemas/reject-codes.ts";

/** Output of `explain --json`. Holds personal data. */
export interface RowExplanation {
  readonly source: string;
  /** Key as stored in tables. */
  readonly source_key: string;
  readonly is_in_input: boolean;
  /** True if the table has the row, but `where:` leaves it out. */
  readonly is_left_out_by_where: boolean;
  /** True if the row was erased by its key. */
  readonly is_erased: boolean;
  /** True if the input or a table has the row. */
  readonly is_known: boolean;
  readonly missing_since: string | null;
  readonly jobs: readonly ExplainedJob[];
  readonly emails: RowFacts["emails"];
  /** Open rejects of the row, or of one of its addresses. */
  readonly rejects: readonly Omit<StoredReject, "source" | "source_key" | "resolved_at">[];
  readonly calls: RowFacts["calls"];
}

export interface ExplainedJob {
  readonly job: string;
  readonly type: string;
  readonly is_enabled: boolean;
  /** Usually one; several if the key isn't unique, one for each address for validate_emails. */
  readonly rows: readonly ExplainedRow[];
  /** Last answer of resolve and enrich; null without one. */
  readonly result: Omit<RowFacts["resolutions"][number], "job"> | null;
  /** Request for this row alone, due or not; null if it can't be sent as things stand. */
  readonly request: ShownRequest | null;
  /** Limits that may leave a due row for a later run; null for none. */
  readonly delay: string | null;
}

/** One row, or one address, in one job. */
export interface ExplainedRow extends Verdict {
  /** For validate_emails. */
  readonly address?: string;
  /** Last answer; null if it never had one. */
  readonly state: Omit<RowFacts["states"][number], "job" | "source_key"> | null;
}

const MAX_REJECTS = 20;

/**
 * Explains why one input row is due or isn't in each job of its input, with its results; sends and changes nothing.
 * @param given key as typed
 */
export async function explainRow(
  services: Pick<JobServices, "config" | "db">,
  input: InputConfig,
  given: GivenKey,
): Promise<RowExplanation> {
  const { config, db } = services;
  const jobs = config.jobs.filter(isLookupJob).filter((job) => job.input.name === input.name);
  const { problems } = await inspectInputs(config, db, jobs);
  throwProblems(problems);
  const source = await inputSourceOf(input, []);
  const found = await findSourceKey(db, source, given);
  const key = { key: given.key, sourceKey: found ?? given.sourceKey };
  const isLeftOut =
    found === null &&
    input.where !== null &&
    (await findSourceKey(db, { ...source, where: null }, given)) !== null;
  const classes = new Map<string, Awaited<ReturnType<typeof classifyRow>>>();
  const specs = await Promise.all(jobs.map((job) => lookupSpecOf(job, plainRun)));
  for (const spec of found === null ? [] : specs) classes.set(spec.job, await classifyRow(db, spec, key));
  const addresses = jobs
    .filter(({ type }) => type === "validate_emails")
    .flatMap(({ name }) => classes.get(name)?.rows ?? [])
    .flatMap((row) => addressOf(row) ?? []);
  const row = { source: input.name, sourceKey: key.sourceKey };
  const facts = await readRowFacts(db, row, specs, addresses);
  const isErased = await isRowErased(db, row.source, row.sourceKey);
  const rows = [row, ...addresses.map((sourceKey) => ({ source: input.name, sourceKey }))];
  const rejects = await listRejects(db, { jobs: [], codes: [], rows }, { all: false, limit: MAX_REJECTS });
  const uses = await readBudgetUse(db);
  const explained: ExplainedJob[] = [];
  for (const job of jobs) {
    const cap = tightestCap(
      limitsOf(config, job, null, wholeInput),
      usedOf(uses, job.type, { run: 0, shard: 0 }),
    );
    const [lastRun = null] = await lastRuns(db, job.name, 1);
    const circumstances = {
      cap,
      lastRun,
      isUndecided: classes.get(job.name)?.isUndecided ?? false,
      pidFrom: job.pidFrom,
      rejectCodes: rejects.filter((reject) => reject.job === job.name).map(({ code }) => code),
      row,
    };
    explained.push(explainJob(job, classes.get(job.name)?.rows ?? [], facts, circumstances));
  }
  const isStored = facts.states.length + facts.emails.length + rejects.length > 0 || facts.missing !== null;
  return {
    source: row.source,
    source_key: row.sourceKey,
    is_in_input: found !== null,
    is_left_out_by_where: isLeftOut,
    is_erased: isErased,
    is_known: found !== null || isLeftOut || isErased || isStored,
    missing_since: facts.missing?.missing_since ?? null,
    jobs: explained,
    emails: facts.emails,
    rejects: rejects.map(({ source: _source, source_key: _key, resolved_at: _at, ...reject }) => reject),
    calls: facts.calls,
  };
}

function explainJob(
  job: LookupJobConfig,
  found: readonly ClassifiedRow[],
  facts: RowFacts,
  circumstances: Circumstances,
): ExplainedJob {
  const isAddresses = job.type === "validate_emails";
  const rows = found.map((row): ExplainedRow => {
    const address = isAddresses ? addressOf(row) : null;
    const key = address ?? circumstances.row.sourceKey;
    const stored = facts.states.find((one) => one.job === job.name && one.source_key === key) ?? null;
    return {
      ...(address === null ? {} : { address }),
      ...verdictOn(row, stored, circumstances),
      state: stored && withoutNames(stored),
    };
  });
  const results = { resolve: facts.resolutions, enrich: facts.enrichments, validate_emails: [] }[job.type];
  const result = results.find((one) => one.job === job.name);
  return {
    job: job.name,
    type: job.type,
    is_enabled: job.enabled,
    rows,
    result: result ? withoutNames(result) : null,
    request: requestOf(
      job,
      found.filter((_, i) => canBeSent(rows[i])),
    ),
    delay: rows.some(({ verdict }) => verdict === "due") ? delayText(circumstances) : null,
  };
}

function withoutNames<Row extends { readonly job: string; readonly source_key?: string }>({
  job: _job,
  source_key: _key,
  ...row
}: Row) {
  return row;
}

function addressOf({ record }: ClassifiedRow): string | null {
  return record === null ? null : String(JSON.parse(record));
}

/** True if a run sends the row now or whenever it is due. */
function canBeSent(row: Verdict | undefined): boolean {
  if (!row || row.verdict === "waiting" || row.verdict === "suppressed") return false;
  return row.verdict !== "rejected" || (row.reason !== null && explainReject(row.reason).stage !== "input");
}

/** Request with these records alone, built like those of a run. */
function requestOf(job: LookupJobConfig, rows: readonly ClassifiedRow[]): ShownRequest | null {
  const items = rows.flatMap(({ record, recordId }) => (record === null ? [] : [{ recordId, json: record }]));
  return shownRequests(job, items, 1)[0] ?? null;
}

interface Verdict {
  readonly verdict: "due" | "unchanged" | "duplicate" | "waiting" | "rejected" | "suppressed";
  /** Reason why it is due (also of a duplicate), reject code, or job that it waits for; null for none. */
  readonly reason: string | null;
  readonly explanation: string;
  /** Next step; null for none. */
  readonly advice: string | null;
}

interface Circumstances {
  /** Records that the next run can send; null for no limit. */
  readonly cap: Cap | null;
  readonly lastRun: PastRun | null;
  readonly isUndecided: boolean;
  readonly pidFrom: string | null;
  /** Codes of the row's open rejects in the job, newest first. */
  readonly rejectCodes: readonly string[];
  readonly row: RowKey;
}

/** Explains the class that a run would give to a row. */
function verdictOn(
  { class: found, prior }: ClassifiedRow,
  state: StoredState | null,
  { pidFrom, row, rejectCodes }: Circumstances,
): Verdict {
  const verdict = (name: Verdict["verdict"], explanation: string, reason: string | null = null) => ({
    verdict: name,
    reason,
    explanation,
    advice: null,
  });
  const answered = state?.answered_at ? ` on ${timeText(state.answered_at)}` : "";
  if (found === "suppressed")
    return verdict("suppressed", "belongs to an erased person and will never be sent");
  if (found === "waiting") {
    return verdict("waiting", `${pidFrom ?? "another job"} hasn't processed its current values yet`, pidFrom);
  }
  if (found === "reused") {
    const explanation = `a row with the same values was already processed${answered}: the next run copies its result without a call`;
    return verdict("duplicate", explanation);
  }
  const isRejected = found === "unchanged" && prior === "rejected";
  const code = isRejected ? rejectCodes[0] : /^reject:(.*)$/su.exec(found)?.[1];
  if (code !== undefined) {
    const { means, todo } = explainReject(code);
    if (!isRejected)
      return { ...verdict("rejected", `rejected before sending. ${means}`, code), advice: todo };
    const retry = `person-etl rejects retry --source-key '${row.source}/${row.sourceKey}'`;
    const advice = `${todo} To send it again unchanged: ${retry}`;
    return { ...verdict("rejected", `unchanged since it was rejected. ${means}`, code), advice };
  }
  if (isRejected) {
    const advice = "It is sent again after it changes.";
    return { ...verdict("rejected", "unchanged since it was rejected; the reject was dropped"), advice };
  }
  if (found === "unchanged") {
    const fresh = state?.due_at ? `up to date until ${timeText(state.due_at)}` : "its response never expires";
    return verdict("unchanged", `unchanged since it was processed${answered}; ${fresh}`);
  }
  const dueTexts: Readonly<Record<DueReason, string>> = {
    never_answered: "not processed yet",
    content_changed: `its values or the mapping changed since it was processed${answered}`,
    retried: "a retry of its reject was requested",
    parameters_changed: `processed${answered} with another mapping or other parameters`,
    pid_changed: `${pidFrom ?? "the resolve job"} found another PID than the one sent`,
    expired: `its response expired${state?.due_at ? ` on ${timeText(state.due_at)}` : ""}`,
    resend: "a resend is in progress",
  };
  // All other classes are reasons.
  return verdict("due", dueTexts[found as DueReason], found);
}

function delayText({ cap, lastRun, isUndecided }: Circumstances): string | null {
  const parts: string[] = [];
  if (isUndecided) {
    parts.push(
      "The mapping or the parameters changed: the next run may ask for --accept-parameters first, as `plan` shows.",
    );
  }
  if (cap !== null) {
    const most = countText(cap.records, "record");
    parts.push(
      `The next run stops at ${limitText(cap.limitedBy)} (${most}), so the row may wait for a later run.`,
    );
  }
  if (lastRun?.status === "limited" && lastRun.limited_by !== null) {
    const left = countText(lastRun.records_remaining, "row");
    parts.push(`The last run stopped at ${limitText(lastRun.limited_by)}; ${left} remained.`);
  }
  return parts.length === 0 ? null : parts.join(" ");
}

/** Output of `rejects list --json`. */
export interface RejectReport {
  /** Number of selected rejects, including those not listed. */
  readonly rejects: number;
  readonly groups: readonly (RejectGroup & { readonly means: string; readonly what_to_do: string })[];
  readonly records: readonly StoredReject[];
}

/** Codes of records that this program rejects; the service's come with its responses. */
export const ownRejectCodes: readonly string[] = Object.keys(rejectCodes);

/** Meaning of a reject code, as a sentence. */
export function meaningOf(code: string): string {
  return explainReject(code).means;
}

export async function readRejects(
  db: Db,
  filter: RejectFilter,
  options: { readonly all: boolean; readonly limit: number },
): Promise<RejectReport> {
  const groups = await countRejects(db, filter, options);
  return {
    rejects: groups.reduce((sum, group) => sum + group.rejects, 0),
    groups: groups.map((group) => {
      const { means, todo } = explainReject(group.code);
      return { ...group, means, what_to_do: todo };
    }),
    records: await listRejects(db, filter, options),
  };
}
