import { sql } from "kysely";
import { messageOf } from "../../errors.ts";
import type { CheckLine } from "../warehouse.ts";
import { explainFailure, missingRight } from "./explain-failure.ts";
import { BigQueryFailure, isNotFound } from "./failure.ts";
import type { Session } from "./session.ts";

/** Rights on a dataset that the program needs, as the interface names them. */
const NEEDED = [
  "bigquery.tables.create",
  "bigquery.tables.delete",
  "bigquery.tables.get",
  "bigquery.tables.getData",
  "bigquery.tables.update",
  "bigquery.tables.updateData",
] as const;

/** Looks at credentials, the right to run jobs, datasets, their location and rights, without changing anything. */
export async function checkWarehouse(session: Session, description: string): Promise<readonly CheckLine[]> {
  try {
    await session.rows(sql`SELECT 1 AS one`);
  } catch (error) {
    return [refused("warehouse", session, error, `Can't use ${description}`)];
  }
  const { data, ops } = session.names;
  return [
    { subject: "warehouse", ok: true, message: `${description} answers, and this account may run jobs.` },
    ...(await Promise.all([data, ops].map((dataset) => checkDataset(session, dataset)))),
  ];
}

async function checkDataset(session: Session, dataset: string): Promise<CheckLine> {
  const subject = `dataset ${dataset}`;
  const { client, names, location } = session;
  let found: { readonly location?: string };
  try {
    found = await client.send({ method: "GET", path: `/datasets/${dataset}` });
  } catch (error) {
    if (isNotFound(error)) {
      return {
        subject,
        ok: true,
        message: "does not exist yet; migrate creates it, which takes bigquery.datasets.create.",
      };
    }
    return refused(subject, session, error, "can't be read");
  }
  const place = found.location ?? "";
  if (location !== null && place !== "" && place.toUpperCase() !== location.toUpperCase()) {
    return {
      subject,
      ok: false,
      message: `is in ${place}, but warehouse.location says ${location}.`,
      hint: `Set warehouse.location: ${place}; all datasets that a query reads have to be in one location.`,
    };
  }
  const lacking = await lackingRights(session, dataset);
  if (lacking.length > 0) {
    const { hint } = missingRight(lacking[0] ?? "", names);
    return { subject, ok: false, message: `this account lacks ${lacking.join(", ")}.`, hint: `Run: ${hint}` };
  }
  return {
    subject,
    ok: true,
    message: `exists${place === "" ? "" : ` in ${place}`}, and this account may write to it.`,
  };
}

/** What of the needed rights is missing, as far as the tables that are there can tell; nothing where they can't. */
async function lackingRights({ client }: Session, dataset: string): Promise<readonly string[]> {
  const { tables } = await client.send<{
    readonly tables?: readonly { readonly tableReference: { readonly tableId: string } }[];
  }>({ method: "GET", path: `/datasets/${dataset}/tables`, query: { maxResults: 1 } });
  const table = tables?.[0]?.tableReference.tableId;
  if (table === undefined) return [];
  const needed = NEEDED.filter((right) => right !== "bigquery.tables.create");
  try {
    const answer = await client.send<{ readonly permissions?: readonly string[] }>({
      method: "POST",
      path: `/datasets/${dataset}/tables/${table}:testIamPermissions`,
      body: { permissions: needed },
    });
    const granted = new Set(answer.permissions ?? []);
    return needed.filter((right) => !granted.has(right));
  } catch (error) {
    // Emulators don't know rights.
    if (error instanceof BigQueryFailure && error.code !== "accessDenied") return [];
    throw error;
  }
}

function refused(subject: string, { names, location }: Session, error: unknown, what: string): CheckLine {
  const explained = explainFailure(error, names, location);
  const hint =
    typeof explained === "object" && explained !== null && "problems" in explained
      ? // Only a FixConfigurationError has problems.
        (explained.problems as readonly { readonly hint?: string }[])[0]?.hint
      : undefined;
  return {
    subject,
    ok: false,
    message: `${what}: ${messageOf(explained)}`,
    ...(hint ? { hint: `Run: ${hint}` } : {}),
  };
}
