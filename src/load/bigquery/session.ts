import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import {
  DummyDriver,
  Kysely,
  MysqlAdapter,
  MysqlIntrospector,
  MysqlQueryCompiler,
  type RawBuilder,
  sql,
} from "kysely";
import { type Client, pauseMs } from "./client.ts";
import { BigQueryFailure, isConflict, isDuplicate, isNotFound, isTransient } from "./failure.ts";
import type { LoadPace } from "./load-pace.ts";
import type { Room } from "../../schemas/table.ts";
import type { DatasetNames } from "./names.ts";
import { parameterOf, type QueryParameter, type RawRow, readRow, type ResultField } from "./values.ts";

/**
 * Parameters by name (`@p1`): BigQuery's positional ones belong to places in the text, but its emulator counts them while it runs, and
 * takes the wrong ones behind a branch that is left out. A subclass is the way that kysely has for it.
 */
class NamedParameters extends MysqlQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return `@${parameterName(this.numParameters)}`;
  }
}

/** Of the n-th parameter; the first one is 1. */
function parameterName(n: number): string {
  return `p${n}`;
}

/** Compiles `sql` templates; never connects. As in MySQL, names stand in backticks. */
const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new MysqlAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new MysqlIntrospector(db),
    createQueryCompiler: () => new NamedParameters(),
  },
});

/** What every job of ours is made with. */
export interface SessionOptions {
  readonly client: Client;
  readonly names: DatasetNames;
  /** Where the datasets are: `EU`, `us-central1`; null for where BigQuery finds them. */
  readonly location: string | null;
  /** A job that would bill more is refused by BigQuery; null for no bound. */
  readonly maximumBytesBilled: number | null;
  /** When loads may begin; absent for at once. */
  readonly pace?: LoadPace;
}

/** The way to BigQuery: each statement or script is one job. */
export interface Session {
  readonly client: Client;
  readonly names: DatasetNames;
  readonly location: string | null;
  readonly pace: LoadPace | null;
  /** Reads; tried again after what passes by itself. */
  rows<Row>(statement: RawBuilder<Row>): Promise<Row[]>;
  /** Pages of a result that may be long, each as large as one answer can be. */
  pages<Row>(statement: RawBuilder<Row>, pageSize: number): AsyncIterable<Row[]>;
  /** One statement that changes something, or defines a table; returns the rows that it changed. Done once, also when replies get lost. */
  change(statement: RawBuilder<unknown>): Promise<number>;
  /**
   * Several statements in one job, without a transaction of their own; returns the rows of the last one, a SELECT. Done
   * once, also when replies get lost.
   */
  script<Row>(statements: readonly RawBuilder<unknown>[], outcome?: RawBuilder<Row>): Promise<Row[]>;
  /**
   * All or nothing: BEGIN, the statements, COMMIT, then `outcome`, which reads what `declare`d variables were SET to.
   * Conflicts with other transactions are tried again, for a while.
   */
  transaction<Row>(work: TransactionWork<Row>): Promise<Row[]>;
  /** What a statement would read and return, without running it: a dry run. */
  describe(statement: RawBuilder<unknown>): Promise<StatementDescription>;
  /** Rows of a table in its stored order, `count` from `start` on: the cheapest way to read what a work table holds. */
  tableRows<Row>(room: Room, table: string, start: number, count: number): Promise<Row[]>;
}

/** What a dry run tells. */
export interface StatementDescription {
  readonly columns: readonly ResultField[];
  /** That it would read. */
  readonly bytes: number;
}

interface DryRun {
  readonly statistics?: {
    readonly totalBytesProcessed?: string;
    readonly query?: { readonly schema?: { readonly fields?: readonly ResultField[] } };
  };
}

/** A place for the job of a transaction: who comes with the same one again gets its result, where it was done. */
export interface JobPlace {
  /** Of the last job that was begun, unless it is known to have left nothing behind; null for none. */
  jobId: string | null;
}

/** What one transaction does. In all of its statements {@link NOW} is the moment of its start. */
export interface TransactionWork<Row> {
  readonly place?: JobPlace;
  /** Variables: `sql\`n INT64 DEFAULT 0\``. */
  readonly declare?: readonly RawBuilder<unknown>[];
  readonly statements: readonly RawBuilder<unknown>[];
  /** A SELECT of the variables. */
  readonly outcome?: RawBuilder<Row>;
}

/** Name of {@link NOW}, for statements that are built as plain text. */
export const NOW_NAME = "_etl_now";

/** The transaction's time, a TIMESTAMP that every `_synced_at` of it gets. */
export const NOW = sql.raw(NOW_NAME);

