import type { Client } from "../../bigquery/client.ts";
import { explainFailure, grantText, type NamedProject, orMissing } from "../../bigquery/failure.ts";
import { openSession } from "../../bigquery/session.ts";
import { FixConfigurationError, messageOf } from "../../errors.ts";
import type { Catalog, DestinationFinding, PublishedTable } from "../destination.ts";
import { type DatasetNames, POSITION_TABLE, positionTable } from "./datasets.ts";

/** Bytes of a table that a batch changes, as counted by BigQuery. */
interface ChangedTable {
  readonly stored: number;
  /** Bytes stored in the key columns. */
  readonly storedKeys: number;
  readonly stagedKeys: number;
  readonly stagedRows: number;
}

/** Minimum billed per statement and table. */
const MINIMUM_BYTES = 10 * 1024 * 1024;
const TIB = 1024 ** 4;
/** List price of on-demand queries in the US, per TiB. */
const USD_PER_TIB = 6.25;

/**
 * Bytes that one batch bills. A DELETE bills the columns that it reads and all columns of the table that it changes; an INSERT bills
 * the staged rows; and the position is updated.
 */
export function batchBytes(tables: readonly ChangedTable[]): number {
  const billed = (bytes: number) => Math.max(MINIMUM_BYTES, bytes);
  return tables.reduce((sum, { stored, storedKeys, stagedKeys, stagedRows }) => {
    const deletion = billed(stored + storedKeys) + billed(stagedKeys);
    return sum + deletion + billed(stagedRows) + MINIMUM_BYTES;
  }, MINIMUM_BYTES);
}

/** Price of bytes at list price. */
export function priceOf(bytes: number): number {
  return (bytes / TIB) * USD_PER_TIB;
}

interface CheckContext {
  readonly client: Client;
  readonly names: DatasetNames;
  readonly where: NamedProject;
}

interface Dataset {
  readonly location: string;
  readonly defaultTableExpirationMs?: string;
  readonly defaultPartitionExpirationMs?: string;
}

/** Privileges on a table that publication needs. */
const RIGHTS = [
  "bigquery.tables.delete",
  "bigquery.tables.get",
  "bigquery.tables.getData",
  "bigquery.tables.update",
  "bigquery.tables.updateData",
] as const;

/** Approximate bytes of a key column: a length of two bytes and a text like a PID. */
const KEY_BYTES = 38;

/** Verifies credentials, jobs, datasets, privileges and DML, and estimates the cost of a publication; changes nothing. */
export async function checkDestination(
  context: CheckContext,
  catalog: Catalog,
): Promise<readonly DestinationFinding[]> {
  try {
    return await findings(context, catalog);
  } catch (error) {
    return [refused(error, context.where)];
  }
}

async function findings(context: CheckContext, catalog: Catalog): Promise<readonly DestinationFinding[]> {
  const { client, names, where } = context;
  const found: DestinationFinding[] = [];
  const data = await datasetOf(client, names.data);
  for (const name of [names.data, names.ops]) found.push(await checkDataset(context, name));
  const session = openSession({
    client,
    dataset: null,
    location: data?.location ?? where.location,
    maximumBytesBilled: null,
  });
  await session.rows({ text: "SELECT 1 AS one" });
  found.push({ ok: true, message: `${client.project} runs queries for this account.` });
  if (!found.every(({ ok }) => ok) || (await tableOf(client, names.ops, POSITION_TABLE)) === null)
    return found;
  found.push(await checkRights(context));
  // A dry run: a project without billing refuses DML.
  await session.dryRun({ text: `DELETE FROM ${positionTable(names)} WHERE FALSE` });
  found.push(await costOf(context, catalog));
  return found;
}

async function checkDataset({ client, where }: CheckContext, name: string): Promise<DestinationFinding> {
  const dataset = await datasetOf(client, name);
  if (dataset === null) {
    return { ok: true, message: `Dataset ${name} doesn't exist yet; the first publication creates it.` };
  }
  const { location, defaultTableExpirationMs, defaultPartitionExpirationMs } = dataset;
  if (where.location !== null && location.toUpperCase() !== where.location.toUpperCase()) {
    return {
      ok: false,
      message: `Dataset ${name} is in ${location}, but ${where.path}.location is ${where.location}.`,
      hint: `Set ${where.path}.location: ${location}, or choose another dataset; datasets can't be moved.`,
    };
  }
  if (defaultTableExpirationMs !== undefined || defaultPartitionExpirationMs !== undefined) {
    return {
      ok: false,
      message: `Dataset ${name} has a default expiration, which would delete published tables or partitions.`,
      hint: `Run: ALTER SCHEMA \`${client.project}\`.\`${name}\` SET OPTIONS (default_table_expiration_days = NULL, default_partition_expiration_days = NULL);`,
    };
  }
  return { ok: true, message: `Dataset ${name} exists in ${location}.` };
}

/** Verifies privileges on the position table; they usually come from its dataset. */
async function checkRights({ client, names, where }: CheckContext): Promise<DestinationFinding> {
  const answer = await client.send<{ readonly permissions?: readonly string[] }>({
    method: "POST",
    path: `/datasets/${names.ops}/tables/${POSITION_TABLE}:testIamPermissions`,
    body: { permissions: RIGHTS },
  });
  const granted = new Set(answer.permissions ?? []);
  const lacking = RIGHTS.filter((right) => !granted.has(right));
  if (lacking.length === 0) return { ok: true, message: "This account may write to the tables." };
  const hint = where.datasets.map((dataset) =>
    grantText("roles/bigquery.dataEditor", [client.project, dataset]),
  );
  return { ok: false, message: `This account lacks ${lacking.join(", ")}.`, hint: `Run: ${hint.join(" ")}` };
}

async function costOf({ client, names }: CheckContext, catalog: Catalog): Promise<DestinationFinding> {
  const tables = await Promise.all(catalog.tables.map((table) => storedTable(client, names, table)));
  const bytes = batchBytes(tables);
  const gigabytes = (bytes / 1024 ** 3).toFixed(1);
  return {
    ok: true,
    message: `A publication that changes every table bills about ${gigabytes} GB now: US$ ${priceOf(bytes).toFixed(2)} at list price.`,
  };
}

async function storedTable(
  client: Client,
  names: DatasetNames,
  table: PublishedTable,
): Promise<ChangedTable> {
  const size = await tableOf(client, names[table.schema], table.name);
  const storedKeys = Number(size?.numRows ?? 0) * table.rootKey.length * KEY_BYTES;
  return { stored: Number(size?.numBytes ?? 0), storedKeys, stagedKeys: 0, stagedRows: 0 };
}

function datasetOf(client: Client, name: string): Promise<Dataset | null> {
  return orMissing(client.send<Dataset>({ method: "GET", path: `/datasets/${name}` }));
}

interface TableSize {
  readonly numBytes?: string;
  readonly numRows?: string;
}

function tableOf(client: Client, dataset: string, table: string): Promise<TableSize | null> {
  return orMissing(client.send<TableSize>({ method: "GET", path: `/datasets/${dataset}/tables/${table}` }));
}

function refused(error: unknown, where: NamedProject): DestinationFinding {
  const explained = explainFailure(error, where);
  const hint = explained instanceof FixConfigurationError ? explained.problems[0]?.hint : undefined;
  return { ok: false, message: messageOf(explained), ...(hint === undefined ? {} : { hint }) };
}
