import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { inject, onTestFinished } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import { jobTypes } from "../../src/jobs/registry.ts";
import { runJobs } from "../../src/jobs/run.ts";
import type { JobReport, RunReport } from "../../src/jobs/job.ts";
import { type RunRequest, plainRun } from "../../src/jobs/services.ts";
import { startCli } from "../cli/support/cli.ts";
import { runHereJson } from "../cli/support/in-process.ts";
import { unaccountedRows } from "../jobs/world.ts";
import { openDefaultDb } from "../load/postgres-context.ts";
import type { TestDatabase } from "../support/fresh-database.ts";
import type { Db } from "../../src/load/db/db.ts";
import { takeMigratedDatabase } from "../support/migrated-database.ts";
import { routeTo } from "../support/pgbouncer.ts";
import { passDays } from "./pass-days.ts";
import { type Received, type Script, startService } from "./scripted-service.ts";

/** Parts of a configuration; each is a whole section, as flow YAML. */
export interface Parts {
  /** `jobs:`, by default one enrich job. */
  readonly jobs?: string;
  /** `inputs:`, by default `customers`. */
  readonly inputs?: string;
  /** Additional settings of the input `customers`: `normalize: true`. */
  readonly input?: string;
  /** Additional top-level lines. */
  readonly more?: string;
}

/** One night: an edit of the input, then a run. */
export interface NightOptions {
  /** Days that pass before the night. */
  readonly days?: number;
  /** Configuration from this night on; by default that of the last night. */
  readonly config?: Parts;
  /** SQL before the run. */
  readonly edit?: string;
  /** Behavior of the service, of this night only. */
  readonly service?: Script;
  /** Flags of the run; `yes` by default. */
  readonly flags?: Partial<RunRequest>;
  /** Signals the run to stop when the service has received this many calls. */
  readonly stopAt?: number;
  /**
   * Crash point, `name` or `name:count`, at which a process of its own is killed; then there is no report. Of the flags, only
   * `resend` and `maxRecords` apply.
   */
  readonly kill?: string;
}

/** Outcome of a night. */
export interface Night {
  /** Null after a kill. */
  readonly report: RunReport | null;
  /** Contents that the service received. */
  readonly sent: Received;
  /** Contents that the service billed. */
  readonly billed: Received;
  /** Warnings about the configuration, and events in the log that are warnings or errors. */
  readonly warnings: readonly string[];
}

export type World = Awaited<ReturnType<typeof openWorld>>;

const CUSTOMERS = `{ table: crm.customers, key: id,
    fields: { full_name: name, emails: [email, work_email], phones: [phone], city: city }`;

/** Text of a configuration. */
export function configText({ jobs, inputs, input, more = "" }: Parts): string {
  return `
service: { base_url: "\${SERVICE_URL}", api_key: "\${SERVICE_KEY}", concurrency: 2 }
warehouse: { url: "\${WAREHOUSE_URL}" }
data_dir: answers
inputs: ${inputs ?? `{ customers: ${CUSTOMERS}${input === undefined ? "" : `, ${input}`} } }`}
jobs: ${jobs ?? "{ enrich: { type: enrich, input: customers } }"}
${more}
`;
}

/** Table of customers; every column but the key may be null. */
export const CREATE_CUSTOMERS =
  "CREATE TABLE crm.customers (id bigint, name text, email text, work_email text, phone text, city text)";

/** Values of a customer; null removes one. */
type Customer = Readonly<Partial<Record<"name" | "email" | "work_email" | "phone" | "city", string | null>>>;

/** SQL that inserts or replaces a customer. */
export function put(id: number, name: string | null, more: Customer = {}): string {
  const customer = JSON.stringify([{ id, name, ...more }]).replaceAll("'", "''");
  return `DELETE FROM crm.customers WHERE id = ${id};
    INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, '${customer}');`;
}