/** How long a transaction that loses against others is tried again. */
const CONFLICT_PATIENCE_MS = 300_000;
/** How long one request waits for a job. */
const WAIT_MS = 20_000;

interface JobReference {
  readonly jobId: string;
  readonly location?: string;
}

/** What `getQueryResults` and `queries` answer. */
interface QueryAnswer {
  readonly jobComplete: boolean;
  readonly jobReference: JobReference;
  readonly schema?: { readonly fields?: readonly ResultField[] };
  readonly rows?: readonly RawRow[];
  readonly pageToken?: string;
  readonly numDmlAffectedRows?: string;
}

/** Makes a session. */
export function openSession(options: SessionOptions): Session {
  const { client, names, location } = options;
  const common = commonOf(options);

  async function ask(statement: RawBuilder<unknown>, maxResults?: number): Promise<QueryAnswer> {
    const answer = await client.send<QueryAnswer>({
      method: "POST",
      path: "/queries",
      body: {
        ...common.query,
        ...compiled(statement),
        ...(location === null ? {} : { location }),
        labels: LABELS,
        timeoutMs: WAIT_MS,
        formatOptions: { useInt64Timestamp: true },
        ...(maxResults === undefined ? {} : { maxResults }),
      },
    });
    return answer.jobComplete ? answer : awaitResults(client, answer.jobReference, maxResults);
  }

  async function run(query: Query, place: JobPlace = { jobId: null }): Promise<QueryAnswer> {
    const isAgain = place.jobId !== null;
    const jobId = place.jobId ?? `person_etl_${randomUUID()}`;
    place.jobId = jobId;
    const reference = { jobId, ...(location === null ? {} : { location }) };
    try {
      return await runAs(reference, query);
    } catch (error) {
      // What passes by itself leaves open what became of the job; it may also be its own end.
      const isOver = !isTransient(error) || (isAgain && (await hasFailed(client, reference)));
      if (isOver) place.jobId = null;
      if (isOver && isAgain) return run(query, place);
      throw error;
    }
  }

  async function runAs(reference: JobReference, query: Query): Promise<QueryAnswer> {
    await insertJob(client, {
      jobReference: { ...reference, projectId: names.project },
      configuration: { labels: LABELS, query: { ...common.query, ...query } },
    });
    return awaitResults(client, reference);
  }

  async function rest<Row>(answer: QueryAnswer): Promise<Row[]> {
    const rows: Row[] = [];
    for await (const page of pagesOf<Row>(client, answer)) rows.push(...page);
    return rows;
  }

  return {
    client,
    names,
    location,
    pace: options.pace ?? null,
    async rows<Row>(statement: RawBuilder<Row>) {
      return rest<Row>(await ask(statement));
    },
    async *pages<Row>(statement: RawBuilder<Row>, pageSize: number) {
      yield* pagesOf<Row>(client, await ask(statement, pageSize), pageSize);
    },
    async change(statement) {
      const query = compiled(statement);
      return Number((await throughConflicts(() => run(query))).numDmlAffectedRows ?? 0);
    },
    async script<Row>(statements: readonly RawBuilder<unknown>[], outcome?: RawBuilder<Row>) {
      const all = outcome ? [...statements, outcome] : statements;
      return rest<Row>(await run(compiled(sql.join(all, sql.raw(";\n")))));
    },
    async transaction<Row>(work: TransactionWork<Row>) {
      const query = compiled(transactionText(work));
      return rest<Row>(await throughConflicts(() => run(query, work.place)));
    },
    async describe(statement) {
      const { statistics } = await client.send<DryRun>({
        method: "POST",
        path: "/jobs",
        body: {
          ...(location === null ? {} : { jobReference: { projectId: names.project, location } }),
          configuration: { dryRun: true, labels: LABELS, query: { ...common.query, ...compiled(statement) } },
        },
      });
      return {
        columns: statistics?.query?.schema?.fields ?? [],
        bytes: Number(statistics?.totalBytesProcessed ?? 0),
      };
    },
    async tableRows<Row>(room: Room, table: string, start: number, count: number) {
      const path = `/datasets/${names[room]}/tables/${table}`;
      const fields = await fieldsOf(client, path);
      const rows: Row[] = [];
      while (rows.length < count) {
        const page = await client.send<{ readonly rows?: readonly RawRow[] }>({
          method: "GET",
          path: `${path}/data`,
          query: {
            startIndex: start + rows.length,
            maxResults: count - rows.length,
            "formatOptions.useInt64Timestamp": true,
          },
        });
        // An answer is bounded in bytes too: fewer rows than asked for need not be the last.
        const found = page.rows ?? [];
        if (found.length === 0) break;
        // The row type is what the table's author declared.
        rows.push(...found.map((row) => readRow(fields, row) as Row));
      }
      return rows;
    },
  };
}

