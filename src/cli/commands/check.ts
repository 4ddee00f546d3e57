import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { profileFindings } from "./check-inputs.ts";
import { checkService } from "./check-service.ts";
import { attempt, type Finding, finding, renderFindings } from "./findings.ts";
import {
  isNotCreatedYet,
  openConfig,
  openDestinations,
  openService,
  openUnconnected,
  openWarehouseOf,
} from "../app.ts";
import type { Context } from "../command.ts";
import { getsSampleTables } from "./sandbox.ts";
import type { Config, JobConfig, LineOf } from "../../config/config.ts";
import { orderJobs } from "../../config/references.ts";
import { codeOf } from "../../errors.ts";
import { countText, megabytes } from "../../figures.ts";
import { reportSpooled } from "../../jobs/lookup/job-spool.ts";
import { sourcesOf } from "../../jobs/prepare.ts";
import { checkIdentity, checkServiceHost } from "../../jobs/service-identity.ts";
import { copiedText } from "../../jobs/publish/publication.ts";
import { jobTypeOf } from "../../jobs/registry.ts";
import { inspectSource, type ReadSource, throwProblems } from "../../jobs/sources.ts";
import { checkDatabase } from "../../load/db/check.ts";
import type { Db } from "../../load/db/db.ts";
import { isMigrated } from "../../load/db/migrate.ts";
import { findPackagedBinaries } from "../../load/embedded/binaries.ts";
import { checkErasureKey } from "../../load/erasure/requests.ts";
import { profileOf } from "../../load/inputs/profile.ts";
import { sampleInput } from "../../load/inputs/read.ts";
import { readCopiedDestinations } from "../../load/publication/registration.ts";
import { readCheckpoints } from "../../load/write/commit.ts";

type Check = readonly [subject: string, run: () => readonly Finding[] | Promise<readonly Finding[]>];

/** Verifies everything possible without changes or billed calls. */
export async function check(context: Context) {
  const config = await openConfig(context);
  const warehouse = await openForCheck(context, config);
  const { db } = warehouse;
  const filled = warehouse.isSetUp ? db : null;
  // Without its privileges, the next checks would only report them again.
  const isGranted = warehouse.findings.every(({ status }) => status === "ok" || status === "warning");
  const jobs = orderJobs(config);
  const checks: readonly Check[] = [
    ["configuration", () => checkConfig(config)],
    ["data_dir", () => checkDataDir(config)],
    ["spool", () => checkSpool(config, filled)],
    ["warehouse", () => warehouse.findings],
    ["service of the warehouse", () => (db && isGranted ? silent(checkServiceHost(config, db)) : [])],
    ["key of erased people", () => (filled && isGranted ? silent(checkErasureKey(filled)) : [])],
    ...sourcesOf(config, jobs).map(
      (source): Check => [source.subject, () => checkSource(config, source, db)],
    ),
    ...jobs.map((job): Check => [`jobs.${job.name}`, () => (filled ? checkJob(job, filled) : [])]),
    ...(await openDestinations(config, context.stop.signal, context.log)).map(
      (opened): Check => [
        `publish.${opened.destination.name}`,
        () => checkDestination(opened, config.lineOf),
      ],
    ),
    ["publish", () => (filled && config.publish.length > 0 ? checkCopies(filled) : [])],
    ["service", () => checkConfiguredService(context, config, isGranted ? filled : null)],
  ];
  const findings: Finding[] = [];
  for (const [subject, run] of checks) findings.push(...(await attempt(subject, config.lineOf, run)));
  const wrong = findings.filter(({ status }) => status === "wrong").length;
  const unreachable = findings.filter(({ status }) => status === "unreachable").length;
  const bad = wrong + unreachable;
  const warnings = findings.filter(({ status }) => status === "warning").length;
  const besides = warnings === 0 ? "" : `, with ${countText(warnings, "warning")} (!) to read`;
  const summary = bad === 0 ? `✓ All checks passed${besides}.` : `✗ ${countText(bad, "problem")} found.`;
  return {
    document: {
      status: bad === 0 ? "succeeded" : "failed",
      checks: findings,
      ...(bad === 0 ? {} : { error: { code: "check_failed", message: summary.slice(2) } }),
    },
    text: `${renderFindings(findings)}\n\n${summary}`,
    // Problems to fix have precedence over unreachable parts.
    exitCode: wrong > 0 ? 2 : Math.min(1, unreachable),
  };
}

function checkConfig(config: Config): readonly Finding[] {
  const [jobs, inputs] = [orderJobs(config).length, Object.keys(config.inputs).length];
  const message = `${config.file}: ${countText(jobs, "job")}, ${countText(inputs, "input")}`;
  return [
    finding("configuration", "ok", message),
    ...config.warnings.map((warning) => {
      const line = warning.line === undefined ? "" : ` (line ${warning.line})`;
      return finding("configuration", "warning", `${warning.path}${line}: ${warning.message}`, warning.hint);
    }),
  ];
}

