import type { Config, ConnectionConfig, InputConfig } from "../config/config.ts";
import { FixConfigurationError, messageOf, type Problem } from "../errors.ts";
import type { Db } from "../load/db/db.ts";
import { isSampleTable } from "../load/db/copy.ts";
import { membersSql } from "../load/feeds/searches.ts";
import type { InputConnection, InputSource } from "../load/inputs/input.ts";
import { checkInput } from "../load/inputs/read.ts";

export interface ReadSource {
  /** `input NAME`, or `query of JOB`. */
  readonly subject: string;
  readonly path: string;
  /** True for a table or view, false for a query. */
  readonly isTable: boolean;
  /** True for a query of IDs only (`segment_push`, `contact_jobs`). */
  readonly isPush: boolean;
  /** True for a query over the program's own tables. */
  readonly isOverOurTables: boolean;
  /** Null: the warehouse. */
  readonly connection: string | null;
  /** True if its rows are sent to the sandbox, which alone may get sample rows. */
  readonly isForSandbox: boolean;
  open(): Promise<InputSource>;
}

/** True if a query mentions one of the program's schemas, whose tables are created by the first run. */
function namesOurSchemas({ warehouse }: Pick<Config, "warehouse">, sql: string): boolean {
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
    const isLocal = found.length === 0 && read.connection === null;
    if (isLocal && !read.isForSandbox && (await isSampleTable(db, source))) return [sampleProblem(path)];
    return isPush ? found.map((problem) => inQuery(problem, { path, source })) : found;
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) throw error;
    return error.problems.length > 0 ? error.problems : [{ path, message: messageOf(error) }];
  }
}

function sampleProblem(path: string): Problem {
  return {
    path: `${path}.table`,
    message: "names a table of sample rows, whose people are invented for the sandbox",
    hint: "name a table of your own; `person-etl drop --trial` removes the sample rows with the rest of the trial",
  };
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

export function throwProblems(problems: readonly Problem[]): void {
  if (problems.length === 0) return;
  throw new FixConfigurationError("inputs", "The inputs can't be read as configured.", problems);
}

/** Input as read by a job: with the columns of these fields. Reads the connection's address. */
export async function inputSourceOf(
  input: InputConfig,
  inputFields: readonly string[],
): Promise<InputSource> {
  const { source, connection } = input;
  const fields = Object.entries(input.fields).filter(([field]) => inputFields.includes(field));
  return {
    name: input.name,
    connection: connection && (await connectionOf(connection)),
    relation: relationOf(source),
    where: input.where,
    orderBy: input.orderBy,
    key: input.key,
    normalize: input.normalize,
    fields: Object.fromEntries(fields),
  };
}

/** All inputs with every mapped column. */
export function allInputs({ inputs }: Pick<Config, "inputs">): Promise<readonly InputSource[]> {
  return Promise.all(Object.values(inputs).map((input) => inputSourceOf(input, Object.keys(input.fields))));
}

function relationOf(source: InputConfig["source"]): InputSource["relation"] {
  if (source.kind === "sql") return { sql: source.sql };
  if (source.kind === "members") return { sql: membersSql(source.schema, source.query) };
  return { table: source.schema === null ? [source.table] : [source.schema, source.table] };
}

export function readSourceOf(input: InputConfig, config: Config): ReadSource {
  const { source, connection } = input;
  return {
    subject: `input ${input.name}`,
    path: `inputs.${input.name}`,
    isTable: source.kind === "table",
    isPush: false,
    isOverOurTables:
      source.kind === "members" ||
      (source.kind === "sql" && connection === null && namesOurSchemas(config, source.sql)),
    connection: connection?.name ?? null,
    isForSandbox: config.service.baseUrl === "sandbox",
    open: () => inputSourceOf(input, Object.keys(input.fields)),
  };
}

/** Connection of another database. Reads its address. */
async function connectionOf(connection: ConnectionConfig): Promise<InputConnection> {
  if (connection.type !== "postgres") return connection;
  const { name, type, url, allowInsecure } = connection;
  return { type, name, url: await url.read(), readUrl: () => url.read(), allowInsecure };
}

export interface IdQuery {
  readonly name: string;
  readonly path: string;
  readonly sql: string;
  readonly connection: ConnectionConfig | null;
  /** Column of the IDs. */
  readonly key: string;
}

/** Builds an input from a query, with the ID as key. Reads the connection's address. */
export async function idSourceOf({ name, sql, connection, key }: IdQuery): Promise<InputSource> {
  return {
    name,
    connection: connection && (await connectionOf(connection)),
    relation: { sql },
    where: null,
    orderBy: null,
    key: [key],
    normalize: false,
    fields: {},
  };
}

/** Builds the source that `check` verifies. */
export function idReadSource(query: IdQuery, config: Config): ReadSource {
  const { name, path, sql, connection } = query;
  return {
    subject: `query of ${name}`,
    path,
    isTable: false,
    isPush: true,
    isOverOurTables: connection === null && namesOurSchemas(config, sql),
    connection: connection?.name ?? null,
    isForSandbox: config.service.baseUrl === "sandbox",
    open: () => idSourceOf(query),
  };
}
