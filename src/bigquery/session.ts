import type { Client } from "./client.ts";
import { BigQueryFailure, isTransient } from "./failure.ts";
import { finishedJob, type JobReference } from "./jobs.ts";
import {
  type Parameter,
  parameterOf,
  type QueryParameter,
  type RawRow,
  readRow,
  type ResultField,
} from "./values.ts";

/** A statement or script, with its parameters by name (`@name`). */
export interface Statement {
  readonly text: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
  /** Time after which BigQuery stops the job of a query, with the reason `stopped`; without, six hours. */
  readonly jobTimeoutMs?: number;
}

/** Settings of every query job. */
interface SessionOptions {
  readonly client: Client;
  /** Default dataset; null for none. */
  readonly dataset: string | null;
  /** Location of the datasets (`EU`, `us-central1`); null lets BigQuery find it. */
  readonly location: string | null;
  /** BigQuery rejects a job that would bill more; null for no limit. */
  readonly maximumBytesBilled: number | null;
}

/** Reads from BigQuery; each statement is one job. */
export interface Session {
  readonly client: Client;
  /** Runs a query; retried after transient failures. */
  rows<Row>(statement: Statement): Promise<Row[]>;
  /** Yields a long result in pages of maximum size. */
  pages<Row>(statement: Statement, pageSize: number): AsyncIterable<Row[]>;
  /** Checks a statement without running it; bills nothing. */
  dryRun(statement: Statement): Promise<void>;
  /** Columns that a single SELECT would return, by a dry run; throws for anything else. */
  describe(statement: Statement): Promise<readonly ResultField[]>;
}

interface DryRun {
  readonly statistics?: {
    readonly query?: {
      readonly schema?: { readonly fields?: readonly ResultField[] };
      /** `SELECT`; `SCRIPT` for several statements. */
      readonly statementType?: string;
    };
  };
}

/** Milliseconds that one request waits for a job. */
const WAIT_MS = 20_000;
/** Maximum number of jobs per query. */
const MAX_JOBS = 3;

/** Labels of every job, for cost attribution. */
export const LABELS = { application: "person-etl" };

/** Response of `getQueryResults` and `queries`. */
interface QueryAnswer {
  readonly jobComplete: boolean;
  readonly jobReference: JobReference;
  readonly schema?: { readonly fields?: readonly ResultField[] };
  readonly rows?: readonly RawRow[];
  readonly pageToken?: string;
}

/** Opens a session. */
export function openSession(options: SessionOptions): Session {
  const { client, dataset, location, maximumBytesBilled } = options;
  const common = {
    useLegacySql: false,
    ...(dataset === null ? {} : { defaultDataset: { projectId: client.project, datasetId: dataset } }),
    ...(maximumBytesBilled === null ? {} : { maximumBytesBilled: String(maximumBytesBilled) }),
  };

  /** Runs a query as a new job; retries after transient errors. */
  async function ask(statement: Statement, maxResults?: number): Promise<QueryAnswer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await askOnce(statement, maxResults);
      } catch (error) {
        const hasFailed = error instanceof BigQueryFailure && error.status === null && isTransient(error);
        if (!hasFailed || attempt === MAX_JOBS) throw error;
      }
    }
  }

  async function askOnce(statement: Statement, maxResults?: number): Promise<QueryAnswer> {
    const answer = await client.send<QueryAnswer>({
      method: "POST",
      path: "/queries",
      body: {
        ...common,
        ...queryOf(statement),
        ...(location === null ? {} : { location }),
        labels: LABELS,
        ...(statement.jobTimeoutMs === undefined ? {} : { jobTimeoutMs: String(statement.jobTimeoutMs) }),
        timeoutMs: WAIT_MS,
        formatOptions: { useInt64Timestamp: true },
        ...(maxResults === undefined ? {} : { maxResults }),
      },
    });
    return answer.jobComplete ? answer : awaitResults(client, answer.jobReference, maxResults);
  }

  async function dryRun(statement: Statement) {
    const { statistics } = await client.send<DryRun>({
      method: "POST",
      path: "/jobs",
      body: {
        ...(location === null ? {} : { jobReference: { projectId: client.project, location } }),
        configuration: { dryRun: true, labels: LABELS, query: { ...common, ...queryOf(statement) } },
      },
    });
    return statistics?.query;
  }

  return {
    client,
    dryRun: async (statement) => void (await dryRun(statement)),
    async rows<Row>(statement: Statement) {
      return rowsOf<Row>(client, await ask(statement));
    },
    async *pages<Row>(statement: Statement, pageSize: number) {
      yield* pagesOf<Row>(client, await ask(statement, pageSize), pageSize);
    },
    async describe(statement) {
      const { schema, statementType = "SELECT" } = (await dryRun(statement)) ?? {};
      // Nothing else only reads.
      if (statementType !== "SELECT") {
        throw new BigQueryFailure("invalidQuery", `The text is no single SELECT (${statementType})`, 400);
      }
      return schema?.fields ?? [];
    },
  };
}

/** Rows of the last statement of a job. */
export async function resultsOf<Row>(client: Client, job: JobReference): Promise<Row[]> {
  return rowsOf<Row>(client, await awaitResults(client, job));
}

/** Statement in the form of the API. */
interface Query {
  readonly query: string;
  readonly parameterMode?: "NAMED";
  readonly queryParameters?: readonly QueryParameter[];
}

/** Converts a statement into the fields of a query job. */
export function queryOf({ text, parameters = {} }: Statement): Query {
  const named = Object.entries(parameters).map(([name, value]) => parameterOf(name, value));
  return named.length === 0
    ? { query: text }
    : { query: text, parameterMode: "NAMED", queryParameters: named };
}

/** First page of a job's result, once it has finished. */
async function awaitResults(client: Client, job: JobReference, maxResults?: number): Promise<QueryAnswer> {
  await finishedJob(client, job);
  return client.send<QueryAnswer>({
    method: "GET",
    path: `/queries/${job.jobId}`,
    query: { location: job.location, maxResults, "formatOptions.useInt64Timestamp": true },
  });
}

async function rowsOf<Row>(client: Client, answer: QueryAnswer): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const page of pagesOf<Row>(client, answer)) rows.push(...page);
  return rows;
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
