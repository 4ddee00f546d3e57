import type { InputConfig } from "../../config/config.ts";
import { firstRequests } from "../../extract/requests.ts";
import {
  type ClassifiedRow,
  classifyRow,
  findSourceKey,
  isRowErased,
  readRowFacts,
  type RowFacts,
} from "../../load/lookups/explain-row.ts";
import type { GivenKey } from "../../load/lookups/see-input.ts";
import { readBudgetUse } from "../../load/ledger/budget-rows.ts";
import { lastRuns } from "../../load/runs/job-status.ts";
import { listRejects } from "../../load/runs/rejects.ts";
import { explainReject } from "../../schemas/reject-codes.ts";
import type { JobServices } from "../services.ts";
import { wholeInput } from "../shard.ts";
import { limitsOf, tightestCap, usedOf } from "../lookup/caps.ts";
import { inputSourceOf, lookupSpecOf, plainRequest } from "../lookup/lookup-spec.ts";
import type { LookupJobConfig } from "../lookup/lookup-type.ts";
import { bindLookup, isLookupJob } from "../lookup/lookup-types.ts";
import { shownRequest } from "../lookup/plan-lookup.ts";
import { inspectInputs } from "../verify-inputs.ts";
import { throwProblems } from "../read-source.ts";
import { type Circumstances, delayText, type Verdict, verdictOn } from "./row-verdict.ts";
import type { ShownRequest } from "./job-plan.ts";

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
  readonly rejects: readonly ExplainedReject[];
  readonly calls: RowFacts["calls"];
}

/** A row in one job. */
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

/** An open reject of the row, or of one of its addresses. */
interface ExplainedReject {
  readonly job: string;
  readonly stage: string;
  readonly code: string;
  readonly message: string;
  readonly details: unknown;
  readonly created_at: string;
}

/** Rejects shown per row. */
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
  const specs = await Promise.all(jobs.map((job) => lookupSpecOf(job, plainRequest)));
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
      pidFrom: bindLookup(job).pidFrom,
      rejectCodes: rejects.filter((reject) => reject.job === job.name).map(({ code }) => code),
      row,
    };
    explained.push(explainJob(job, { facts, found: classes.get(job.name)?.rows ?? [], circumstances }));
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
    rejects: rejects.map(({ job, stage, code, message, details, createdAt }) => ({
      job,
      stage,
      code,
      message,
      details,
      created_at: createdAt,
    })),
    calls: facts.calls,
  };
}

function explainJob(
  job: LookupJobConfig,
  {
    facts,
    found,
    circumstances,
  }: {
    readonly facts: RowFacts;
    readonly found: readonly ClassifiedRow[];
    readonly circumstances: Circumstances;
  },
): ExplainedJob {
  const isAddresses = job.type === "validate_emails";
  const states = facts.states.filter((state) => state.job === job.name);
  const stateOf = (key: string) => states.find((state) => state.source_key === key) ?? null;
  const rows = found.map((row): ExplainedRow => {
    const address = isAddresses ? addressOf(row) : null;
    const state = stateOf(address ?? circumstances.row.sourceKey);
    return {
      ...(address === null ? {} : { address }),
      ...verdictOn(row, state, circumstances),
      state: state && withoutKey(state),
    };
  });
  const sendable = found.filter((_, i) => canBeSent(rows[i]));
  const results = job.type === "resolve" ? facts.resolutions : facts.enrichments;
  const result = isAddresses ? undefined : results.find((one) => one.job === job.name);
  return {
    job: job.name,
    type: job.type,
    is_enabled: job.enabled,
    rows,
    result: result ? withoutJob(result) : null,
    request: requestOf(job, sendable),
    delay: rows.some(({ verdict }) => verdict === "due") ? delayText(circumstances) : null,
  };
}

function withoutJob({ job: _job, ...result }: RowFacts["resolutions"][number]) {
  return result;
}

function withoutKey({ job: _job, source_key: _key, ...state }: RowFacts["states"][number]) {
  return state;
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
  const { endpoint, requestParameters: parameters } = bindLookup(job);
  const items = rows.flatMap(({ record, recordId }) => (record === null ? [] : [{ recordId, json: record }]));
  const [request] = firstRequests(endpoint, parameters, items, 1);
  return request ? shownRequest(request) : null;
}
