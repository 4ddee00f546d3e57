import { dirname, resolve } from "node:path";
import type {
  AlertsConfig,
  BudgetConfig,
  Config,
  ConnectionConfig,
  InputConfig,
  InputField,
  JobConfig,
  LookupJobConfig,
  SegmentConfig,
  ServiceConfig,
  WarehouseConfig,
} from "./config.ts";
import type { Secrets } from "./resolve-secrets.ts";
import { availableJobTypes } from "./rules/availability.ts";
import { predecessorsOf } from "./rules/cycles.ts";
import type { ConfigDocument } from "./schema/document.ts";
import type { InputDocument } from "./schema/inputs.ts";
import type { JobDocument } from "./schema/jobs.ts";
import { spellZone } from "../schedule/zone.ts";
import { durationMs, parseTableName } from "./schema/values.ts";

/** What of the configuration does not come out of the document. */
export type Surroundings = Pick<Config, "file" | "warnings" | "logLevel" | "dataDir" | "lockLifeMs">;

/** The configuration as the program uses it; the document has passed the schema and every rule. */
export function buildConfig(document: ConfigDocument, secrets: Secrets, surroundings: Surroundings): Config {
  const connections = mapEntries(document.connections, (name, connection) =>
    buildConnection(name, connection, secrets, surroundings),
  );
  const inputs = mapEntries(document.inputs, (name, input) => buildInput(name, input, connections));
  const jobs = Object.entries(document.jobs);
  return {
    ...surroundings,
    service: buildService(document.service, secrets),
    sandbox: {
      seed: document.sandbox.seed,
      people: document.sandbox.people,
      inputRows: document.sandbox.input_rows,
    },
    warehouse: buildWarehouse(document.warehouse, secrets, surroundings),
    spool: { maxBytes: document.spool.max_megabytes * 1024 * 1024 },
    budgets: {
      resolve: buildBudget(document.budgets.resolve),
      validate_emails: buildBudget(document.budgets.validate_emails),
      enrich: buildBudget(document.budgets.enrich),
    },
    alerts: buildAlerts(document.alerts, secrets),
    scheduler: {
      catchUpMs: durationMs(document.scheduler.catch_up) ?? 0,
      jitterMs: durationMs(document.scheduler.jitter) ?? 0,
    },
    http: { bind: document.http.bind, port: document.http.port, token: secrets.httpToken },
    retention: buildRetention(document.retention),
    privacy: {
      erasureKey: secrets.erasureKey,
      erasureNoticeMs: durationMs(document.privacy.erasure_notice) ?? 0,
    },
    confirmAbove: document.confirm_above,
    connections,
    inputs,
    jobs: jobs.flatMap(([name, job]) => buildJob(name, job, { inputs, connections }) ?? []),
    unavailableJobs: jobs
      .filter(([name, job]) => buildJob(name, job, { inputs, connections }) === null)
      .map(([name, job]) => ({ name, type: job.type })),
  };
}

function mapEntries<T, R>(
  section: Readonly<Record<string, T>>,
  build: (name: string, entry: T) => R,
): Readonly<Record<string, R>> {
  return Object.fromEntries(Object.entries(section).map(([name, entry]) => [name, build(name, entry)]));
}

function buildService(service: ConfigDocument["service"], secrets: Secrets): ServiceConfig {
  const limits = Object.entries(service.limits ?? {}).flatMap(([path, limit]) =>
    limit ? [[path, { requestsPerSecond: limit.requests_per_second }] as const] : [],
  );
  return {
    baseUrl: service.base_url.replace(/\/+$/, ""),
    apiKey: secrets.apiKey,
    userApiKey: secrets.userApiKey,
    concurrency: service.concurrency,
    requestsPerSecond: service.requests_per_second ?? null,
    limits: Object.fromEntries(limits),
  };
}

