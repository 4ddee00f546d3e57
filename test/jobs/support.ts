import type { InputConfig } from "../../src/config/config.ts";
import type { LookupJobConfig } from "../../src/jobs/lookup/lookup-types.ts";
import { zeroCounters } from "../../src/jobs/job.ts";
import type { LookupCounts } from "../../src/load/lookups/counts.ts";
import type { LookupRecord } from "../../src/load/lookups/lookup.ts";
import type { PastRun } from "../../src/load/runs/status.ts";

/** An input with every kind of field. */
export const customers: InputConfig = {
  name: "customers",
  source: { kind: "table", schema: "crm", table: "customers" },
  connection: null,
  where: null,
  orderBy: null,
  key: ["id"],
  normalize: false,
  onMissing: "keep",
  maxMissingRatio: 0.1,
  fields: {
    first_name: ["first_name"],
    last_name: ["last_name"],
    emails: ["email", "work_email"],
    phones: ["phone"],
    city: ["town"],
  },
};

const base = {
  enabled: true,
  after: [],
  schedule: null,
  timezone: "UTC",
  input: customers,
  refreshAfterMs: null,
  refreshUnmatchedAfterMs: null,
  maxRecordsPerRun: null,
  pidFrom: null,
  validEmailsFrom: null,
  returnFields: [],
  matchConditionFields: [],
  includePremiumFields: false,
};

/** Minimal jobs of each type. */
export const resolveJob: LookupJobConfig = { ...base, name: "resolve_customers", type: "resolve" };
export const validateJob: LookupJobConfig = { ...base, name: "validate_customers", type: "validate_emails" };
export const enrichJob: LookupJobConfig = { ...base, name: "enrich_customers", type: "enrich" };

const noGroups = { sentAgain: { matched: 0, unmatched: 0 }, withPid: 0, others: 0 };

/** Counts of a selection, zero by default. */
export function countsOf(counts: Partial<LookupCounts>): LookupCounts {
  return {
    read: 0,
    isQuiet: false,
    unchanged: 0,
    due: 0,
    dueReasons: {},
    duplicate: 0,
    reused: 0,
    waiting: 0,
    suppressed: 0,
    rejectedBeforeSending: 0,
    rejectReasons: {},
    unusableKeys: 0,
    remaining: 0,
    toSend: 0,
    rowsToSend: counts.toSend ?? 0,
    parametersChanged: 0,
    answeredBefore: 0,
    groups: { due: noGroups, toSend: noGroups },
    waitingRecords: 0,
    history: { withPid: { answered: 0, matched: 0 }, others: { answered: 0, matched: 0 } },
    ...counts,
  };
}

/** A past run. */
export function pastRun(run: Partial<PastRun>): PastRun {
  return {
    ...zeroCounters,
    run_id: "earlier",
    shard: "0/1",
    job: "enrich_customers",
    status: "succeeded",
    limited_by: null,
    started_at: "2026-11-20T01:00:00+00:00",
    finished_at: "2026-11-20T02:00:00+00:00",
    records_due: 0,
    error: null,
    ...run,
  };
}

/** A record without values. */
export function recordOf(recordId: string): LookupRecord {
  return { recordId, json: "{}", content: "00", sentPid: null };
}
