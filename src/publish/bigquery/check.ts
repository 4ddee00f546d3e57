import type { Client } from "../../bigquery/client.ts";
import { explainFailure, grantText, type NamedProject, orMissing } from "../../bigquery/failure.ts";
import { openSession } from "../../bigquery/session.ts";
import { FixConfigurationError, messageOf } from "../../errors.ts";
import type { Catalog, DestinationFinding } from "../destination.ts";
import { DEFAULT_FACTOR, estimateBatch, bytesText, priceOf, sizeOf } from "./cost.ts";
import { type DatasetNames, POSITION_TABLE, positionTable } from "./datasets.ts";

interface CheckContext {
  readonly client: Client;
  readonly names: DatasetNames;
  readonly where: NamedProject;
  readonly maximumBytesBilled: number | null;
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
  for (const name of new Set([names.data, names.ops, names.staging]))
    found.push(await checkDataset(context, name));
  const session = openSession({
    client,
    dataset: null,
    location: data?.location ?? where.location,
    maximumBytesBilled: null,
  });
  await session.rows({ text: "SELECT 1 AS one" });
  found.push({ ok: true, message: `${client.billingProject} runs queries for this account.` });
  if (!found.every(({ ok }) => ok) || (await sizeOf(client, names.ops, POSITION_TABLE)) === null)
    return found;
  found.push(await checkRights(context));
  // A dry run: a project without billing refuses DML.
  await session.dryRun({ text: `DELETE FROM ${positionTable(names)} WHERE FALSE` });
  found.push(await costOf(context, catalog));
  return found;
}

async function checkDataset(
  { client, names, where }: CheckContext,
  name: string,
): Promise<DestinationFinding> {
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
  const isOfReaders = name === names.data || name === names.ops;
  if (!isOfReaders) return { ok: true, message: `Dataset ${name} exists in ${location}.` };
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

function shown(bytes: number): string {
  return `${bytesText(bytes)} (US$ ${priceOf(bytes).toFixed(2)} at list price)`;
}

/** A batch bills the whole of each table that it changes, so the cost depends on which ones change. */
async function costOf(
  { client, names, where, maximumBytesBilled }: CheckContext,
  { tables }: Catalog,
): Promise<DestinationFinding> {
  const all = await estimateBatch(client, names, tables);
  const people = tables.filter(({ name }) => name === "person");
  const fields =
    people.length === 0
      ? ""
      : `${shown(await estimateBatch(client, names, people))} if only fields of \`person\` change, and `;
  const limit = maximumBytesBilled ?? DEFAULT_FACTOR * all;
  const finding = {
    ok: limit >= all,
    message: `A publication bills about ${fields}${shown(all)} if every table changes now. It may bill ${bytesText(limit)}.`,
  };
  if (finding.ok) return finding;
  return {
    ...finding,
    hint: `Raise ${where.path}.maximum_bytes_billed: a night that changes every table would be stopped.`,
  };
}

function datasetOf(client: Client, name: string): Promise<Dataset | null> {
  return orMissing(client.send<Dataset>({ method: "GET", path: `/datasets/${name}` }));
}

function refused(error: unknown, where: NamedProject): DestinationFinding {
  const explained = explainFailure(error, where);
  const hint = explained instanceof FixConfigurationError ? explained.problems[0]?.hint : undefined;
  return { ok: false, message: messageOf(explained), ...(hint === undefined ? {} : { hint }) };
}