/** Does again what lost against another transaction, as long as patience lasts: it left nothing behind. */
async function throughConflicts<Result>(work: () => Promise<Result>): Promise<Result> {
  const end = Date.now() + CONFLICT_PATIENCE_MS;
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isConflict(error) || Date.now() > end) throw error;
      await delay(pauseMs(attempt));
    }
  }
}

/** On every job, so that its cost can be told from others'. */
const LABELS = { application: "person-etl" };

function commonOf({ names, maximumBytesBilled }: SessionOptions) {
  return {
    query: {
      useLegacySql: false,
      // A connection may have none.
      ...(names.data === "" ? {} : { defaultDataset: { projectId: names.project, datasetId: names.data } }),
      ...(maximumBytesBilled === null ? {} : { maximumBytesBilled: String(maximumBytesBilled) }),
    },
  };
}

/** A statement as the API takes it. */
interface Query {
  readonly query: string;
  readonly parameterMode?: "NAMED";
  readonly queryParameters?: readonly QueryParameter[];
}

function compiled(statement: RawBuilder<unknown>): Query {
  const { sql: query, parameters } = statement.compile(compiler);
  if (parameters.length === 0) return { query };
  const named = parameters.map((value, i) => parameterOf(parameterName(i + 1), value));
  return { query, parameterMode: "NAMED", queryParameters: named };
}

function transactionText<Row>({
  declare = [],
  statements,
  outcome,
}: TransactionWork<Row>): RawBuilder<unknown> {
  const declarations = declare.map((variable) => sql`DECLARE ${variable}`);
  return sql.join(
    [
      sql`DECLARE ${NOW} TIMESTAMP DEFAULT CURRENT_TIMESTAMP()`,
      ...declarations,
      sql`BEGIN TRANSACTION`,
      ...statements,
      sql`COMMIT TRANSACTION`,
      outcome ?? sql`SELECT 1`,
    ],
    sql.raw(";\n"),
  );
}

/** Starts a job under an id of our own: a second try of the request finds it instead of starting it again. */
export async function insertJob(client: Client, job: unknown): Promise<void> {
  try {
    await client.send({ method: "POST", path: "/jobs", body: job });
  } catch (error) {
    if (!isDuplicate(error) || isResourceConflict(error)) throw error;
  }
}

/** Whether a job was done and failed; not where nobody knows of it. */
async function hasFailed(client: Client, { jobId, location }: JobReference): Promise<boolean> {
  try {
    const { status } = await client.send<{ readonly status: { readonly errorResult?: object } }>({
      method: "GET",
      path: `/jobs/${jobId}`,
      query: { location },
    });
    return status.errorResult !== undefined;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** "Already Exists: Table" of a statement that failed at once, not of the job. */
function isResourceConflict(error: unknown): boolean {
  return error instanceof BigQueryFailure && !/Already Exists: Job/i.test(error.message);
}

/** Waits until a job has its result. */
async function awaitResults(
  client: Client,
  { jobId, location }: JobReference,
  maxResults?: number,
): Promise<QueryAnswer> {
  for (;;) {
    const answer = await client.send<QueryAnswer>({
      method: "GET",
      path: `/queries/${jobId}`,
      query: { location, timeoutMs: WAIT_MS, maxResults, "formatOptions.useInt64Timestamp": true },
    });
    if (answer.jobComplete) return answer;
  }
}

async function* pagesOf<Row>(client: Client, first: QueryAnswer, maxResults?: number): AsyncIterable<Row[]> {
  const fields = first.schema?.fields ?? [];
  for (let page = first; ; ) {
    // The row type is what the statement's author declared.
    yield (page.rows ?? []).map((row) => readRow(fields, row) as Row);
    const { pageToken } = page;
    if (pageToken === undefined || pageToken === "") return;
    const { jobId, location } = first.jobReference;
    page = await client.send<QueryAnswer>({
      method: "GET",
      path: `/queries/${jobId}`,
      query: { location, pageToken, maxResults, "formatOptions.useInt64Timestamp": true },
    });
  }
}

async function fieldsOf(client: Client, path: string): Promise<readonly ResultField[]> {
  const table = await client.send<{ readonly schema?: { readonly fields?: readonly ResultField[] } }>({
    method: "GET",
    path,
  });
  return table.schema?.fields ?? [];
}