function buildWarehouse(
  warehouse: ConfigDocument["warehouse"],
  secrets: Secrets,
  { file }: Surroundings,
): WarehouseConfig {
  const common = {
    schema: warehouse.schema,
    opsSchema: warehouse.ops_schema,
    retryForMs: durationMs(warehouse.retry_for) ?? 0,
  };
  if (warehouse.type === "postgres") {
    return { type: "postgres", url: secrets.warehouseUrl ?? "embedded", ...common };
  }
  return {
    type: "bigquery",
    url: null,
    location: warehouse.location,
    commitRecords: warehouse.commit_records,
    commitEveryMs: durationMs(warehouse.commit_every) ?? 0,
    ...buildProject(warehouse, file),
    ...common,
  };
}

type BigQueryDocument = Extract<ConfigDocument["connections"][string], { type: "bigquery" }>;

/** What the warehouse and connections in BigQuery have in common. */
function buildProject(bigquery: Omit<BigQueryDocument, "location" | "dataset">, file: string) {
  const { credentials } = bigquery;
  return {
    project: bigquery.project,
    credentialsFile: credentials === "adc" ? null : resolve(dirname(file), credentials.slice("file:".length)),
    impersonate: bigquery.impersonate_service_account ?? null,
    apiEndpoint: bigquery.api_endpoint ?? null,
    maximumBytesBilled: bigquery.maximum_bytes_billed ?? null,
  };
}

function buildBudget(budget: ConfigDocument["budgets"]["enrich"]): BudgetConfig {
  return { perDay: budget?.per_day ?? null, perMonth: budget?.per_month ?? null };
}

function buildAlerts(alerts: ConfigDocument["alerts"], { webhook }: Secrets): AlertsConfig | null {
  if (!alerts || !webhook) return null;
  return {
    webhook,
    on: alerts.on,
    format: alerts.format,
    staleAfterMs: msOf(alerts.stale_after),
    budgetRatio: alerts.budget_ratio,
  };
}

function buildRetention(retention: ConfigDocument["retention"]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(retention).flatMap(([table, keep]) => {
      const keepMs = msOf(keep);
      return keepMs === null ? [] : [[table, keepMs]];
    }),
  );
}

function buildConnection(
  name: string,
  connection: ConfigDocument["connections"][string],
  secrets: Secrets,
  { file }: Surroundings,
): ConnectionConfig {
  if (connection.type === "bigquery") {
    const { location = null, dataset = null } = connection;
    return { name, type: "bigquery", location, dataset, ...buildProject(connection, file) };
  }
  const url = secrets.connectionUrls.get(name);
  if (!url) throw new Error(`connection ${name} has passed without an address`);
  return { name, type: "postgres", url };
}

function buildInput(
  name: string,
  input: InputDocument,
  connections: Readonly<Record<string, ConnectionConfig>>,
): InputConfig {
  const table = input.table === undefined ? null : parseTableName(input.table);
  const fields = Object.entries(input.fields).flatMap(
    ([field, columns]) => (columns === undefined ? [] : [[field as InputField, listOf(columns)] as const]), // the schema knows no other keys
  );
  return {
    name,
    source: table ? { kind: "table", ...table } : { kind: "sql", sql: input.sql ?? "" },
    connection: input.connection === undefined ? null : (connections[input.connection] ?? null),
    where: input.where ?? null,
    orderBy: input.order_by ?? null,
    key: listOf(input.key),
    cursor: input.cursor ?? null,
    cursorOverlapMs: durationMs(input.cursor_overlap) ?? 0,
    onMissing: input.on_missing,
    maxMissingRatio: input.max_missing_ratio,
    fields: Object.fromEntries(fields),
  };
}

/** What the jobs of all types are built with. */
interface JobParts {
  readonly inputs: Readonly<Record<string, InputConfig>>;
  readonly connections: Readonly<Record<string, ConnectionConfig>>;
}

/** Null for a job of a type that this version doesn't have (it is switched off, else it had been refused). */
function buildJob(name: string, job: JobDocument, parts: JobParts): JobConfig | null {
  if (job.type === "resolve" || job.type === "validate_emails" || job.type === "enrich") {
    return buildLookupJob(name, job, parts);
  }
  return isAvailable(job.type) ? buildFeedJob(name, job, parts) : null;
}