async function checkJob(job: JobConfig, db: Db): Promise<readonly Finding[]> {
  const remarks = jobTypeOf(job).remarks?.(job, await readCheckpoints(db, job.name)) ?? [];
  return remarks.map((message) => finding(`jobs.${job.name}`, "warning", message));
}

/** Checks access, privileges and settings of a destination; creates nothing. */
async function checkDestination(
  { destination, catalog }: Awaited<ReturnType<typeof openDestinations>>[number],
  lineOf: LineOf,
): Promise<readonly Finding[]> {
  const subject = `publish.${destination.name}`;
  const line = lineOf(subject);
  try {
    const lines = await destination.check(catalog);
    return lines.map(({ ok, message, hint }) =>
      ok
        ? finding(subject, "ok", message, hint)
        : finding(subject, "wrong", line === null ? message : `line ${line}: ${message}`, hint),
    );
  } catch (error) {
    throw destination.explain(error);
  } finally {
    await destination.close();
  }
}

/** Warns of destinations that another copy of this database publishes to. */
async function checkCopies(db: Db): Promise<readonly Finding[]> {
  const copied = await readCopiedDestinations(db);
  return copied.map((name) => finding(`publish.${name}`, "warning", copiedText(name)));
}

/** @param filled warehouse whose recorded service is compared with the one that responds; null for none */
async function checkConfiguredService(
  context: Context,
  config: Config,
  filled: Db | null,
): Promise<readonly Finding[]> {
  if (config.service.baseUrl === "sandbox") {
    const { people, seed } = config.sandbox;
    const size = countText(people, "person", "people");
    const message = `the sandbox starts automatically and needs no key (seed ${seed}, ${size})`;
    return [finding("service", "ok", message)];
  }
  const { http } = await openService(context, config);
  const endpoints = orderJobs(config).flatMap((job) => jobTypeOf(job).endpoints);
  const byName = new Map(endpoints.map((endpoint) => [endpoint.name, endpoint]));
  const { signal } = context.stop;
  const findings = [...(await checkService(http, [...byName.values()], signal))];
  if (filled !== null && findings[0]?.status !== "unreachable") {
    const compare = () => silent(checkIdentity({ config, db: filled, http, signal }));
    findings.push(...(await attempt("service of the warehouse", config.lineOf, compare)));
  }
  const isDeprecated =
    !config.service.endpoints[DEPRECATED_PATH] &&
    findings.some(({ subject, status }) => subject === DEPRECATED.subject && status === "ok");
  return isDeprecated ? [...findings, DEPRECATED] : findings;
}

const DEPRECATED_PATH = "/v1/resolve";
const DEPRECATED = finding(
  `POST ${DEPRECATED_PATH}`,
  "warning",
  "works, but is deprecated",
  "when the service removes it, set service.endpoints: { resolve: /v2/resolve }, or the path that the service names",
);

/** Findings of a check that only throws. */
async function silent(verify: Promise<unknown>): Promise<readonly Finding[]> {
  await verify;
  return [];
}

/**
 * Opens the warehouse and checks that it grants access; creates nothing. `db` is null if it can't be opened; `isSetUp` is
 * true if the tables exist.
 */
async function openForCheck(context: Context, config: Config) {
  const subject = "warehouse";
  let db: Db | null = null;
  let isSetUp = false;
  const findings = await attempt(subject, config.lineOf, async () => {
    if (await isNotCreatedYet(config.warehouse.url, config.dataDir)) {
      findPackagedBinaries();
      const folder = join(config.dataDir, "postgres");
      return [finding(subject, "ok", `the embedded database will be created in ${folder} by the first run`)];
    }
    const opened = await openWarehouseOf(context, config);
    db = opened.db;
    isSetUp = await isMigrated(opened.db);
    const lines = await checkDatabase(opened.db);
    return lines.map(({ subject: part, ok, message, hint }) => {
      const sound = hint ? "warning" : "ok";
      return finding(part, ok ? sound : "wrong", message, hint);
    });
  });
  // The cast restores the type that assignments in the closure lose.
  return { findings, db: db as Db | null, isSetUp };
}

