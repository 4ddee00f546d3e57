import { type FileHandle, open } from "node:fs/promises";
import { answerOf, type Client, pause, pauseMs, withRetries } from "../../bigquery/client.ts";
import { BigQueryFailure, isDuplicate, orMissing, isTransient } from "../../bigquery/failure.ts";
import { type JobReference, runJob } from "../../bigquery/session.ts";
import { quoteQualified } from "../../bigquery/sql.ts";
import type { BatchRef, PublishedTable, StagedFiles } from "../destination.ts";
import { columnType, type DatasetNames, elementType, listTables, type OpenDatasets } from "./datasets.ts";
import { collectGarbage } from "../../garbage.ts";

/** Bytes per request, a multiple of 256 KB as Google requires. */
const CHUNK_BYTES = 4 * 1024 * 1024;
const MAX_ATTEMPTS = 6;
/** Long enough for a chunk over a slow connection. */
const CHUNK_TIMEOUT_MS = 600_000;

/** A load job with our own ID. */
interface LoadJob {
  readonly jobReference: JobReference & { readonly projectId: string };
  readonly configuration: object;
}

/** Uploads a file for a load job, which starts once all bytes have arrived; a broken upload resumes where it stopped. */
export async function uploadFile(client: Client, job: LoadJob, path: string): Promise<JobReference> {
  await using file = await open(path, "r");
  const { size } = await file.stat();
  for (let attempt = 1; ; attempt++) {
    try {
      return await sendChunks(client, await startUpload(client, job, size), file, size);
    } catch (error) {
      if (!isGone(error) || attempt === MAX_ATTEMPTS) throw error;
      // The upload was complete or has expired: only a complete one has a job.
      const started = await findJob(client, job.jobReference);
      if (started !== null) return started;
    }
  }
}

function isGone(error: unknown): boolean {
  return error instanceof BigQueryFailure && (error.status === 404 || error.status === 410);
}

async function findJob(client: Client, { jobId, location }: JobReference): Promise<JobReference | null> {
  try {
    await client.send({ method: "GET", path: `/jobs/${jobId}`, query: { location } });
    return { jobId, ...(location === undefined ? {} : { location }) };
  } catch (error) {
    if (isGone(error)) return null;
    throw error;
  }
}

/** Address of a new upload. */
async function startUpload(client: Client, job: LoadJob, size: number): Promise<string> {
  return withRetries(async () => {
    const response = await client.fetch(`${client.uploadUrl}?uploadType=resumable`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-upload-content-type": "application/octet-stream",
        "x-upload-content-length": String(size),
      },
      body: JSON.stringify(job),
    });
    await answerOf(response);
    const address = response.headers.get("location");
    if (address === null) throw new BigQueryFailure("unknown", "the upload has no address", response.status);
    return address;
  }, client.signal);
}

async function sendChunks(
  client: Client,
  address: string,
  file: FileHandle,
  size: number,
): Promise<JobReference> {
  const chunk = Buffer.alloc(Math.min(CHUNK_BYTES, size));
  let sent = 0;
  for (let failures = 0; ; ) {
    try {
      const { bytesRead } = await file.read(chunk, 0, chunk.length, sent);
      const range = `bytes ${sent}-${sent + bytesRead - 1}/${size}`;
      const response = await put(client, address, range, chunk.subarray(0, bytesRead));
      // fetch copies the body; V8 would keep a dozen copies.
      collectGarbage();
      if (response.status !== 308) return await jobOf(response);
      sent = bytesReceived(response);
      failures = 0;
    } catch (error) {
      if (!isTransient(error) || ++failures === MAX_ATTEMPTS) throw error;
      await pause(pauseMs(failures), client.signal);
      const response = await withRetries(() => put(client, address, `bytes */${size}`), client.signal);
      if (response.status !== 308) return jobOf(response);
      sent = bytesReceived(response);
    }
  }
}

function put(client: Client, address: string, range: string, body?: Uint8Array<ArrayBuffer>) {
  return client.fetch(address, {
    method: "PUT",
    headers: { "content-range": range },
    signal: AbortSignal.timeout(CHUNK_TIMEOUT_MS),
    ...(body === undefined ? {} : { body }),
  });
}