function isAvailable(type: string): boolean {
  return availableJobTypes.some((available) => available === type);
}

/** What every job has. */
function buildBase(name: string, job: JobDocument, uses: Partial<Parameters<typeof predecessorsOf>[0]>) {
  return {
    name,
    enabled: job.enabled,
    after: predecessorsOf({
      after: listOf(job.after ?? []),
      pid_from: undefined,
      valid_emails_from: undefined,
      segments: [],
      ...uses,
    }),
    schedule: job.schedule ?? null,
    timezone: spellZone(job.timezone),
  };
}

function buildLookupJob(
  name: string,
  job: Extract<JobDocument, { type: LookupJobConfig["type"] }>,
  { inputs }: JobParts,
): JobConfig {
  const input = inputs[job.input];
  if (!input) throw new Error(`job ${name} has passed without an input`);
  const refreshAfterMs = msOf(job.refresh_after);
  const validEmailsFrom = job.type === "validate_emails" ? null : (job.valid_emails_from ?? null);
  const pidFrom = job.type === "enrich" ? (job.pid_from ?? null) : null;
  const lookup = {
    ...buildBase(name, job, {
      pid_from: pidFrom ?? undefined,
      valid_emails_from: validEmailsFrom ?? undefined,
    }),
    input,
    refreshAfterMs,
    refreshUnmatchedAfterMs: msOf(job.refresh_unmatched_after) ?? refreshAfterMs,
    maxRecordsPerRun: job.max_records_per_run ?? null,
    maxRejectRatio: job.max_reject_ratio ?? null,
  };
  if (job.type === "validate_emails") return { ...lookup, type: job.type };
  if (job.type === "resolve") return { ...lookup, type: job.type, validEmailsFrom };
  return {
    ...lookup,
    type: job.type,
    pidFrom,
    validEmailsFrom,
    returnFields: job.return_fields,
    matchConditionFields: job.match_condition_fields,
    includePremiumFields: job.include_premium_fields,
  };
}

function buildFeedJob(name: string, job: JobDocument, { connections }: JobParts): JobConfig | null {
  if (job.type === "segment_members" || job.type === "death_signals") {
    const segments = job.segments.map(buildSegment);
    const links = job.segments.map((segment) => ({ id: undefined, job: segment.job }));
    const base = { ...buildBase(name, job, { segments: links }), segments };
    return job.type === "segment_members"
      ? { ...base, type: job.type, fullSweepEveryMs: durationMs(job.full_sweep_every) ?? 0 }
      : { ...base, type: job.type };
  }
  const base = buildBase(name, job, {});
  if (job.type === "segment_push") {
    return {
      ...base,
      type: job.type,
      segmentName: job.name ?? null,
      segmentId: job.segment_id?.toLowerCase() ?? null,
      description: job.description ?? null,
      sql: job.sql,
      connection: job.connection === undefined ? null : (connections[job.connection] ?? null),
      mode: job.mode,
      maxRemoveRatio: job.max_remove_ratio,
      maxRejectRatio: job.max_reject_ratio ?? null,
      fullSweepEveryMs: durationMs(job.full_sweep_every) ?? 0,
    };
  }
  if (job.type === "search_usage") return { ...base, type: job.type };
  if (job.type === "endpoint_usage") {
    return { ...base, type: job.type, bucketingSize: job.bucketing_size, startDate: job.start_date };
  }
  return null;
}

type SegmentDocument = Extract<JobDocument, { type: "segment_members" }>["segments"][number];

function buildSegment({ id, job, name }: SegmentDocument): SegmentConfig {
  return job === undefined
    ? { kind: "id", id: (id ?? "").toLowerCase(), name: name ?? null }
    : { kind: "job", job, name: name ?? null };
}

function listOf(value: string | string[]): string[] {
  return typeof value === "string" ? [value] : value;
}

function msOf(duration: string | undefined): number | null {
  return duration === undefined ? null : durationMs(duration);
}
