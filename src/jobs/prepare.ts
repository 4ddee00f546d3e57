import type { Config, JobConfig } from "../config/config.ts";
import { FixConfigurationError, type Problem } from "../errors.ts";
import { decompress } from "../extract/answer-body.ts";
import { readEnvelope } from "../extract/free-call.ts";
import type { Db } from "../load/db/db.ts";
import { readIdentity, recordOrganization, writeServiceHost } from "../load/db/identity.ts";
import { renewInputViews } from "../load/db/input-views.ts";
import { isMigrated, migrate } from "../load/db/migrate.ts";
import { dropTombstones } from "../load/erasure/remove.ts";
import { checkErasureKey } from "../load/erasure/requests.ts";
import { describeKey } from "../load/inputs/read.ts";
import { DriftLog } from "../schemas/convert.ts";
import { readOrganization, searchUsageEndpoint } from "../schemas/usage.ts";
import { type EraseServices, finishErasures } from "./erase/erase.ts";
import { takeOverExpired } from "./hold-job.ts";
import { reportSpooled } from "./lookup/job-spool.ts";
import { jobTypeOf } from "./registry.ts";
import type { JobServices } from "./services.ts";
import { inspectSource, type ReadSource, throwProblems } from "./sources.ts";

/** Prepares a run before its first call: verifies inputs and service, migrates, finishes erasures. */
export async function prepareRun(services: EraseServices, jobs: readonly JobConfig[]): Promise<void> {
  const { config, db, log } = services;
  const migrations = await migrateVerified(config, db, jobs);
  if (migrations.length > 0) log.info({ migrations }, "migrated");
  await linkInputs(config, db, jobs);
  await checkErasureKey(db);
  await takeOverExpired(services);
  await finishErasures(services);
  await dropTombstones(db, config.privacy.erasureNoticeMs);
  await writeServiceHost(db, serviceHostOf(config), { replace: false });
  for (const { path, message, hint } of (await reportSpooled(config, db)).remarks) {
    log.warn({ folder: path, message, hint }, "answers_left_behind");
  }
}

/**
 * Creates the views of each input that the jobs read, with the types of its key. Views of former inputs stay, because other objects
 * may depend on them.
 */
async function linkInputs(config: Config, db: Db, jobs: readonly JobConfig[]): Promise<void> {
  for (const source of sourcesOf(config, jobs)) {
    if (source.isPush) continue;
    const input = await source.open();
    await renewInputViews(db, { input: input.name, key: await describeKey(db, input) });
  }
}

/**
 * Verifies the inputs of jobs, then creates or upgrades the tables; throws all problems at once. Queries over the program's
 * own tables, which may not exist yet, are verified afterwards.
 */
export async function migrateVerified(
  config: Config,
  db: Db,
  jobs: readonly JobConfig[],
): Promise<readonly string[]> {
  const { problems, afterMigrating } = await inspectInputs(config, db, jobs);
  throwProblems(problems);
  await checkServiceHost(config, db);
  const migrations = await migrate(db);
  const found = await Promise.all(afterMigrating.map((source) => inspectSource(db, source)));
  throwProblems(found.flat());
  return migrations;
}

interface InputFindings {
  readonly problems: readonly Problem[];
  /** Queries over the program's own tables whose problems a migration may fix. */
  readonly afterMigrating: readonly ReadSource[];
}

/** Inspects each source of the jobs with every mapped column; changes nothing. */
export async function inspectInputs(
  config: Config,
  db: Db,
  jobs: readonly JobConfig[],
): Promise<InputFindings> {
  const problems: Problem[] = [];
  const afterMigrating: ReadSource[] = [];
  for (const source of sourcesOf(config, jobs)) {
    const found = await inspectSource(db, source);
    if (found.length > 0 && source.isOverOurTables) afterMigrating.push(source);
    else problems.push(...found);
  }
  return { problems, afterMigrating };
}

export function sourcesOf(config: Config, jobs: readonly JobConfig[]): readonly ReadSource[] {
  const sources = jobs.flatMap((job) => jobTypeOf(job).reads(job, config));
  return [...new Map(sources.map((source) => [source.path, source])).values()];
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = { "https:": "443", "http:": "80" };

/** Service name in `warehouse_identity`: host and port, or the population of the sandbox. */
export function serviceHostOf(config: Pick<Config, "service" | "sandbox">): string {
  if (config.service.baseUrl === "sandbox") return `sandbox:${config.sandbox.seed}`;
  const url = new URL(config.service.baseUrl);
  return `${url.hostname}:${url.port || (DEFAULT_PORTS[url.protocol] ?? "")}`;
}

/** Rejects a service other than the one this warehouse's data comes from: its PIDs identify other people. */
export async function checkServiceHost(config: Config, db: Db): Promise<void> {
  if (!(await isMigrated(db))) return;
  const known = (await readIdentity(db))?.serviceHost;
  const configured = serviceHostOf(config);
  if (known === undefined || known === configured) return;
  throw new FixConfigurationError(
    "another_service",
    `The warehouse contains data from ${known}, but service.base_url is ${configured}.`,
    [
      {
        path: "service.base_url",
        message: `is ${configured}, but the warehouse (${db.description}) contains data from ${known}`,
        hint:
          "Use another warehouse or other schemas. If the same service got a new address, " +
          `run person-etl migrate --accept-service ${configured}`,
      },
    ],
  );
}

const TIMEOUT_MS = 15_000;

/**
 * Refuses a key of another organization than the one the warehouse was filled from, before anything is billed or changed
 * at the service. Without an answer of the free usage report the run continues.
 */
export async function checkOrganization(
  services: Pick<JobServices, "config" | "db" | "http" | "log" | "signal">,
  jobs: readonly JobConfig[],
  runId: string,
): Promise<void> {
  const { config, db, log } = services;
  // The sandbox has no keys. Other feeds that only read can't bill.
  const isAsked = jobs
    .flatMap((job) => jobTypeOf(job).endpoints)
    .some(({ method, name }) => method === "POST" || name === searchUsageEndpoint.name);
  if (config.service.baseUrl === "sandbox" || !isAsked) return;
  const organization = await askOrganization(services);
  if (organization === null) {
    log.debug({}, "organization_unknown");
    return;
  }
  const known = await recordOrganization(db, runId, organization);
  if (known === organization) return;
  throw new FixConfigurationError(
    "another_organization",
    `The warehouse was filled for organization ${known}, but service.api_key is a key of organization ${organization}.`,
    [
      {
        path: "service.api_key",
        message: `is a key of another organization than the warehouse (${db.description})`,
        hint:
          "Use another warehouse or other schemas. If the organization only got another id, " +
          `run person-etl migrate --accept-service ${serviceHostOf(config)}`,
      },
    ],
  );
}

async function askOrganization({
  http,
  signal,
}: Pick<JobServices, "http" | "signal">): Promise<string | null> {
  const { method, path } = searchUsageEndpoint;
  const reply = await http.request({
    method,
    path: `${path}?days=1`,
    body: null,
    signal,
    readTimeoutMs: TIMEOUT_MS,
  });
  if (reply.kind === "failure") return null;
  reply.release();
  if (reply.status !== 200) return null;
  const plain = await decompress(reply.body, reply.contentEncoding);
  if (plain.kind !== "plain") return null;
  return readOrganization(readEnvelope(plain.bytes, new DriftLog(searchUsageEndpoint.name))?.["org_id"]);
}
