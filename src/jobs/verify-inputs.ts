import type { Db } from "../load/db/db.ts";
import { isMigrated } from "../load/db/setup.ts";
import { checkInput } from "../load/inputs/check-input.ts";
import type { Config, JobConfig } from "../config/config.ts";
import { isLookupJob } from "../config/job-kinds.ts";
import { orderJobs } from "../config/order-jobs.ts";
import { FixConfigurationError, messageOf, type Problem } from "../errors.ts";
import type { InputSource } from "../load/lookup.ts";
import { inputSourceOf } from "./lookup/lookup-spec.ts";
import { pushSourceOf } from "./segments/push-source.ts";

/** A table or query that a job reads: an input, or the query of a segment_push job. */
export interface ReadSource {
  /** Where it stands in the configuration. */
  readonly path: string;
  readonly isPush: boolean;
  /** A query over our own tables. */
  readonly isOverOurTables: boolean;
  open(): Promise<InputSource>;
}

/** What looking at inputs found. */
export interface InputFindings {
  readonly problems: readonly Problem[];
  /** Queries over our own tables: what is wrong with them may be mended by migrating. */
  readonly afterMigrating: readonly ReadSource[];
}

/** Everything that the jobs read, each once. */
export function sourcesOf(config: Config, jobs: readonly JobConfig[]): readonly ReadSource[] {
  const inputs = new Set(jobs.filter(isLookupJob).map((job) => job.input));
  const ofInputs = [...inputs].map(
    (input): ReadSource => ({
      path: `inputs.${input.name}`,
      isPush: false,
      isOverOurTables:
        input.source.kind === "sql" && input.connection === null && namesOurSchemas(config, input.source.sql),
      open: () => inputSourceOf(input, Object.keys(input.fields)),
    }),
  );
  const ofPushes = jobs.flatMap((job): readonly ReadSource[] =>
    job.type === "segment_push"
      ? [
          {
            path: `jobs.${job.name}`,
            isPush: true,
            isOverOurTables: job.connection === null && namesOurSchemas(config, job.sql),
            open: () => pushSourceOf(job),
          },
        ]
      : [],
  );
  return [...ofInputs, ...ofPushes];
}

function namesOurSchemas({ warehouse }: Config, sql: string): boolean {
  return [warehouse.schema, warehouse.opsSchema].some((schema) => sql.includes(schema));
}

/** Looks at each input of the jobs, with every column that is mapped; touches nothing. */
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

/** What is wrong with a source; touches nothing. */
export async function inspectSource(
  db: Db,
  { path, isPush, ...of }: ReadSource,
): Promise<readonly Problem[]> {
  try {
    const source = await of.open();
    const found = await checkInput(db, source);
    if (!isPush) return found;
    return found.map((problem) => inQuery(problem, { path, source }));
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) throw error;
    return error.problems.length > 0 ? error.problems : [{ path, message: messageOf(error) }];
  }
}

/** A problem of a push: it stands in its query, which alone decides what its column is called. */
function inQuery(
  problem: Problem,
  { path, source }: { readonly path: string; readonly source: InputSource },
): Problem {
  const isColumn = problem.path === `inputs.${source.name}.key`;
  const hint = isColumn
    ? `${problem.hint ?? ""} Give the PIDs under that name: SELECT … AS service_pid.`
    : null;
  return { ...problem, path: `${path}.sql`, ...(hint === null ? {} : { hint }) };
}

/** Looks once more at what could not be read before migrating; throws all problems at once. */
export async function verifyAfterMigrating(db: Db, sources: readonly ReadSource[]): Promise<void> {
  const found = await Promise.all(sources.map((source) => inspectSource(db, source)));
  throwProblems(found.flat());
}

/** Throws all problems together, if there are any. */
export function throwProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  throw new FixConfigurationError("inputs", "The inputs can't be read as configured.", problems);
}

/** Verifies the inputs of the given jobs, without any of all that are switched on; throws all problems at once. */
export async function verifyInputs(
  config: Config,
  db: Db,
  jobs: readonly JobConfig[] = orderJobs(config),
): Promise<void> {
  const { problems, afterMigrating } = await inspectInputs(config, db, jobs);
  // Before the first run what a push reads is still to be made.
  const isMade = afterMigrating.length === 0 || (await isMigrated(db));
  const pending = await Promise.all(
    afterMigrating.filter((source) => isMade || !source.isPush).map((source) => inspectSource(db, source)),
  );
  throwProblems([...problems, ...pending.flat()]);
}
