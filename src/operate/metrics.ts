import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { HttpClient } from "../extract/http-client.ts";
import { type RunReport, type Status, unaccountedRows } from "../jobs/job.ts";
import type { JobStatusReport, StatusReport } from "../jobs/report/status.ts";
import { groupNames } from "../load/lookups/person-groups.ts";

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

/** Counters of `run --json` for people of a push. */
const PUSHED = ["added", "redundant", "removed"] as const;

/** Ends of runs that are counted. */
const STATUSES: readonly Status[] = ["succeeded", "limited", "failed", "skipped", "interrupted", "locked"];

export type Metrics = ReturnType<typeof createMetrics>;

/** Creates the metrics of one scheduler. No label comes from a record. */
export function createMetrics(version: string) {
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
  const pushed = counter("push_records_total", "PIDs of pushes by outcome, as the service counts them.", [
    "job",
    "outcome",
  ]);
  const changed = counter("people_changed_total", "People with changed fields, by field group.", [
    "field_group",
  ]);
  for (const group of groupNames) changed.inc({ field_group: group }, 0);
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
    if (type === "segment_push") for (const outcome of PUSHED) pushed.inc({ job, outcome }, 0);
    if (currency === undefined) return;
    for (const total of [cost, possibleCost]) total.inc({ job, currency }, 0);
  };
  const up = gauge("warehouse_up", "1 if the warehouse responded to this scrape.");
  const ofStatus = statusGauges.map(({ name, help, labels, read }) => {
    const own = gauge(name, help, labels);
    return (report: StatusReport) => {
      own.reset();
      for (const [values, value] of read(report)) own.labels(...values).set(value);
    };
  });

  return {
    /** Wraps a client; counts every attempt of a call, without its content. */
    measure(http: HttpClient): HttpClient {
      return {
        ...http,
        async request(request) {
          const startedMs = performance.now();
          inFlight.inc();
          let status = "error";
          try {
            const reply = await http.request(request);
            status = reply.kind === "response" ? String(reply.status) : reply.code.toLowerCase();
            return reply;
          } finally {
            const endpoint = `${request.method} ${pathnameOf(request.path)}`;
            inFlight.dec();
            attempts.inc({ endpoint, status });
            seconds.observe({ endpoint }, (performance.now() - startedMs) / 1000);
          }
        },
      };
    },
    observeRun({ jobs, people_changed: people }: RunReport): void {
      for (const [group, count] of Object.entries(people?.by_field_group ?? {}))
        changed.inc({ field_group: group }, count);
      for (const report of jobs) {
        const { job, type } = report;
        runs.inc({ job, type, status: report.status });
        for (const outcome of OUTCOMES) records.inc({ job, outcome }, report[`records_${outcome}`]);
        if (type === "segment_push")
          for (const outcome of PUSHED) pushed.inc({ job, outcome }, report[`records_${outcome}`]);
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
    /** Renders all metrics in Prometheus text format; without a status only those of this process. */
    async render(report: StatusReport | null) {
      up.set(report === null ? 0 : 1);
      for (const entry of report?.jobs ?? []) {
        const { job, last_run } = entry;
        if (entry.enabled) beginAtZero(entry, report?.spent?.currency);
        if (!last_run) continue;
        const tried = last_run.records_sent + last_run.records_rejected_before_sending;
        rejectRatio.set({ job }, tried === 0 ? 0 : last_run.records_rejected / tried);
      }
      if (report) for (const set of ofStatus) set(report);
      return { contentType: register.contentType, text: await register.metrics() };
    },
  };
}

/** Gauge read from the warehouse at each scrape. */
interface StatusGauge {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Label values and value of each sample. */
  readonly read: (report: StatusReport) => readonly (readonly [readonly string[], number])[];
}

/** Declares gauges of a kind of subject: subjects, labels, and help and value by name; a value of null is left out. */
function gaugesOf<Subject>(
  subjectsOf: (report: StatusReport) => readonly Subject[],
  labels: Readonly<Record<string, (subject: Subject) => string>>,
  gauges: Readonly<Record<string, readonly [help: string, value: (subject: Subject) => number | null]>>,
): readonly StatusGauge[] {
  return Object.entries(gauges).map(([name, [help, valueOf]]) => ({
    name,
    help,
    labels: Object.keys(labels),
    read: (report) =>
      subjectsOf(report).flatMap((subject) => {
        const value = valueOf(subject);
        return value === null ? [] : [[Object.values(labels).map((label) => label(subject)), value] as const];
      }),
  }));
}

const secondsOf = (instant: string | null) => (instant === null ? null : Date.parse(instant) / 1000);

const statusGauges: readonly StatusGauge[] = [
  gaugesOf(
    enabledJobs,
    { job: ({ job }) => job },
    {
      last_success_timestamp_seconds: [
        "End of the last success, including runs that stopped at your own cap or budget.",
        (job) => secondsOf(job.last_success_at),
      ],
      next_slot_timestamp_seconds: ["When the job is due next.", (job) => secondsOf(job.next_slot_at)],
      job_fresh: [
        "1 if the job has succeeded since it was last due, or is running.",
        ({ freshness }) => (["fresh", "limited", "running"].includes(freshness) ? 1 : 0),
      ],
      job_running: [
        "Processes that are running the job.",
        (job) => job.held_by.filter(({ is_expired }) => !is_expired).length,
      ],
      records_due: ["Input rows still due after the last run.", ({ coverage }) => coverage?.due ?? null],
      input_rows_answered_ratio: [
        "Input rows with a response / input rows.",
        ({ coverage }) =>
          coverage && coverage.input_rows > 0 ? coverage.answered / coverage.input_rows : null,
      ],
      spool_bytes: [
        "Bytes of received responses on disk that are not loaded yet.",
        (job) => job.waiting_answers.bytes,
      ],
      spool_calls: [
        "Calls with responses on disk that are not loaded yet.",
        (job) => job.waiting_answers.calls,
      ],
    },
  ),
  gaugesOf(
    (report) =>
      enabledJobs(report).flatMap(({ job, open_rejects: rejects }) =>
        Object.entries(rejects).map(([code, rows]) => ({ job, code, rows })),
      ),
    { job: ({ job }) => job, code: ({ code }) => code },
    { open_rejects: ["Unresolved rejects by cause.", ({ rows }) => rows] },
  ),
  gaugesOf(
    ({ budgets }) => budgets,
    { budget: ({ budget }) => budget, period: ({ period }) => period },
    {
      budget_records_limit: ["Maximum records per period (UTC).", ({ limit }) => limit],
      budget_records_used: ["Records counted against a budget.", ({ used }) => used],
      budget_records_left: ["Records left in a budget.", ({ left }) => left],
    },
  ),
  gaugesOf(
    ({ budgets }) => budgets.filter(({ currency }) => currency !== undefined),
    {
      budget: ({ budget }) => budget,
      period: ({ period }) => period,
      currency: ({ currency }) => currency ?? "",
    },
    {
      budget_cost_left: [
        "Largest cost of the records left in a budget.",
        (budget) => budget.left_amount ?? null,
      ],
    },
  ),
  gaugesOf(
    ({ spent }) => (spent ? [spent] : []),
    { currency: ({ currency }) => currency },
    {
      month_cost: ["Cost of billed records since the start of the month (UTC).", ({ amount }) => amount],
    },
  ),
  gaugesOf(
    ({ quotas }) => quotas,
    { org: (quota) => quota.org_id },
    {
      search_quota_records_left: ["Records left in the service's daily quota.", ({ left }) => left],
      search_quota_records_limit: ["Daily record quota of the service.", ({ limit }) => limit],
    },
  ),
  gaugesOf(
    ({ plan_left: plans }) => plans,
    { of: (plan) => plan.of },
    {
      plan_records_left: [
        "Records left in the plan: of the allowance in `prices`, or as last reported by the service, minus what was billed since.",
        (plan) => plan.left,
      ],
    },
  ),
  gaugesOf(
    ({ publications }) => publications,
    { destination: ({ destination }) => destination },
    {
      publication_keys_waiting: ["Changed keys that are not published yet.", (found) => found.keys_waiting],
      publication_lag_seconds: [
        "Age of the oldest change that readers may not see.",
        (found) => found.lag_seconds,
      ],
      publication_timestamp_seconds: [
        "Time of the last published batch.",
        (found) => secondsOf(found.last_published_at),
      ],
    },
  ),
].flat();

function enabledJobs({ jobs }: StatusReport): readonly JobStatusReport[] {
  return jobs.filter(({ enabled }) => enabled);
}

/** Path without its query, with `:id` for every variable part. */
function pathnameOf(path: string): string {
  const [pathname = ""] = path.split("?");
  return pathname
    .split("/")
    .map((part) => (/^(?:|v\d|[a-z]+(?:[_-][a-z]+)*)$/.test(part) ? part : ":id"))
    .join("/");
}
