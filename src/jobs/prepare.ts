import type { Config, JobConfig } from "../config/config.ts";
import type { Problem } from "../errors.ts";
import type { Db } from "../load/db/db.ts";
import { renewInputViews } from "../load/db/input-views.ts";
import { migrate } from "../load/db/migrate.ts";
import { dropTombstones } from "../load/erasure/remove.ts";
import { checkErasureKey } from "../load/erasure/requests.ts";
import { describeKey } from "../load/inputs/read.ts";
import { type EraseServices, finishErasures } from "./erase/erase.ts";
import { takeOverExpired } from "./hold-job.ts";
import { reportSpooled } from "./lookup/job-spool.ts";
import { jobTypeOf } from "./registry.ts";
import { checkServiceHost } from "./service-identity.ts";
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
