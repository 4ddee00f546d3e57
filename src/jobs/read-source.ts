import type { z } from "zod";
import type { Config } from "../config/config.ts";
import { FixConfigurationError, messageOf, type Problem, StopJobError } from "../errors.ts";
import type { Db } from "../load/db/db.ts";
import { checkInput } from "../load/inputs/check-input.ts";
import type { InputSource } from "../load/inputs/input-source.ts";
import type { StoredCheckpoint } from "../load/write/checkpoints.ts";
import type { ReadSource } from "./job-type.ts";
import type { RunRequest } from "./services.ts";

/**
 * Returns the cursor of a stream; null before its first commit and with `--full-refresh`. Throws a StopJobError for an
 * invalid cursor.
 */
export function readCursor<T>(
  {
    checkpoints,
    job,
    request,
  }: {
    readonly checkpoints: ReadonlyMap<string, Pick<StoredCheckpoint, "cursor">>;
    readonly job: { readonly name: string };
    readonly request: Pick<RunRequest, "fullRefresh">;
  },
  stream: string,
  schema: z.ZodType<T>,
): T | null {
  const stored = checkpoints.get(stream);
  if (!stored || request.fullRefresh) return null;
  const read = schema.safeParse(stored.cursor);
  if (read.success) return read.data;
  throw new StopJobError(
    "bad_checkpoint",
    `${job.name}: the checkpoint of stream ${stream} can't be read: ${issuesOf(read.error)}. Fix it with \`person-etl checkpoint set ` +
      `${job.name}\`, or delete it with \`person-etl checkpoint reset ${job.name}\`.`,
  );
}

/** Problems of a cursor by key: `next must be …`. */
function issuesOf({ issues }: z.ZodError): string {
  return issues
    .map(({ path: [key], message }) => `${key === undefined ? "it" : String(key)} ${message}`)
    .join("; ");
}

/** True if a query mentions one of the program's schemas, whose tables are created by the first run. */
export function namesOurSchemas({ warehouse }: Pick<Config, "warehouse">, sql: string): boolean {
  return [warehouse.schema, warehouse.opsSchema, warehouse.stateSchema].some((schema) =>
    sql.includes(schema),
  );
}

/** Returns the problems of a source; changes nothing. */
export async function inspectSource(
  db: Db,
  { path, isPush, ...read }: ReadSource,
): Promise<readonly Problem[]> {
  try {
    const source = await read.open();
    const found = await checkInput(db, source);
    return isPush ? found.map((problem) => inQuery(problem, { path, source })) : found;
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) throw error;
    return error.problems.length > 0 ? error.problems : [{ path, message: messageOf(error) }];
  }
}

/** Changes a column problem of a push to refer to its query. */
function inQuery(
  problem: Problem,
  { path, source }: { readonly path: string; readonly source: InputSource },
): Problem {
  const isColumn = problem.path === `inputs.${source.name}.key`;
  const [key = ""] = source.key;
  const what = key === "service_pid" ? "PIDs" : "IDs";
  const hint = isColumn
    ? `${problem.hint ?? ""} Return the ${what} under that name: SELECT … AS ${key}.`
    : null;
  return { ...problem, path: `${path}.sql`, ...(hint === null ? {} : { hint }) };
}

/** Throws all problems together, if any. */
export function throwProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  throw new FixConfigurationError("inputs", "The inputs can't be read as configured.", problems);
}
