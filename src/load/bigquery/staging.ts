import { createReadStream } from "node:fs";
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { TableField } from "@google-cloud/bigquery";
import type { Room } from "../../schemas/table.ts";
import type { Client } from "./client.ts";
import { failureOf, patiently } from "./client.ts";
import { BigQueryFailure, isDuplicate, isNotFound } from "./failure.ts";
import type { Session } from "./session.ts";

/** A column of a staging table. */
export interface StagingColumn {
  readonly name: string;
  /** As in DDL: `STRING`, `INT64`, `TIMESTAMP`, `JSON`. */
  readonly type: string;
  readonly mode?: "NULLABLE" | "REPEATED";
  /** Of a STRUCT. */
  readonly fields?: readonly StagingColumn[];
}

/** A staging table's columns as the API takes them. */
function schemaOf(columns: readonly StagingColumn[]): { fields: TableField[] } {
  return {
    fields: columns.map(({ name, type, mode = "NULLABLE", fields }) => ({
      name,
      type,
      mode,
      ...(fields === undefined ? {} : schemaOf(fields)),
    })),
  };
}

/** Begins the name of every table that lives only for a while. */
export const STAGING_PREFIX = "_etl_stage_";

/** Staging tables that nobody drops vanish by themselves after so long. */
export const STAGING_LIFE_MS = 86_400_000;

/** A name that no other load has. */
export function stagingName(purpose: string): string {
  return `${STAGING_PREFIX}${purpose}_${Date.now().toString(36)}_${randomBytes(6).toString("hex")}`;
}

/** One load of a file. */
export interface LoadRequest {
  /** NDJSON, plain. */
  readonly file: string;
  readonly table: string;
  /** Its dataset; that of the people where none is said. */
  readonly dataset?: string;
  readonly columns: readonly StagingColumn[];
  /** Of the job; one that has failed can't be used again, one that has run is found again. */
  readonly jobId: string;
}

/** Makes an empty table that expires by itself. */
export async function createStagingTable(
  { client, names }: Session,
  table: string,
  columns: readonly StagingColumn[],
  description = "",
): Promise<void> {
  try {
    await client.send({
      method: "POST",
      path: `/datasets/${names.data}/tables`,
      body: {
        tableReference: { projectId: names.project, datasetId: names.data, tableId: table },
        schema: schemaOf(columns),
        expirationTime: String(Date.now() + STAGING_LIFE_MS),
        labels: { application: "person-etl" },
        description,
      },
    });
  } catch (error) {
    if (!isDuplicate(error)) throw error;
  }
}

/** Drops a table, if it is there. */
export async function dropTable({ client, names }: Session, table: string): Promise<void> {
  try {
    await client.send({ method: "DELETE", path: `/datasets/${names.data}/tables/${table}` });
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}

/** Names of the tables of a dataset that begin with `prefix`. */
export async function tablesNamed(
  { client, names }: Session,
  prefix: string,
  room: Room = "data",
): Promise<readonly string[]> {
  const found: string[] = [];
  let pageToken: string | undefined;
  do {
    const page = await client.send<{
      readonly tables?: readonly { readonly tableReference: { readonly tableId: string } }[];
      readonly nextPageToken?: string;
    }>({ method: "GET", path: `/datasets/${names[room]}/tables`, query: { maxResults: 1000, pageToken } });
    found.push(...(page.tables ?? []).map(({ tableReference }) => tableReference.tableId));
    pageToken = page.nextPageToken;
  } while (pageToken);
  return found.filter((name) => name.startsWith(prefix));
}

/** Appends a file to a table; returns rows and bytes. A repeated job id waits for the job that has it. */
export async function loadFile(
  session: Session,
  request: LoadRequest,
): Promise<{ rows: number; bytes: number }> {
  await session.pace?.next();
  await patiently(() => upload(session, request));
  return awaitLoad(session.client, request.jobId, session.location);
}

async function upload(
  session: Session,
  { file, table, dataset, columns, jobId }: LoadRequest,
): Promise<void> {
  const { names, location } = session;
  const google = await session.client.google();
  const home = google.dataset(dataset ?? names.data, { projectId: names.project });
  const target = home.table(table, location === null ? {} : { location });
  try {
    await new Promise<void>((resolve, reject) => {
      const sink = target.createWriteStream({
        jobId,
        sourceFormat: "NEWLINE_DELIMITED_JSON",
        schema: schemaOf(columns),
        createDisposition: "CREATE_NEVER",
        writeDisposition: "WRITE_APPEND",
        maxBadRecords: 0,
      });
      const source = createReadStream(file, { highWaterMark: 256 * 1024 });
      source.on("error", reject);
      sink.on("error", reject);
      sink.on("job", () => resolve());
      source.pipe(sink);
    });
  } catch (error) {
    const failure = failureOf(error);
    // An earlier try came through.
    if (!isDuplicate(failure)) throw failure;
  }
}

interface LoadJob {
  readonly status: {
    readonly state: string;
    readonly errorResult?: { readonly reason?: string; readonly message?: string };
  };
  readonly statistics?: {
    readonly load?: { readonly outputRows?: string; readonly inputFileBytes?: string };
  };
}

async function awaitLoad(
  client: Client,
  jobId: string,
  location: string | null,
): Promise<{ rows: number; bytes: number }> {
  for (let pause = 20; ; pause = Math.min(2_000, pause * 2)) {
    const job = await client.send<LoadJob>({
      method: "GET",
      path: `/jobs/${jobId}`,
      query: location === null ? {} : { location },
    });
    if (job.status.state === "DONE") {
      const { errorResult } = job.status;
      if (errorResult) {
        throw new BigQueryFailure(
          errorResult.reason ?? "unknown",
          errorResult.message ?? "the load failed",
          null,
        );
      }
      const load = job.statistics?.load;
      return { rows: Number(load?.outputRows ?? 0), bytes: Number(load?.inputFileBytes ?? 0) };
    }
    await delay(pause);
  }
}
