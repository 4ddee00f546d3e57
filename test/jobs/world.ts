import { jobTypes } from "../../src/jobs/registry.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client, type PoolClient } from "pg";
import { onTestFinished } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { controlSandbox } from "../support/sandbox-control.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import { type JobServices, type Progress, type RunRequest, plainRun } from "../../src/jobs/services.ts";
import { erasePeople, planErasure } from "../../src/jobs/erase/erase.ts";
import { runJobs } from "../../src/jobs/run.ts";
import type { JobReport, RunReport } from "../../src/jobs/job.ts";
import { openWarehouse } from "../support/bound-load.ts";
import type { Warehouse } from "../support/bound-load.ts";
import type { Log } from "../../src/log.ts";
import { sampleInputs } from "../../packages/sandbox/src/sample-inputs.ts";
import { type Sandbox, type SandboxOptions, startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { takeMigratedDatabase } from "../support/migrated-database.ts";

/** Environment of a night: a database with a customer table, the sandbox, and a configuration. */
export interface World {
  readonly url: string;
  readonly sandbox: Sandbox;
  readonly warehouse: Warehouse;
  /** Current configuration; `configure` replaces its text. */
  readonly config: () => Promise<Config>;
  configure(text: string): void;
  /** Service address for the program; the sandbox unless a test puts a proxy in front. */
  serviceUrl: string;
  /** Runs jobs as `run` would. */
  run(request?: Partial<RunRequest>, services?: Partial<JobServices>): Promise<RunReport>;
  services(): Promise<JobServices>;
  /** Rows of a query, every value as text or null. */
  rows(sql: string): Promise<Record<string, string | null>[]>;
  /** One column of the first row. */
  value(sql: string): Promise<string | null>;
  /** Calls the sandbox's controls. */
  control<Answer = unknown>(path: string, body?: object): Promise<Answer>;
  /** Closes everything; otherwise done at the end of the test. */
  close(): Promise<void>;
  /** Logged events with their fields. */
  readonly logged: { readonly level: string; readonly event: string; readonly fields: object }[];
  /** Messages to the user at the terminal. */
  readonly notes: string[];
}

/** Jobs of the example configuration, for the table `crm.customers`. */
export const threeJobs = `
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers, refresh_after: 30d }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers,
    valid_emails_from: validate_customers, refresh_after: 90d, refresh_unmatched_after: 30d }`;

/** One job for that table. */
export const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";
export const resolveOnly = "\n  resolve_customers: { type: resolve, input: customers }";

/** Configuration with these jobs, and additional lines at the end. */
export function configOf(jobs: string, more = ""): string {
  return `
service:
  base_url: \${SERVICE_URL}
  api_key: \${SERVICE_KEY}
  concurrency: 4
warehouse:
  type: postgres
  url: \${WAREHOUSE_URL}
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone],
              linkedin_url: linkedin, address_line_1: street, city: city, state: state, zipcode: zip }
jobs:${jobs}
${more}`;
}

/** A clock that runs faster by a factor, waits included. */
export function fastClock(factor: number): Clock {
  const startMs = Date.now();
  return {
    now: () => startMs + (Date.now() - startMs) * factor,
    async sleep(milliseconds, signal) {
      try {
        await delay(milliseconds / factor, undefined, signal ? { signal } : {});
      } catch (error) {
        signal?.throwIfAborted();
        throw error;
      }
    },
  };
}

/** Creates a world for one test and closes it afterwards. */
export async function startWorld(
  options: SandboxOptions & {
    readonly rows: number;
    readonly config?: string;
    /** True for a database without our tables. */
    readonly unmigrated?: boolean;
  },
): Promise<World> {
  const { rows: rowCount, unmigrated, ...sandboxOptions } = options;
  const seed = options.seed ?? 7;
  const people = options.people ?? 20_000;
  const folder = await mkdtemp(join(tmpdir(), "person-etl-jobs-"));
  const database = unmigrated ? await createDatabase() : await takeMigratedDatabase();
  const sandbox = await startSandbox({ compresses: false, ...sandboxOptions, seed, people });
  const client = new Client({
    connectionString: database.url,
    types: { getTypeParser: () => (text: string | Buffer) => String(text) },
  });
  await client.connect();
  await client.query("SET TimeZone = 'UTC'");
  await createCustomers(client, sampleInputs({ seed, people, rows: rowCount }));
  const warehouse = openWarehouse({ url: database.url });
  const closers: (() => Promise<void>)[] = [
    () => rm(folder, { recursive: true, force: true }),
    () => database.release(),
    () => warehouse.close(),
    () => sandbox.close(),
    () => client.end(),
  ];
  const close = async () => {
    for (let next = closers.pop(); next; next = closers.pop()) await next();
  };
  onTestFinished(close);

  const logged: World["logged"] = [];
  const notes: string[] = [];
  const logAt = (level: string) => (fields: object, event: string) =>
    void logged.push({ level, event, fields });
  const log: Log = { debug() {}, info: logAt("info"), warn: logAt("warn"), error: logAt("error") };
  const progress: Progress = {
    start() {},
    advance() {},
    note: (_job, text) => void notes.push(text),
    end() {},
  };
  let text = options.config ?? configOf(threeJobs);
  const clock = fastClock(20);

  const world: World = {
    close,
    url: database.url,
    sandbox,
    warehouse,
    serviceUrl: sandbox.url,
    logged,
    notes,
    configure(newText) {
      text = newText;
    },
    async config() {
      const file = join(folder, "config.yaml");
      await writeFile(file, text);
      const env = { SERVICE_URL: world.serviceUrl, SERVICE_KEY: "test-key", WAREHOUSE_URL: database.url };
      return loadConfig({ jobTypes, file, env });
    },
    async services() {
      const config = await world.config();
      const { concurrency, requestsPerSecond } = config.service;
      const http = openHttpClient({
        baseUrl: world.serviceUrl,
        readKey: async () => "test-key",
        concurrency,
      });
      closers.push(() => http.close());
      return {
        config,
        db: warehouse.db,
        http,
        limiter: createLimiter({ concurrency, requestsPerSecond, clock }),
        clock,
        log,
        signal: new AbortController().signal,
        random: Math.random,
        progress,
      };
    },
    async run(request = {}, services = {}) {
      const all = { ...(await world.services()), ...services };
      const report = await runJobs(all, {
        ...plainRun,
        jobs: [],
        runId: `run-${Math.random().toString(36).slice(2)}`,
        ...request,
      });
      const { usedBytes } = all.http.memory;
      if (usedBytes !== 0) throw new Error(`${usedBytes} bytes of answers were not released`);
      return report;
    },
    async rows(sql) {
      return (await client.query<Record<string, string | null>>(sql)).rows;
    },
    async value(sql) {
      const [row] = await world.rows(sql);
      return Object.values(row ?? {})[0] ?? null;
    },
    control: (path, body) => controlSandbox(sandbox.url, path, body),
  };
  return world;
}

async function createCustomers(client: Client, rows: Iterable<object>): Promise<void> {
  await client.query(`CREATE SCHEMA crm; CREATE TABLE crm.customers (id bigint PRIMARY KEY, first_name text,
    last_name text, email text, work_email text, phone text, linkedin text, street text, city text, state text,
    zip text, updated_at timestamptz)`);
  await client.query(
    "INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, $1)",
    [JSON.stringify([...rows])],
  );
}

/** Distinct results of a query that another session runs after each statement of the work, before the next one, and their number. */
export async function seenDuring(
  world: World,
  sql: string,
  work: () => Promise<unknown>,
): Promise<{ readonly seen: ReadonlySet<string>; readonly asked: number }> {
  const reader = new Client({ connectionString: world.url });
  await reader.connect();
  // A reader that waits for a lock of the work, which waits for the reader, fails.
  await reader.query("SET lock_timeout = '5s'");
  const seen = new Set<string>();
  let asked = 0;
  const look = async () => {
    const { rows } = await reader.query<Record<string, unknown>>(sql);
    seen.add(Object.values(rows[0] ?? {}).join(" "));
    asked += 1;
  };
  const { pool } = world.warehouse.db;
  const sessions = new Set<PoolClient>();
  const watch = (session: PoolClient) => {
    if (sessions.has(session)) return;
    sessions.add(session);
    // One of the overloads of `query`, whichever it is.
    const query = session.query.bind(session) as (...args: unknown[]) => unknown;
    const queryAndLook = (...args: unknown[]) => {
      const answer = query(...args);
      // COPY returns a stream.
      if (!(answer instanceof Promise)) return answer;
      return answer.then(async (result: unknown) => {
        await look();
        return result;
      });
    };
    Object.assign(session, { query: queryAndLook });
  };
  pool.on("acquire", watch);
  try {
    await work();
  } finally {
    pool.off("acquire", watch);
    for (const session of sessions) Reflect.deleteProperty(session, "query");
    await reader.end();
  }
  return { seen, asked };
}

/** Report of one job. */
export function jobOf(report: RunReport, name: string): JobReport {
  const job = report.jobs.find((job) => job.job === name);
  if (!job) throw new Error(`No job ${name} in the report.`);
  return job;
}

/** Rows read minus all outcomes; must be 0 for every job. */
export function unaccountedRows(job: JobReport): number {
  const outcomes = [
    "unchanged",
    "duplicate",
    "suppressed",
    "waiting",
    "sent",
    "rejected_before_sending",
    "remaining",
  ] as const;
  return outcomes.reduce((left, outcome) => left - job[`records_${outcome}`], job.records_read);
}

/** Erases people as `erase` would. */
export async function erase(world: World, named: Partial<Parameters<typeof planErasure>[1]>): Promise<void> {
  const services = await world.services();
  const { found } = await planErasure(services, { pids: [], emails: [], rows: [], ...named });
  await erasePeople(services, found);
}

/** Requests that the sandbox received. */
export async function requestsOf(world: World): Promise<number> {
  return (await world.control<{ readonly requests: number }>("/ledger")).requests;
}

/** Records that the sandbox billed on an endpoint (`/v2/enrich`). */
export async function billedBySandbox(world: World, path = "/v2/enrich"): Promise<number> {
  const { endpoints } = await world.control<{ endpoints: Record<string, { billed: number }> }>("/ledger");
  return Object.entries(endpoints)
    .filter(([endpoint]) => endpoint.endsWith(path))
    .reduce((sum, [, { billed }]) => sum + billed, 0);
}

/** Records that the sandbox received more than once, and those billed more than once. */
export async function repeats(world: World): Promise<{ received: number; billed: number }> {
  const { contents } = await world.control<{
    contents: { received_more_than_once: number; billed_more_than_once: number };
  }>("/ledger");
  return { received: contents.received_more_than_once, billed: contents.billed_more_than_once };
}
