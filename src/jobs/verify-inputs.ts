import type { Db } from "../load/db/db.ts";
import { isMigrated } from "../load/db/setup.ts";
import type { Config, JobConfig } from "../config/config.ts";
import { orderJobs } from "../config/order-jobs.ts";
import type { Problem } from "../errors.ts";
import type { ReadSource } from "./job-type.ts";
import { inspectSource, throwProblems } from "./read-source.ts";
import { jobTypeOf } from "./registry.ts";

/** Result of looking at inputs. */
export interface InputFindings {
  readonly problems: readonly Problem[];
  /** Queries over the program's own tables: a migration may fix their problems. */
  readonly afterMigrating: readonly ReadSource[];
}

/** Lists the tables and queries that the jobs read, each once. */
export function sourcesOf(config: Config, jobs: readonly JobConfig[]): readonly ReadSource[] {
  const sources = jobs.flatMap((job) => jobTypeOf(job).reads(job, config));
  return [...new Map(sources.map((source) => [source.path, source])).values()];
}

/** Looks at each source of the jobs, with every mapped column; changes nothing. */
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

/** Looks again at sources that could not be read before migrating; throws all problems at once. */
export async function verifyAfterMigrating(db: Db, sources: readonly ReadSource[]): Promise<void> {
  const found = await Promise.all(sources.map((source) => inspectSource(db, source)));
  throwProblems(found.flat());
}

/** Verifies the inputs of the given jobs, or of all enabled ones; throws all problems at once. */
export async function verifyInputs(
  config: Config,
  db: Db,
  jobs: readonly JobConfig[] = orderJobs(config),
): Promise<void> {
  const { problems, afterMigrating } = await inspectInputs(config, db, jobs);
  // Before the first run, the tables that a push reads don't exist yet.
  const isMade = afterMigrating.length === 0 || (await isMigrated(db));
  const pending = await Promise.all(
    afterMigrating.filter((source) => isMade || !source.isPush).map((source) => inspectSource(db, source)),
  );
  throwProblems([...problems, ...pending.flat()]);
}
