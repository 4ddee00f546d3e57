import { randomUUID } from "node:crypto";
import { type Client, pause, pauseMs } from "./client.ts";
import { BigQueryFailure, isConflict, isDuplicate, isTransient } from "./failure.ts";
import { type Parameter, parameterOf, type RawRow, readRow, type ResultField } from "./sql.ts";

/** A statement or script, with its parameters by name (`@name`). */
interface Statement {
  readonly text: string;
  readonly parameters?: Readonly<Record<string, Parameter>>;
  /** Time after which BigQuery stops the job of a query, with the reason `stopped`; without, six hours. */
  readonly jobTimeoutMs?: number;
}

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
export type Session = ReturnType<typeof openSession>;

/** Milliseconds that one request waits for a job. */
const WAIT_MS = 20_000;

/** Maximum number of jobs per query. */
const MAX_JOBS = 3;

/** Response of `getQueryResults` and `queries`. */
interface QueryAnswer {
  readonly jobComplete: boolean;
  readonly jobReference: JobReference;
  readonly schema?: { readonly fields?: readonly ResultField[] };
  readonly rows?: readonly RawRow[];
  readonly pageToken?: string;
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

export function openSession(options: SessionOptions) {
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
        const hasFailed = error instanceof BigQueryFailure && isJobError(error);
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
        labels: client.labels,
        // A request that is sent again after a lost answer runs, and bills, once.
        requestId: randomUUID(),
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
        ...(location === null ? {} : { jobReference: { projectId: client.billingProject, location } }),
        configuration: { dryRun: true, labels: client.labels, query: { ...common, ...queryOf(statement) } },
      },
    });
    return statistics?.query;
  }

  return {
    client,
    /** Checks a statement without running it; bills nothing. */
    dryRun: async (statement: Statement) => void (await dryRun(statement)),
    /** Runs a query; retried after transient failures. */
    async rows<Row>(statement: Statement): Promise<Row[]> {
      return rowsOf<Row>(client, await ask(statement));
    },
    /** Yields a long result in pages of maximum size. */
    async *pages<Row>(statement: Statement, pageSize: number): AsyncIterable<Row[]> {
      yield* pagesOf<Row>(client, await ask(statement, pageSize), pageSize);
    },
    /** Columns that a single SELECT would return, by a dry run; throws for anything else. */
    async describe(statement: Statement): Promise<readonly ResultField[]> {
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

/** Converts a statement into the fields of a query job. */
export function queryOf({ text, parameters = {} }: Statement): object {
  const named = Object.entries(parameters).map(([name, value]) => parameterOf(name, value));
  if (named.length === 0) return { query: text };
  return { query: text, parameterMode: "NAMED", queryParameters: named };
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

/** Reference of a job; outside the US and EU it is found only in its location. */
export interface JobReference {
  readonly jobId: string;
  readonly location?: string;
}

interface FinishedJob {
  readonly jobReference: JobReference;
  readonly statistics?: { readonly query?: { readonly totalBytesBilled?: string } };
}

interface Job extends FinishedJob {
  readonly status: {
    readonly state: string;
    readonly errorResult?: { readonly reason?: string; readonly message?: string };
  };
}

const FIRST_POLL_MS = 20;

const LONGEST_POLL_MS = 2_000;

const MAX_ATTEMPTS = 8;

/** Waits until a job has succeeded; throws its error if it failed, and ends at the client's signal and deadline. */
export async function finishedJob(client: Client, job: JobReference): Promise<FinishedJob> {
  const end = performance.now() + client.jobDeadlineMs;
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(LONGEST_POLL_MS, pollMs * 1.5)) {
    const found = await client.send<Job>({
      method: "GET",
      path: `/jobs/${job.jobId}`,
      query: { location: job.location },
    });
    const { state, errorResult } = found.status;
    if (state === "DONE" && !errorResult) return found;
    if (state === "DONE") {
      throw new BigQueryFailure(
        errorResult?.reason ?? "unknown",
        errorResult?.message ?? "the job failed",
        null,
      );
    }
    if (performance.now() > end) {
      const hours = Math.round(client.jobDeadlineMs / 3_600_000);
      throw new BigQueryFailure("ETIMEDOUT", `job ${job.jobId} has not ended in ${hours} hours`, null);
    }
    await pause(pollMs, client.signal);
  }
}

/**
 * Runs a job under our own ID until an attempt succeeds. Waits for an attempt started earlier, by a process that died
 * or with a lost reply. The next attempt starts once the last one has failed with a transient error.
 * @param submit starts the job with this id; throws a duplicate error if it exists.
 */
export async function runJob(
  client: Client,
  job: { readonly id: string; readonly location: string | null },
  submit: (reference: JobReference & { readonly projectId: string }) => Promise<JobReference>,
): Promise<FinishedJob> {
  const { billingProject: projectId } = client;
  const place = job.location === null ? {} : { location: job.location };
  for (let attempt = 1; ; attempt++) {
    const own = { projectId, jobId: `${job.id}_${attempt}`, ...place };
    let reference: JobReference;
    try {
      reference = await submit(own);
    } catch (error) {
      if (!isDuplicateJob(error)) throw error;
      reference = own;
    }
    try {
      return await finishedJob(client, reference);
    } catch (error) {
      const hasFailed = error instanceof BigQueryFailure && isJobError(error);
      if (!hasFailed || attempt === MAX_ATTEMPTS) throw error;
      await pause(pauseMs(attempt), client.signal);
    }
  }
}

/** True for a transient error of the job itself; false if it may still run: the connection was lost, or it takes too long. */
function isJobError(error: BigQueryFailure): boolean {
  const isConnection = /^(E[A-Z]|UND_)/.test(error.code);
  return error.status === null && !isConnection && (isTransient(error) || isConflict(error));
}

/** True if the job exists, not a table that its statement creates. */
function isDuplicateJob(error: unknown): boolean {
  return isDuplicate(error) && error instanceof Error && /Already Exists: Job/i.test(error.message);
}

export async function insertJob(
  client: Client,
  jobReference: JobReference & { readonly projectId: string },
  configuration: object,
): Promise<JobReference> {
  const job = await client.send<FinishedJob>({
    method: "POST",
    path: "/jobs",
    body: { jobReference, configuration },
  });
  return job.jobReference;
}
