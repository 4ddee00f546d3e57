import type { Command } from "commander";
import { constants } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Config, JobConfig } from "../../config/config.ts";
import { orderJobs } from "../../config/references.ts";
import { codeOf } from "../../errors.ts";
import { countText, megabytes } from "../../figures.ts";
import { reportWaiting } from "../../jobs/lookup/job-spool.ts";
import { checkServiceHost, sourcesOf } from "../../jobs/prepare.ts";
import { copiedText } from "../../jobs/publish/publication.ts";
import { jobTypeOf } from "../../jobs/registry.ts";
import { inspectSource, type ReadSource } from "../../jobs/sources.ts";
import { checkDatabase } from "../../load/db/check.ts";
import type { Db } from "../../load/db/db.ts";
import { isMigrated } from "../../load/db/migrate.ts";
import { findPackagedBinaries } from "../../load/embedded/binaries.ts";
import { checkErasureKey } from "../../load/erasure/requests.ts";
import { profileOf } from "../../load/inputs/profile.ts";
import { sampleInput } from "../../load/inputs/read.ts";
import { readCopiedDestinations } from "../../load/publication/registration.ts";
import { readCheckpoints } from "../../load/write/commit.ts";
import {
  isNotCreatedYet,
  openConfig,
  openConfiguredWarehouse,
  openDestinations,
  openService,
  openUnconnected,
} from "../app.ts";
import type { AddCommand, Context, Outcome } from "../command.ts";
import { profileFindings } from "./check-inputs.ts";
import { checkService } from "./check-service.ts";
import {
  attempt,
  exitCodeOfFindings,
  type Finding,
  finding,
  findingsOf,
  renderFindings,
} from "../failure.ts";

/** `check`: verifies everything possible without changes or billed calls. */
export const addCheck: AddCommand = (program, act) => {
  program
    .command("check")
    .description(
      "check configuration, API key, endpoints, warehouse, privileges, inputs, queries, destinations and data_dir; changes nothing",
    )
    .action((_flags: object, command: Command) => act(command, check, { checks: [] }));
};

async function check(context: Context): Promise<Outcome> {
  const config = await openConfig(context);
  const { findings: ofWarehouse, db, isSetUp } = await checkWarehouse(context, config);
  const filled = isSetUp ? db : null;
  const checks: readonly Check[] = [
    { subject: "configuration", run: () => checkConfig(config) },
    {
      subject: "data_dir",
      run: () => checkDataDir(config.dataDir, { isEmbedded: config.warehouse.url === "embedded" }),
    },
    { subject: "spool", run: () => checkSpool(config, filled) },
    { subject: "warehouse", run: () => ofWarehouse },
    ...sourcesOf(config, orderJobs(config)).map((source) => ({
      subject: source.subject,
      run: () => checkSource(config, source, db),
    })),
    ...(filled ? orderJobs(config).map((job) => jobCheck(job, filled)) : []),
    ...openDestinations(config).map(destinationCheck),
    { subject: "publish", run: () => (filled ? copiedDestinations(filled) : []) },
    { subject: "service", run: () => checkConfiguredService(context, config) },
  ];
  const findings: Finding[] = [];
  for (const { subject, run } of checks) findings.push(...(await attempt(subject, run)));
  const bad = findings.filter(({ status }) => status === "wrong" || status === "unreachable");
  const verdict = bad.length === 0 ? "✓ All checks passed." : `✗ ${countText(bad.length, "problem")} found.`;
  return {
    document: {
      status: bad.length === 0 ? "succeeded" : "failed",
      checks: findings,
      ...(bad.length === 0 ? {} : { error: { code: "check_failed", message: verdict.slice(2) } }),
    },
    text: `${renderFindings(findings)}\n\n${verdict}`,
    exitCode: exitCodeOfFindings(findings),
  };
}

