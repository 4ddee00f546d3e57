import type { Db } from "../load/db/db.ts";
import { migrate } from "../load/db/setup.ts";
import type { Config, JobConfig } from "../config/config.ts";
import type { Problem } from "../errors.ts";
import type { ReadSource } from "./job-type.ts";
import { inspectSource, throwProblems } from "./read-source.ts";
import { jobTypeOf } from "./registry.ts";
import { checkServiceHost } from "./service-host.ts";

/** Result of inspecting inputs. */
interface InputFindings {
  readonly problems: readonly Problem[];
  /** Queries over the program's own tables whose problems a migration may fix. */
  readonly afterMigrating: readonly ReadSource[];
}

/** Lists the distinct tables and queries that the jobs read. */
export function sourcesOf(config: Config, jobs: readonly JobConfig[]): readonly ReadSource[] {
  const sources = jobs.flatMap((job) => jobTypeOf(job).reads(job, config));
  return [...new Map(sources.map((source) => [source.path, source])).values()];
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
