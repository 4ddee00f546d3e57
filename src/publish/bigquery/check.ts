import { explainFailure, grantText, type NamedProject } from "../../bigquery/failure.ts";
import { openSession } from "../../bigquery/session.ts";
import { FixConfigurationError, messageOf } from "../../errors.ts";
import type { Catalog, DestinationFinding } from "../destination.ts";
import {
  DEFAULT_FACTOR,
  estimateBatch,
  bytesText,
  KEYS_PER_BATCH,
  type LimitContext,
  priceOf,
  sizeOf,
} from "./cost.ts";
import { type FoundDataset, POSITION_TABLE, positionTable, readDatasets } from "./datasets.ts";

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
  context: LimitContext,
  catalog: Catalog,
): Promise<readonly DestinationFinding[]> {
  try {
    return await findings(context, catalog);
  } catch (error) {
    return [refused(error, context.where)];
  }
}

async function findings(context: LimitContext, catalog: Catalog): Promise<readonly DestinationFinding[]> {
  const { client, names, where } = context;
  const { datasets, location } = await readDatasets(client, names, where);
  const found = datasets.map((dataset) => checkDataset(context, dataset));
  const session = openSession({ client, dataset: null, location, maximumBytesBilled: null });
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

function checkDataset(
  { client, names }: LimitContext,
  { name, dataset, problem }: FoundDataset,
): DestinationFinding {
  if (dataset === null) {
    return { ok: true, message: `Dataset ${name} doesn't exist yet; the first publication creates it.` };
  }
  if (problem !== null) return { ...problem, ok: false, message: `${problem.message}.` };
  const { location, defaultTableExpirationMs, defaultPartitionExpirationMs } = dataset;
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
async function checkRights({ client, names, where }: LimitContext): Promise<DestinationFinding> {
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
  { client, names, where, maximumBytesBilled }: LimitContext,
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
    message: `A publication of up to ${KEYS_PER_BATCH / 1e6} million changed keys bills about ${fields}${shown(all)} if every table changes now. It may bill ${bytesText(limit)}.`,
  };
  if (finding.ok) return finding;
  return {
    ...finding,
    hint: `Raise ${where.path}.maximum_bytes_billed: a publication that changes every table would be stopped.`,
  };
}

function refused(error: unknown, where: NamedProject): DestinationFinding {
  const explained = explainFailure(error, where);
  const hint = explained instanceof FixConfigurationError ? explained.problems[0]?.hint : undefined;
  return { ok: false, message: messageOf(explained), ...(hint === undefined ? {} : { hint }) };
}
