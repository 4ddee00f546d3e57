import { randomBytes, randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { openClient } from "../../src/bigquery/client.ts";
import { isDuplicate, isNotFound } from "../../src/bigquery/failure.ts";
import { runJob } from "../../src/bigquery/session.ts";
import type { BigQueryConnection } from "../../src/load/inputs/input.ts";
import { uploadFile } from "../../src/publish/bigquery/stage.ts";
import { copiedFrom, type OtherDatabase } from "../load/foreign-context.ts";
import { connectAsText } from "../load/postgres-context.ts";
import { bigQueryOfRun } from "../support/bigquery/test-bigquery.ts";
import { createDatabase } from "../support/fresh-database.ts";

const DATASET = "crm";
const LOCATION = "europe-west3";

/** BigQuery's types of input columns, by Postgres's name. */
const TYPES: Readonly<Record<string, string>> = {
  bigint: "INT64",
  boolean: "BOOL",
  bytea: "BYTES",
  date: "DATE",
  "double precision": "FLOAT64",
  integer: "INT64",
  jsonb: "JSON",
  numeric: "BIGNUMERIC",
  "timestamp with time zone": "TIMESTAMP",
  "timestamp without time zone": "DATETIME",
};

interface InputColumn {
  readonly name: string;
  readonly type: string;
}

/** Inputs in BigQuery, in a separate project. */
export interface InputMirror extends OtherDatabase {
  readonly connection: BigQueryConnection;
  close(): Promise<void>;
}

/**
 * Opens a Postgres in which tests write the tables `crm.…`; `flush` copies changed ones to BigQuery, from where
 * they are read.
 */
export async function openInputMirror(): Promise<InputMirror> {
  const { apiEndpoint } = await bigQueryOfRun();
  const project = `test-${randomBytes(4).toString("hex")}`;
  const client = openClient({ project, apiEndpoint, credentialsFile: null, impersonate: null });
  const database = await createDatabase();
  const postgres = await connectAsText(database.url);
  await client.send({
    method: "POST",
    path: "/datasets",
    body: { datasetReference: { projectId: project, datasetId: DATASET } },
  });
  /** Contents of the tables as last copied to BigQuery. */
  const brought = new Map<string, string>();

  async function remove(table: string): Promise<void> {
    brought.delete(table);
    try {
      await client.send({ method: "DELETE", path: `/datasets/${DATASET}/tables/${table}` });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async function bring(table: string): Promise<void> {
    const { rows: columns } = await postgres.query<InputColumn>(
      `SELECT column_name AS name, data_type AS type FROM information_schema.columns
        WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position`,
      [DATASET, table],
    );
    const list = columns.map(({ name, type }) => selectOf(name, type)).join(", ");
    const { rows } = await postgres.query<{ row: string }>(
      `SELECT row_to_json(r)::text AS row FROM (SELECT ${list} FROM ${DATASET}."${table}" AS t) AS r`,
    );
    const contents = JSON.stringify([columns, rows]);
    if (brought.get(table) === contents) return;
    await remove(table);
    const destinationTable = { projectId: project, datasetId: DATASET, tableId: table };
    const schema = { fields: columns.map(fieldOf) };
    await client.send({
      method: "POST",
      path: `/datasets/${DATASET}/tables`,
      body: { tableReference: destinationTable, schema },
    });
    if (rows.length > 0) {
      const file = join(inject("runFolder"), `${project}.${table}.ndjson`);
      await writeFile(file, rows.map(({ row }) => `${row}\n`).join(""));
      const load = { destinationTable, schema, sourceFormat: "NEWLINE_DELIMITED_JSON" };
      await runJob(client, { id: `input_${randomUUID()}`, location: LOCATION }, (jobReference) =>
        uploadFile(client, { jobReference, configuration: { load } }, file),
      );
    }
    brought.set(table, contents);
  }

  async function copy(): Promise<void> {
    const { rows } = await postgres.query<{ name: string }>(
      "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1",
      [DATASET],
    );
    const names = new Set(rows.map(({ name }) => name));
    for (const name of brought.keys()) if (!names.has(name)) await remove(name);
    for (const name of names) await bring(name);
  }

  return {
    connection: {
      type: "bigquery",
      name: "lake",
      project,
      dataset: DATASET,
      location: null,
      credentialsFile: null,
      impersonate: null,
      apiEndpoint,
      maximumBytesBilled: null,
    },
    ...copiedFrom(postgres, copy),
    async close() {
      await postgres.end();
      await database.release();
      const query = { deleteContents: true };
      await client.send({ method: "DELETE", path: `/datasets/${DATASET}`, query }).catch((error: unknown) => {
        if (!isNotFound(error) && !isDuplicate(error)) throw error;
      });
    },
  };
}

/** Expression that formats a column for a load job. */
function selectOf(name: string, type: string): string {
  const column = `t."${name}"`;
  if (type === "bytea") return `translate(encode(${column}, 'base64'), E'\\n', '') AS "${name}"`;
  // Lists in BigQuery have no nulls.
  if (type === "ARRAY") return `array_remove(coalesce(${column}::text[], '{}'), NULL) AS "${name}"`;
  return /^(bigint|boolean|double precision|integer|jsonb)$/.test(type)
    ? column
    : `${column}::text AS "${name}"`;
}

function fieldOf({ name, type }: InputColumn): object {
  if (type === "ARRAY") return { name, type: "STRING", mode: "REPEATED" };
  return { name, type: TYPES[type] ?? "STRING" };
}
