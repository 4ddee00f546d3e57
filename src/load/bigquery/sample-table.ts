import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cell } from "../../schemas/convert.ts";
import type { InputSource } from "../warehouse.ts";
import { isDuplicate, isNotFound } from "./failure.ts";
import type { Session } from "./session.ts";
import { loadFile, stagingName } from "./staging.ts";

const TYPES = { bigint: "INT64", text: "STRING", timestamptz: "TIMESTAMP" } as const;

/** Creates a table of sample rows unless a relation of that name exists. */
export async function createSampleTable(
  session: Session,
  input: InputSource,
  columns: readonly { readonly name: string; readonly type: keyof typeof TYPES }[],
  rows: Iterable<readonly Cell[]>,
): Promise<boolean> {
  if (!("table" in input.relation)) return false;
  const { client, names, location } = session;
  const parts = input.relation.table;
  const table = parts.at(-1) ?? "";
  const dataset = parts.at(-2) ?? names.data;
  try {
    await client.send({ method: "GET", path: `/datasets/${dataset}/tables/${table}` });
    return false;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const fields = columns.map(({ name, type }) => ({ name, type: TYPES[type] }));
  try {
    const datasetReference = { projectId: names.project, datasetId: dataset };
    await client.send({
      method: "POST",
      path: "/datasets",
      body: { datasetReference, ...(location === null ? {} : { location }) },
    });
  } catch (error) {
    if (!isDuplicate(error)) throw error;
  }
  try {
    const tableReference = { projectId: names.project, datasetId: dataset, tableId: table };
    await client.send({
      method: "POST",
      path: `/datasets/${dataset}/tables`,
      body: { tableReference, schema: { fields } },
    });
  } catch (error) {
    // Of processes that start at the same time one makes it, and the others find it.
    if (isDuplicate(error)) return false;
    throw error;
  }
  const folder = await mkdtemp(join(tmpdir(), "person-etl-sample-"));
  try {
    const file = join(folder, "rows.ndjson");
    const lines = [...rows].map((row) =>
      JSON.stringify(Object.fromEntries(columns.map(({ name }, i) => [name, row[i] ?? null]))),
    );
    await writeFile(file, `${lines.join("\n")}\n`, { mode: 0o600 });
    await loadFile(session, { file, dataset, table, columns: fields, jobId: stagingName("sample") });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return true;
}
