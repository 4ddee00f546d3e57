import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { RunReport } from "../jobs/run.ts";
import { type Status, unaccountedRows } from "../jobs/run-report.ts";
import type { JobStatusReport, StatusReport } from "../jobs/report/status.ts";
import type { CallObserver } from "./measured-http.ts";

/** Counters of `run --json` for outcomes of input rows. */
const OUTCOMES = [
  "unchanged",
  "duplicate",
  "suppressed",
  "waiting",
  "sent",
  "matched",
  "rejected",
  "rejected_before_sending",
  "remaining",
] as const;

/** Ends of runs that are counted. */
const STATUSES: readonly Status[] = ["succeeded", "limited", "failed", "skipped", "interrupted", "locked"];

/** Metrics of `/metrics`. No label comes from a record. */
interface Metrics extends CallObserver {
  /** Counts a run. */
  observeRun(report: RunReport): void;
  /** All metrics in Prometheus text format; without a status only those of this process. */
  render(status: StatusReport | null): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Creates the metrics of one scheduler. */
export function createMetrics(version: string): Metrics {
  const registers = [new Registry()];
  const [register = new Registry()] = registers;
  collectDefaultMetrics({ register });
  const counter = (name: string, help: string, labelNames: readonly string[]) =>
    new Counter({ name: `person_etl_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string, labelNames: readonly string[] = []) =>
    new Gauge({ name: `person_etl_${name}`, help, labelNames, registers });

  gauge("build_info", "The version; always 1.", ["version"]).set({ version }, 1);
  const runs = counter("runs_total", "Runs of a job by status.", ["job", "type", "status"]);
  const records = counter("records_total", "Input rows by outcome.", ["job", "outcome"]);
  const rowsWritten = counter("rows_written_total", "Warehouse rows inserted, updated or deleted.", ["job"]);
  const billedTwice = counter("possibly_billed_twice_total", "Records that may be billed twice.", ["job"]);
  const cost = counter("cost_total", "Cost of billed records, from `prices`.", ["job", "currency"]);
  const possibleCost = counter("possibly_billed_cost_total", "Cost of records that may have been billed.", [
    "job",
    "currency",
  ]);
  const mismatches = counter("counter_mismatches_total", "Runs whose counters don't add up.", ["job"]);
  const attempts = counter("attempts_total", "HTTP requests by endpoint and status.", ["endpoint", "status"]);
  const seconds = new Histogram({
    name: "person_etl_attempt_seconds",
    help: "Seconds until the whole response was read.",
    labelNames: ["endpoint"],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
    registers,
  });
  const inFlight = gauge("calls_in_flight", "Calls in flight.");
  const rejectRatio = gauge("reject_ratio", "Rejected share of the records tried in the last run.", ["job"]);
  /** Without a first value of 0, `increase()` would miss the first run. */
  const beginAtZero = ({ job, type }: JobStatusReport, currency: string | undefined): void => {
    for (const end of STATUSES) runs.inc({ job, type, status: end }, 0);
    for (const outcome of OUTCOMES) records.inc({ job, outcome }, 0);
    for (const total of [rowsWritten, billedTwice, mismatches]) total.inc({ job }, 0);
    if (currency === undefined) return;
    for (const total of [cost, possibleCost]) total.inc({ job, currency }, 0);
  };
  const up = gauge("warehouse_up", "1 if the warehouse answered this scrape.");
  const status = statusGauges(gauge);

  return {
    began: () => inFlight.inc(),
    ended(attempt) {
      inFlight.dec();
      attempts.inc({ endpoint: attempt.endpoint, status: attempt.status });
      seconds.observe({ endpoint: attempt.endpoint }, attempt.seconds);
    },
    observeRun({ jobs }) {
      for (const report of jobs) {
        const { job, type } = report;
        runs.inc({ job, type, status: report.status });
        for (const outcome of OUTCOMES) records.inc({ job, outcome }, report[`records_${outcome}`]);
        rowsWritten.inc({ job }, report.rows_written);
        billedTwice.inc({ job }, report.possibly_billed_twice);
        if (report.cost) {
          const { amount, possibly_billed_amount: possible, currency } = report.cost;
          cost.inc({ job, currency }, amount);
          possibleCost.inc({ job, currency }, possible);
        }
        mismatches.inc({ job }, unaccountedRows(report) === 0 ? 0 : 1);
      }
    },
    async render(report) {
      up.set(report === null ? 0 : 1);
      for (const entry of report?.jobs ?? []) {
        const { job, last_run } = entry;
        if (entry.enabled) beginAtZero(entry, report?.spent?.currency);
        if (!last_run) continue;
        const tried = last_run.records_sent + last_run.records_rejected_before_sending;
        rejectRatio.set({ job }, tried === 0 ? 0 : last_run.records_rejected / tried);
      }
      if (report) status.set(report);
      return { contentType: register.contentType, text: await register.metrics() };
    },
  };
}

type MakeGauge = (name: string, help: string, labelNames?: readonly string[]) => Gauge;

/** Metrics read from the warehouse at each scrape. */
function statusGauges(gauge: MakeGauge): { readonly set: (report: StatusReport) => void } {
  const lastSuccess = gauge(
    "last_success_timestamp_seconds",
    "End of the last success, runs that ended at your own cap or budget included.",
    ["job"],
  );
  const nextSlot = gauge("next_slot_timestamp_seconds", "When the job is due next.", ["job"]);
  const fresh = gauge("job_fresh", "1 if the job has succeeded since it was last due, or is running.", [
    "job",
  ]);
  const held = gauge("job_running", "Processes that are running the job.", ["job"]);
  const due = gauge("records_due", "Input rows still due after the last run.", ["job"]);
  const answered = gauge("input_rows_answered_ratio", "Input rows with an answer / input rows.", ["job"]);
  const rejects = gauge("open_rejects", "Unresolved rejects by cause.", ["job", "code"]);
  const spoolBytes = gauge("spool_bytes", "Bytes of received answers on disk that are not loaded yet.", [
    "job",
  ]);
  const spoolCalls = gauge("spool_calls", "Calls with answers on disk that are not loaded yet.", ["job"]);
  const budgetLimit = gauge("budget_records_limit", "Maximum records per period (UTC).", [
    "budget",
    "period",
  ]);
  const budgetUsed = gauge("budget_records_used", "Records counted against a budget.", ["budget", "period"]);
  const budgetLeft = gauge("budget_records_left", "Records left in a budget.", ["budget", "period"]);
  const budgetAmount = gauge("budget_cost_left", "Most that the records left in a budget can cost.", [
    "budget",
    "period",
    "currency",
  ]);
  const spentInMonth = gauge("month_cost", "Cost of billed records since the start of the month (UTC).", [
    "currency",
  ]);
  const quotaLeft = gauge("search_quota_records_left", "Records left in the service's daily quota.", ["org"]);
  const quotaLimit = gauge("search_quota_records_limit", "Daily record quota of the service.", ["org"]);
  const keysWaiting = gauge("publication_keys_waiting", "Changed keys that are not published yet.", [
    "destination",
  ]);
  const lag = gauge("publication_lag_seconds", "Age of the oldest unpublished change.", ["destination"]);
  const publishedAt = gauge("publication_timestamp_seconds", "Time of the last published batch.", [
    "destination",
  ]);
  const all = [lastSuccess, nextSlot, fresh, held, due, answered, rejects, spoolBytes, spoolCalls];
  return {
    set({ jobs, budgets, spent, quotas, publications }) {
      for (const one of [
        ...all,
        keysWaiting,
        lag,
        publishedAt,
        budgetLimit,
        budgetUsed,
        budgetLeft,
        budgetAmount,
        spentInMonth,
        quotaLeft,
        quotaLimit,
      ])
        one.reset();
      for (const { job, coverage, ...report } of jobs.filter(({ enabled }) => enabled)) {
        const at = (instant: string | null, gauge: Gauge) =>
          instant === null ? undefined : gauge.set({ job }, Date.parse(instant) / 1000);
        at(report.last_success_at, lastSuccess);
        at(report.next_slot_at, nextSlot);
        fresh.set({ job }, ["fresh", "running"].includes(report.freshness) ? 1 : 0);
        held.set({ job }, report.held_by.filter(({ is_expired }) => !is_expired).length);
        spoolBytes.set({ job }, report.waiting_answers.bytes);
        spoolCalls.set({ job }, report.waiting_answers.calls);
        for (const [code, rows] of Object.entries(report.open_rejects)) rejects.set({ job, code }, rows);
        if (!coverage) continue;
        due.set({ job }, coverage.due);
        if (coverage.input_rows > 0) answered.set({ job }, coverage.answered / coverage.input_rows);
      }
      if (spent) spentInMonth.set({ currency: spent.currency }, spent.amount);
      for (const { budget, period, limit, used, left, left_amount: amount, currency } of budgets) {
        budgetLimit.set({ budget, period }, limit);
        budgetUsed.set({ budget, period }, used);
        budgetLeft.set({ budget, period }, left);
        if (amount !== undefined && currency !== undefined)
          budgetAmount.set({ budget, period, currency }, amount);
      }
      for (const {
        destination,
        keys_waiting: keys,
        lag_seconds: seconds,
        last_published_at: at,
      } of publications) {
        keysWaiting.set({ destination }, keys);
        lag.set({ destination }, seconds);
        if (at !== null) publishedAt.set({ destination }, Date.parse(at) / 1000);
      }
      for (const { org_id: org, limit, left } of quotas) {
        if (limit !== null) quotaLimit.set({ org }, limit);
        if (left !== null) quotaLeft.set({ org }, left);
      }
    },
  };
}