/** Checks a table or query that jobs read: its columns, types, keys, and a sample of an input's rows. Shows no value. */
async function checkSource(config: Config, source: ReadSource, db: Db | null): Promise<readonly Finding[]> {
  const { subject, path, connection, isTable, isOverOurTables } = source;
  const later = isOverOurTables
    ? [finding(subject, "ok", "reads tables that the first run creates, and will be checked then")]
    : null;
  const sample =
    getsSampleTables(config.service.baseUrl, config.warehouse.url) && isTable && connection === null
      ? [finding(subject, "ok", "doesn't exist yet; the first run creates it with sample rows")]
      : null;
  if (db === null && connection === null) {
    const unseen = sample ?? ((await isNotCreatedYet(config.warehouse.url, config.dataDir)) ? later : null);
    return unseen ?? [finding(subject, "warning", "can't be checked, because the warehouse can't")];
  }
  // A source behind a connection can be read without the warehouse, which connects on first use.
  const reader = db ?? (await openUnconnected(config));
  try {
    const problems = await inspectSource(reader, source);
    if (problems.length === 0) return await checkRows(reader, source);
    if (sample && problems.some((problem) => problem.path === `${path}.table`)) return sample;
    if (later && !(await isMigrated(reader))) return later;
    // Thrown, problems are completed with their lines.
    throwProblems(problems);
    return [];
  } finally {
    if (reader !== db) await reader.close();
  }
}

/** Findings about a source that can be read, and about the rows of an input. Tables of ours hold what the service sent. */
async function checkRows(db: Db, source: ReadSource): Promise<readonly Finding[]> {
  const { subject } = source;
  const input = await source.open();
  if (source.isPush) return [finding(subject, "ok", `can be read and returns ${input.key.join(", ")}`)];
  const columns = new Set([...input.key, ...Object.values(input.fields).flat()]);
  const readable = finding(subject, "ok", `can be read with ${countText(columns.size, "column")}`);
  if (source.isOverOurTables) return [readable];
  const profile = profileOf(await sampleInput(db, input), input.normalize);
  return [readable, ...profileFindings(subject, input, profile)];
}

/** File systems lost with the machine or container, by magic number. */
const PASSING: ReadonlyMap<number, string> = new Map([
  [0x01021994, "tmpfs"],
  [0x858458f6, "ramfs"],
  [0x794c7630, "overlay"],
]);

/** Below this, `check` warns. */
const SCARCE_BYTES = 1024 ** 3;

/** Below this, not even the responses of one batch of calls may fit. */
const FULL_BYTES = 100 * 1024 ** 2;

/** Checks data_dir without creating it: writable, persistent, enough space. */
async function checkDataDir({ dataDir, warehouse }: Config): Promise<readonly Finding[]> {
  const existing = await nearestExisting(dataDir);
  const subject = "data_dir";
  if (!(await stat(existing)).isDirectory()) {
    return [finding(subject, "wrong", `${existing} is not a folder`, "choose another data_dir")];
  }
  try {
    await access(existing, constants.W_OK | constants.X_OK);
  } catch (error) {
    const message = `this user can't write to ${existing} (${codeOf(error) ?? "no access"})`;
    return [finding(subject, "wrong", message, "grant the permission, or choose another data_dir")];
  }
  const isEmbedded = warehouse.url === "embedded";
  const { type, bavail, bsize } = await statfs(existing);
  const place = existing === dataDir ? `${dataDir} is writable` : `${dataDir} can be created in ${existing}`;
  const findings = [finding(subject, "ok", place)];
  const passing = PASSING.get(type >>> 0);
  if (passing !== undefined) {
    const kept = isEmbedded ? "the embedded database" : "received responses that wait to be loaded";
    const message = `${existing} is on ${passing}: ${kept} would be lost with the machine or container`;
    findings.push(finding(subject, "warning", message, "put data_dir on a disk or a mounted volume"));
  }
  const freeBytes = bavail * bsize;
  const free = `${freeBytes < SCARCE_BYTES ? megabytes(freeBytes) : `${(freeBytes / 1024 ** 3).toFixed(1)} GB`} free in ${existing}`;
  const need = isEmbedded ? "100,000 people need about 1.5 GB in the embedded database" : "free some space";
  const status = freeBytes < FULL_BYTES ? "wrong" : "warning";
  findings.push(
    freeBytes < SCARCE_BYTES
      ? finding("disk space", status, `only ${free}`, `${need}, or choose another data_dir`)
      : finding("disk space", "ok", free),
  );
  return findings;
}

/** The path itself, or its nearest existing parent. */
async function nearestExisting(path: string): Promise<string> {
  const parent = dirname(path);
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  return isThere || parent === path ? path : await nearestExisting(parent);
}

/** Checks received answers on disk: those to be loaded by the next run, and those that no run will load. */
async function checkSpool(config: Config, db: Db | null): Promise<readonly Finding[]> {
  const { byJob, remarks } = await reportSpooled(config, db);
  const findings = [
    ...[...byJob].map(([job, { calls, bytes }]) => {
      const what = `${countText(calls, "received response")} of ${job} (${megabytes(bytes)})`;
      return finding("spool", "ok", `${what} waiting for its next run`);
    }),
    ...remarks.map(({ path, message, hint }) => finding("spool", "warning", `${path}: ${message}`, hint)),
  ];
  return findings.length === 0 ? [finding("spool", "ok", "no responses are waiting to be loaded")] : findings;
}
