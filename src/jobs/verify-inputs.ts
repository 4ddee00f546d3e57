import type { Config, InputConfig, JobConfig } from "../config/config.ts";
import { isLookupJob } from "../config/job-kinds.ts";
import { orderJobs } from "../config/order-jobs.ts";
import { FixConfigurationError, messageOf, type Problem } from "../errors.ts";
import type { Warehouse } from "../load/warehouse.ts";
import { inputSourceOf } from "./lookup-spec.ts";

/** What looking at inputs found. */
export interface InputFindings {
  readonly problems: readonly Problem[];
  /** Queries over our own tables: what is wrong with them may be mended by migrating. */
  readonly afterMigrating: readonly InputConfig[];
}

/** Looks at each input of the jobs, with every column that is mapped; touches nothing. */
export async function inspectInputs(
  config: Config,
  warehouse: Warehouse,
  jobs: readonly JobConfig[],
): Promise<InputFindings> {
  const problems: Problem[] = [];
  const afterMigrating: InputConfig[] = [];
  for (const input of new Set(jobs.filter(isLookupJob).map((job) => job.input))) {
    const found = await inspectInput(warehouse, input);
    if (found.length > 0 && isOverOurTables(config, input)) afterMigrating.push(input);
    else problems.push(...found);
  }
  return { problems, afterMigrating };
}

async function inspectInput(warehouse: Warehouse, input: InputConfig): Promise<readonly Problem[]> {
  try {
    return await warehouse.checkInput(await inputSourceOf(input, Object.keys(input.fields)));
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) throw error;
    return error.problems.length > 0
      ? error.problems
      : [{ path: `inputs.${input.name}`, message: messageOf(error) }];
  }
}

function isOverOurTables({ warehouse }: Config, { source, connection }: InputConfig): boolean {
  if (source.kind !== "sql" || connection !== null) return false;
  return [warehouse.schema, warehouse.opsSchema].some((schema) => source.sql.includes(schema));
}

/** Throws all problems together, if there are any. */
export function throwProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  throw new FixConfigurationError("inputs", "The inputs can't be read as configured.", problems);
}

/** Verifies the inputs of the given jobs, without any of all that are switched on; throws all problems at once. */
export async function verifyInputs(
  config: Config,
  warehouse: Warehouse,
  jobs: readonly JobConfig[] = orderJobs(config),
): Promise<void> {
  const { problems, afterMigrating } = await inspectInputs(config, warehouse, jobs);
  const pending = await Promise.all(afterMigrating.map((input) => inspectInput(warehouse, input)));
  throwProblems([...problems, ...pending.flat()]);
}