interface Check {
  readonly subject: string;
  readonly run: () => readonly Finding[] | Promise<readonly Finding[]>;
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

/** Reports what a job says about its next run. */
function jobCheck(job: JobConfig, db: Db): Check {
  const subject = `jobs.${job.name}`;
  return {
    subject,
    async run() {
      const remarks = jobTypeOf(job).remarks?.(job, await readCheckpoints(db, job.name)) ?? [];
      return remarks.map((message) => finding(subject, "warning", message));
    },
  };
}

/** Checks access, privileges and settings of a destination; creates nothing. */
function destinationCheck({ destination, catalog }: ReturnType<typeof openDestinations>[number]): Check {
  const subject = `publish.${destination.name}`;
  return {
    subject,
    async run() {
      try {
        const lines = await destination.check(catalog);
        return lines.map(({ ok, message, hint }) => finding(subject, ok ? "ok" : "wrong", message, hint));
      } catch (error) {
        throw destination.explain(error);
      } finally {
        await destination.close();
      }
    },
  };
}

/** Warns of destinations that another copy of this database publishes to. */
async function copiedDestinations(db: Db): Promise<readonly Finding[]> {
  const copied = await readCopiedDestinations(db);
  return copied.map((name) => finding(`publish.${name}`, "warning", copiedText(name)));
}

async function checkConfiguredService(context: Context, config: Config): Promise<readonly Finding[]> {
  if (config.service.baseUrl === "sandbox") {
    const { people, seed } = config.sandbox;
    const size = countText(people, "person", "people");
    const message = `the sandbox starts automatically and needs no key (seed ${seed}, ${size})`;
    return [finding("service", "ok", message)];
  }
  const { http } = await openService(context, config);
  const endpoints = orderJobs(config).flatMap((job) => jobTypeOf(job).endpoints);
  const byName = new Map(endpoints.map((endpoint) => [endpoint.name, endpoint]));
  return await checkService(http, [...byName.values()], context.stop.signal);
}

/**
 * Checks that the warehouse is reachable, grants access and has no data of another service. Creates nothing. `db` is null if
 * it can't be read; `isSetUp` is true if the tables exist.
 */
async function checkWarehouse(context: Context, config: Config) {
  const subject = "warehouse";
  if (await isNotCreatedYet(config)) {
    const findings = await attempt(subject, () => {
      findPackagedBinaries();
      const folder = join(config.dataDir, "postgres");
      return [finding(subject, "ok", `the embedded database will be created in ${folder} by the first run`)];
    });
    return { findings, db: null, isSetUp: false };
  }
  let db: Db | null = null;
  let isSetUp = false;
  const findings = await attempt(subject, async () => {
    const opened = await openConfiguredWarehouse(context, config);
    db = opened.db;
    isSetUp = await isMigrated(opened.db);
    const lines = await checkDatabase(opened.db);
    const ofDatabase = lines.map(
      ({ ok, ...line }): Finding => ({ ...line, status: !ok ? "wrong" : line.hint ? "warning" : "ok" }),
    );
    // Without the privileges, the next checks would only report them again.
    if (lines.some(({ ok }) => !ok)) return ofDatabase;
    const ofService = await attempt("service of the warehouse", async () => {
      await checkServiceHost(config, opened.db);
      return [];
    });
    const ofErasures = await attempt("key of erased people", async () => {
      if (isSetUp) await checkErasureKey(opened.db);
      return [];
    });
    return [...ofDatabase, ...ofService, ...ofErasures];
  });
  // The cast restores the type that assignments in the closure lose.
  return { findings, db: db as Db | null, isSetUp };
}

/** Checks a table or query that jobs read: its columns, types, keys, and a sample of an input's rows. Shows no value. */
async function checkSource(config: Config, source: ReadSource, db: Db | null): Promise<readonly Finding[]> {
  const { subject, path } = source;
  const later = source.isOverOurTables
    ? finding(subject, "ok", "reads tables that the first run creates; that run checks it")
    : null;
  const sample =
    config.service.baseUrl === "sandbox" && source.isTable && source.connection === null
      ? finding(subject, "ok", "doesn't exist yet; the first run creates it with sample rows")
      : null;
  if (db === null && source.connection === null) {
    const unseen = sample ?? ((await isNotCreatedYet(config)) ? later : null);
    return [unseen ?? finding(subject, "warning", "can't be checked, because the warehouse can't")];
  }
  // A source behind a connection can be read without the warehouse, which connects on first use.
  const reader = db ?? (await openUnconnected(config));
  try {
    const problems = await inspectSource(reader, source);
    if (problems.length === 0) {
      return [finding(subject, "ok", await readableText(source)), ...(await profileSource(reader, source))];
    }
    if (sample && problems.some((problem) => problem.path === `${path}.table`)) return [sample];
    return later && !(await isMigrated(reader)) ? [later] : findingsOf(subject, problems);
  } finally {
    if (reader !== db) await reader.close();
  }
}

/** Findings about the rows of an input. Tables of ours hold what the service sent. */
async function profileSource(db: Db, source: ReadSource): Promise<readonly Finding[]> {
  if (source.isPush || source.isOverOurTables) return [];
  const input = await source.open();
  const profile = profileOf(await sampleInput(db, input), input.normalize);
  return profileFindings(input, profile).map((line) => ({ subject: source.subject, ...line }));
}

async function readableText(source: ReadSource): Promise<string> {
  const { key, fields } = await source.open();
  if (source.isPush) return `can be read and returns ${key.join(", ")}`;
  const columns = new Set([...key, ...Object.values(fields).flat()]);
  return `can be read with ${countText(columns.size, "column")}`;
}

/** File systems lost with the machine or container, by magic number. */
const PASSING: ReadonlyMap<number, string> = new Map([
  [0x01021994, "tmpfs"],
  [0x858458f6, "ramfs"],
  [0x794c7630, "overlay"],
]);

/** Below this, `check` warns. */
const SCARCE_BYTES = 1024 ** 3;

/** Checks data_dir without creating it: writable, persistent, enough space. */
export async function checkDataDir(
  dataDir: string,
  needs: { readonly isEmbedded: boolean },
): Promise<Finding[]> {
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
  const { type, bavail, bsize } = await statfs(existing);
  const place = existing === dataDir ? `${dataDir} is writable` : `${dataDir} can be created in ${existing}`;
  const findings = [finding(subject, "ok", place)];
  const passing = PASSING.get(type >>> 0);
  if (passing !== undefined) {
    const kept = needs.isEmbedded ? "the embedded database" : "received answers that wait to be loaded";
    const message = `${existing} is on ${passing}: ${kept} would be lost with the machine or container`;
    findings.push(finding(subject, "warning", message, "put data_dir on a disk or a mounted volume"));
  }
  const freeBytes = bavail * bsize;
  const free = `${(freeBytes / 1024 ** 3).toFixed(1)} GB free in ${existing}`;
  const hint = needs.isEmbedded
    ? "100,000 people need about 1.5 GB in the embedded database"
    : "free some space";
  findings.push(
    freeBytes < SCARCE_BYTES
      ? finding("disk space", "warning", `only ${free}`, hint)
      : finding("disk space", "ok", free),
  );
  return findings;
}

/** The path itself, or its nearest existing parent. */
async function nearestExisting(path: string): Promise<string> {
  try {
    await stat(path);
    return path;
  } catch (error) {
    const parent = dirname(path);
    if (parent === path) throw error;
    return await nearestExisting(parent);
  }
}

/** Checks received answers on disk: those to be loaded by the next run, and those that no run will load. */
async function checkSpool(config: Config, db: Db | null): Promise<readonly Finding[]> {
  const { byJob, remarks } = await reportWaiting(config, db);
  const findings = [
    ...[...byJob].map(([job, { calls, bytes }]) => {
      const what = `${countText(calls, "received answer")} of ${job} (${megabytes(bytes)})`;
      return finding("spool", "ok", `${what} waiting for its next run`);
    }),
    ...remarks.map(({ path, message, hint = "" }) =>
      finding("spool", "warning", `${path}: ${message}`, hint),
    ),
  ];
  return findings.length === 0 ? [finding("spool", "ok", "no received answer is waiting")] : findings;
}