/** SQL that inserts customers with the keys 1, 2, … and these names. */
export function names(...list: readonly string[]): string {
  return list.map((name, i) => put(i + 1, name)).join("\n");
}

/** Clock of a run: waits pass 50 times as fast. */
function fastClock(): Clock {
  return {
    now: () => Date.now(),
    async sleep(milliseconds, signal) {
      await delay(milliseconds / 50, undefined, signal ? { signal } : {});
    },
  };
}

/** Opens what a run in this process needs; `note` receives the warnings and errors of the log. The caller closes `http`. */
export async function openServices(
  file: string,
  env: Readonly<Record<string, string>>,
  db: Db,
  note: (fields: object, event: string) => void,
) {
  const config = await loadConfig({ jobTypes, file, env });
  const { baseUrl, concurrency, requestsPerSecond } = config.service;
  const clock = fastClock();
  return {
    config,
    db,
    http: openHttpClient({ baseUrl, readKey: async () => "key", concurrency }),
    limiter: createLimiter({ concurrency, requestsPerSecond, clock }),
    clock,
    log: { debug() {}, info() {}, warn: note, error: note },
    signal: new AbortController().signal,
    random: () => 0,
    progress: { start(_job: string) {}, advance() {}, note() {}, end() {} },
  };
}

/** Request of a run with these flags. */
export function requestOf(runId: string, flags: Partial<RunRequest> = {}): RunRequest {
  return { ...plainRun, jobs: [], runId, yes: true, ...flags };
}

/**
 * Opens the migrated database, empty table of customers, service and configuration of successive nights; closed at the end of the test.
 * @param given database that has the table already
 */
