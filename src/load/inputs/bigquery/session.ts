import {
  DummyDriver,
  Kysely,
  MysqlAdapter,
  MysqlIntrospector,
  MysqlQueryCompiler,
  type RawBuilder,
} from "kysely";
import type { Client } from "./client.ts";
import { parameterOf, type QueryParameter, type RawRow, readRow, type ResultField } from "./values.ts";

/** Compiles parameters by name (`@p1`). A subclass is the way that kysely has for it. */
class NamedParameters extends MysqlQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return `@${parameterName(this.numParameters)}`;
  }
}

/** Name of the n-th parameter, counted from 1. */
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

/** Settings of every query job. */
export interface SessionOptions {
  readonly client: Client;
  readonly project: string;
  /** Default dataset; null for none. */
  readonly dataset: string | null;
  /** Location of the datasets (`EU`, `us-central1`); null lets BigQuery find it. */
  readonly location: string | null;
  /** BigQuery refuses a job that would bill more; null for no bound. */
  readonly maximumBytesBilled: number | null;
}

/** Reads from BigQuery; each statement is one job. */
export interface Session {
  /** Runs a query; retried after transient failures. */
  rows<Row>(statement: RawBuilder<Row>): Promise<Row[]>;
  /** Yields a long result in pages, each as large as one response can be. */
  pages<Row>(statement: RawBuilder<Row>, pageSize: number): AsyncIterable<Row[]>;
  /** Columns that a query would return, by a dry run. */
  describe(statement: RawBuilder<unknown>): Promise<readonly ResultField[]>;
}

interface DryRun {
  readonly statistics?: {
    readonly query?: { readonly schema?: { readonly fields?: readonly ResultField[] } };
  };
}

/** Milliseconds that one request waits for a job. */
const WAIT_MS = 20_000;

interface JobReference {
  readonly jobId: string;
  readonly location?: string;
}

/** Response of `getQueryResults` and `queries`. */
interface QueryAnswer {
  readonly jobComplete: boolean;
  readonly jobReference: JobReference;
  readonly schema?: { readonly fields?: readonly ResultField[] };
  readonly rows?: readonly RawRow[];
  readonly pageToken?: string;
}

/** On every job, so that its cost can be attributed. */
const LABELS = { application: "person-etl" };

/** Opens a session. */
export function openSession(options: SessionOptions): Session {
  const { client, project, dataset, location, maximumBytesBilled } = options;
  const common = {
    useLegacySql: false,
    ...(dataset === null ? {} : { defaultDataset: { projectId: project, datasetId: dataset } }),
    ...(maximumBytesBilled === null ? {} : { maximumBytesBilled: String(maximumBytesBilled) }),
  };

  async function ask(statement: RawBuilder<unknown>, maxResults?: number): Promise<QueryAnswer> {
    const answer = await client.send<QueryAnswer>({
      method: "POST",
      path: "/queries",
      body: {
        ...common,
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

  return {
    async rows<Row>(statement: RawBuilder<Row>) {
      const rows: Row[] = [];
      for await (const page of pagesOf<Row>(client, await ask(statement))) rows.push(...page);
      return rows;
    },
    async *pages<Row>(statement: RawBuilder<Row>, pageSize: number) {
      yield* pagesOf<Row>(client, await ask(statement, pageSize), pageSize);
    },
    async describe(statement) {
      const { statistics } = await client.send<DryRun>({
        method: "POST",
        path: "/jobs",
        body: {
          ...(location === null ? {} : { jobReference: { projectId: project, location } }),
          configuration: { dryRun: true, labels: LABELS, query: { ...common, ...compiled(statement) } },
        },
      });
      return statistics?.query?.schema?.fields ?? [];
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

/** Waits for the result of a job. */
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
