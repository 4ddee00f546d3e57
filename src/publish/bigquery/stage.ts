import { isDuplicate, isNotFound } from "../../bigquery/failure.ts";
import { runJob } from "../../bigquery/jobs.ts";
import { quoteQualified } from "../../bigquery/names.ts";
import { LABELS } from "../../bigquery/session.ts";
import type { Client } from "../../bigquery/client.ts";
import type { BatchRef, PublishedTable, StagedFiles } from "../destination.ts";
import { columnType, type DatasetNames, elementType } from "./ddl.ts";
import { uploadFile } from "./upload.ts";

/** Prefix of staging tables, followed by the batch number. */
const STAGING_PREFIX = "_stage_";

/** Expiration of staging tables: longer than a first publication takes. */
const STAGING_LIFE_MS = 7 * 86_400_000;

/** Client, datasets and location of staging tables. */
export interface StagingContext {
  readonly client: Client;
  readonly names: DatasetNames;
  readonly location: string;
}

type Content = StagedFiles["content"];

/** Name of the staging table of an attempt. */
function stagingName({ number, attempt }: BatchRef, table: string, content: Content): string {
  return `${STAGING_PREFIX}${number}_${attempt}_${table}_${content}`;
}

/** Quotes the staging table of an attempt. */
export function stagingTable(
  names: DatasetNames,
  batch: BatchRef,
  { name }: PublishedTable,
  content: Content,
): string {
  return quoteQualified([names.project, names.data, stagingName(batch, name, content)]);
}

/** Loads files into the staging table of an attempt, one job per file. */
export async function stageFiles(
  context: StagingContext,
  batch: BatchRef,
  staged: StagedFiles,
): Promise<void> {
  const { client, names, location } = context;
  const { table, content, part } = staged;
  const tableId = stagingName(batch, table.name, content);
  const schema = { fields: fieldsOf(staged) };
  await createStagingTable(context, tableId, schema);
  const configuration = {
    labels: LABELS,
    load: {
      destinationTable: { projectId: names.project, datasetId: names.data, tableId },
      sourceFormat: "NEWLINE_DELIMITED_JSON",
      schema,
      createDisposition: "CREATE_NEVER",
      writeDisposition: "WRITE_APPEND",
      maxBadRecords: 0,
    },
  };
  for (const [index, file] of staged.files.entries()) {
    const id = `person_etl_load_${names.data}${tableId}_${part}_${index}`;
    await runJob(client, { id, location }, (jobReference) =>
      uploadFile(client, { jobReference, configuration }, file),
    );
  }
}

/** Columns of a staging table in the form of the API. */
function fieldsOf({ table, content }: StagedFiles): readonly object[] {
  const columns =
    content === "rows" ? table.columns : table.columns.filter(({ name }) => table.rootKey.includes(name));
  return columns.map(({ name, type }) => {
    const element = elementType(type);
    if (element !== null) return { name, type: element, mode: "REPEATED" };
    // A load would store it as a JSON string; the commit parses it instead.
    return { name, type: type === "json" ? "STRING" : columnType(type) };
  });
}

async function createStagingTable({ client, names }: StagingContext, tableId: string, schema: object) {
  const body = {
    tableReference: { projectId: names.project, datasetId: names.data, tableId },
    schema,
    expirationTime: String(Date.now() + STAGING_LIFE_MS),
    labels: LABELS,
  };
  try {
    await client.send({ method: "POST", path: `/datasets/${names.data}/tables`, body });
  } catch (error) {
    if (!isDuplicate(error)) throw error;
  }
}

/** Drops the staging tables of an attempt; with `older`, also those of other attempts up to its batch. */
export async function dropStaging(
  { client, names }: StagingContext,
  batch: BatchRef,
  { older }: { readonly older: boolean },
): Promise<void> {
  const own = stagingName(batch, "", "keys").replace(/_keys$/, "");
  const tables = (await listTables(client, names.data)).filter((name) => {
    if (!name.startsWith(STAGING_PREFIX)) return false;
    const number = Number.parseInt(name.slice(STAGING_PREFIX.length), 10);
    return name.startsWith(own) || (older && number <= batch.number);
  });
  for (const name of tables) {
    try {
      await client.send({ method: "DELETE", path: `/datasets/${names.data}/tables/${name}` });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}

/** Names of all tables and views of a dataset. */
export async function listTables(client: Client, dataset: string): Promise<readonly string[]> {
  const found: string[] = [];
  let pageToken: string | undefined;
  do {
    const page = await client.send<{
      readonly tables?: readonly { readonly tableReference: { readonly tableId: string } }[];
      readonly nextPageToken?: string;
    }>({ method: "GET", path: `/datasets/${dataset}/tables`, query: { maxResults: 1000, pageToken } });
    found.push(...(page.tables ?? []).map(({ tableReference }) => tableReference.tableId));
    pageToken = page.nextPageToken;
  } while (pageToken);
  return found;
}