/** Number of bytes that Google confirmed: `Range: bytes=0-99` for 100. */
function bytesReceived(response: Response): number {
  const last = /-(\d+)$/.exec(response.headers.get("range") ?? "")?.[1];
  return last === undefined ? 0 : Number(last) + 1;
}

async function jobOf(response: Response): Promise<JobReference> {
  // According to the API reference, the response is the job, as for `jobs.insert`.
  const { jobReference } = (await answerOf(response)) as { readonly jobReference: JobReference };
  return jobReference;
}

/** Prefix of a destination's staging tables, followed by number and attempt. No dataset's name has a hyphen. */
const stagingPrefix = ({ data }: DatasetNames) => `_stage-${data}-`;

/** Expiration of staging tables: longer than a first publication takes. */
const STAGING_LIFE_MS = 7 * 86_400_000;

type Content = StagedFiles["content"];

/** Name of the staging table of an attempt. */
export function stagedTable(
  names: DatasetNames,
  { number, attempt }: BatchRef,
  { name }: Pick<PublishedTable, "name">,
  content: Content,
): string {
  return `${stagingPrefix(names)}${number}-${attempt}-${name}-${content}`;
}

/** Quotes the staging table of an attempt. */
export function stagingTable(
  names: DatasetNames,
  batch: BatchRef,
  table: PublishedTable,
  content: Content,
): string {
  return quoteQualified([names.project, names.staging, stagedTable(names, batch, table, content)]);
}

/** Loads files into the staging table of an attempt, one job per file. */
export async function stageFiles(context: OpenDatasets, batch: BatchRef, staged: StagedFiles): Promise<void> {
  const { client, names, location } = context;
  const { table, content, part } = staged;
  const tableId = stagedTable(names, batch, table, content);
  const schema = { fields: fieldsOf(staged) };
  await createStagingTable(context, tableId, schema);
  const configuration = {
    labels: client.labels,
    load: {
      destinationTable: { projectId: names.project, datasetId: names.staging, tableId },
      sourceFormat: "NEWLINE_DELIMITED_JSON",
      schema,
      createDisposition: "CREATE_NEVER",
      writeDisposition: "WRITE_APPEND",
      maxBadRecords: 0,
    },
  };
  for (const [index, file] of staged.files.entries()) {
    const id = `person_etl_load${tableId}_${part}_${index}`;
    await runJob(client, { id, location }, (jobReference) =>
      uploadFile(client, { jobReference, configuration }, file),
    );
  }
}

/** Columns of a staging table in the form of the API. */
function fieldsOf({ table, content }: StagedFiles): readonly object[] {
  const columns =
    content === "rows" ? table.columns : table.columns.filter(({ name }) => table.rootKey.includes(name));
  return columns.map((column) => {
    const { name, type } = column;
    const element = elementType(type);
    if (element !== null) return { name, type: element, mode: "REPEATED" };
    // A load would store it as a JSON string; the commit parses it instead.
    return { name, type: type === "json" ? "STRING" : columnType(column) };
  });
}

async function createStagingTable({ client, names }: OpenDatasets, tableId: string, schema: object) {
  const body = {
    tableReference: { projectId: names.project, datasetId: names.staging, tableId },
    schema,
    expirationTime: String(Date.now() + STAGING_LIFE_MS),
    labels: client.labels,
    ...(names.kmsKey === null ? {} : { encryptionConfiguration: { kmsKeyName: names.kmsKey } }),
  };
  try {
    await client.send({ method: "POST", path: `/datasets/${names.staging}/tables`, body });
  } catch (error) {
    if (!isDuplicate(error)) throw error;
  }
}

/** Drops the destination's staging tables of an attempt; with `older`, also those of other attempts up to its batch. */
export async function dropStaging(
  { client, names }: OpenDatasets,
  batch: BatchRef,
  { older }: { readonly older: boolean },
): Promise<void> {
  const prefix = stagingPrefix(names);
  const tables = (await listTables(client, names.staging)).filter((name) => {
    const parts = name.startsWith(prefix)
      ? /^(\d+)-([a-z0-9]+)-\w+-(?:keys|rows)$/.exec(name.slice(prefix.length))
      : null;
    return parts !== null && (parts[2] === batch.attempt || (older && Number(parts[1]) <= batch.number));
  });
  for (const name of tables) {
    await orMissing(client.send({ method: "DELETE", path: `/datasets/${names.staging}/tables/${name}` }));
  }
}