export async function openWorld(config: Parts = {}, given?: TestDatabase) {
  const database = given ?? (await takeMigratedDatabase());
  const folder = await mkdtemp(join(inject("runFolder"), "nights-"));
  const service = await startService();
  const client = new Client({
    connectionString: database.url,
    types: { getTypeParser: () => (text: string | Buffer) => String(text) },
  });
  await client.connect();
  onTestFinished(async () => {
    await db.close();
    await client.end();
    await service.close();
    await database.release();
  });
  await client.query("SET TimeZone = 'UTC'; SET search_path = person_data, person_data_ops, crm, public");
  if (!given) await client.query(`CREATE SCHEMA crm; ${CREATE_CUSTOMERS}`);
  const url = routeTo(database.url);
  const db = openDefaultDb(url);
  const env = { SERVICE_URL: service.url, SERVICE_KEY: "key", WAREHOUSE_URL: url };
  const file = join(folder, "config.yaml");
  let runs = 0;

  async function begin({ days = 0, config: parts, edit, service: script = {} }: NightOptions): Promise<void> {
    if (parts) await writeFile(file, configText(parts));
    if (days > 0) await passDays(client, days);
    if (edit !== undefined) await client.query(edit);
    service.begin(script);
  }

  const end = (report: RunReport | null, warnings: readonly string[]): Night => ({
    report,
    warnings,
    sent: service.received(),
    billed: service.billed(),
  });

  async function run({ stopAt, flags }: NightOptions, warnings: string[]): Promise<RunReport> {
    const services = await openServices(file, env, db, (_fields, event) => void warnings.push(event));
    warnings.push(...services.config.warnings.map(({ path, message }) => `${path} ${message}`));
    const stop = new AbortController();
    const watch = setInterval(() => {
      if (service.calls.length >= (stopAt ?? Infinity)) stop.abort();
    }, 1);
    try {
      return await runJobs({ ...services, signal: stop.signal }, requestOf(`night-${(runs += 1)}`, flags));
    } finally {
      clearInterval(watch);
      await services.http.close();
    }
  }

  /** Runs the jobs in a process that kills itself at a crash point. */
  async function runKilled(point: string, { resend, maxRecords }: Partial<RunRequest>): Promise<void> {
    const flags = [
      ...(resend === true ? ["--resend"] : []),
      ...(typeof maxRecords === "number" ? ["--max-records", String(maxRecords)] : []),
    ];
    const options = { cwd: folder, env: { ...env, PERSON_ETL_CRASH_AT: point } };
    const { child, result } = startCli(["--json", "run", "--yes", ...flags], options);
    const { stdout } = await result;
    if (child.signalCode !== "SIGKILL") throw new Error(`the run never reached ${point}: ${stdout}`);
  }

  await writeFile(file, configText(config));
  return {
    service,
    url: database.url,
    /** Folder with the configuration and the received answers. */
    folder,
    async night(options: NightOptions = {}): Promise<Night> {
      await begin(options);
      const warnings: string[] = [];
      if (options.kill === undefined) return end(await run(options, warnings), warnings);
      await runKilled(options.kill, options.flags ?? {});
      return end(null, warnings);
    },
    /** Runs several shards of a run at once or one after the other; sums what they sent. */
    async nightOfShards(
      count: number,
      { isParallel = false, ...options }: NightOptions & { readonly isParallel?: boolean } = {},
    ): Promise<Night[]> {
      await begin(options);
      const nights: Night[] = [];
      const runId = `night-${(runs += 1)}`;
      const one = async (index: number) => {
        const warnings: string[] = [];
        const flags = { ...options.flags, shard: { index, count }, runId };
        nights[index] = end(await run({ ...options, flags }, warnings), warnings);
      };
      const indexes = Array.from({ length: count }, (_, index) => index);
      if (isParallel) await Promise.all(indexes.map(one));
      else for (const index of indexes) await one(index);
      return nights;
    },
    /** Runs the jobs while a night is under way. */
    async runBeside(flags: Partial<RunRequest> = {}): Promise<Night> {
      const warnings: string[] = [];
      return end(await run({ flags }, warnings), warnings);
    },
    /** Rows of a query as lines, values separated by `|` and null empty, sorted. The schemas are in the search path. */
    async lines(sql: string): Promise<readonly string[]> {
      const { rows } = await client.query<(string | null)[]>({ text: sql, rowMode: "array" });
      return rows.map((row) => row.map((value) => value ?? "").join("|")).toSorted();
    },
    /** Replaces the configuration. */
    configure: (parts: Parts) => writeFile(file, configText(parts)),
    async sql(statements: string): Promise<void> {
      await client.query(statements);
    },
    /** Runs a command of the program, such as `erase`; returns its document. Fails on another exit code. */
    async command(args: readonly string[], exitCode = 0): Promise<Readonly<Record<string, unknown>>> {
      const { code, document } = await runHereJson(args, { cwd: folder, env });
      if (code !== exitCode)
        throw new Error(`${args.join(" ")} ended with exit code ${code}: ${JSON.stringify(document)}`);
      return document;
    },
  };
}

/** Counters of input rows, in the order of the law, then of outcomes. */
const COUNTERS = [
  "read",
  "unchanged",
  "duplicate",
  "suppressed",
  "waiting",
  "sent",
  "rejected_before_sending",
  "remaining",
  "matched",
  "rejected",
] as const;

/** Counters of a job that aren't zero: `3 read, 1 unchanged, 2 sent, 2 matched`; with its end unless it succeeded. */
export function summaryOf(job: JobReport): string {
  const counts = COUNTERS.flatMap((name) => {
    const count = job[`records_${name}`];
    return count === 0 ? [] : [`${count} ${name}`];
  });
  const why = job.limited_by ?? job.error?.code;
  const end = job.status === "succeeded" ? "" : `${job.status}${why === undefined ? "" : ` (${why})`}: `;
  return end + (counts.join(", ") || "nothing");
}

/** Rows read that no counter accounts for, by job; empty if the law holds. */
export function unaccounted(report: RunReport): readonly string[] {
  return report.jobs.flatMap((job) => {
    const rows = unaccountedRows(job);
    return rows === 0 ? [] : [`${job.job}: ${rows} rows are unaccounted for`];
  });
}
