import { randomBytes } from "node:crypto";
import { inject } from "vitest";
import { type Client, openClient } from "../../../src/bigquery/client.ts";
import { isNotFound } from "../../../src/bigquery/failure.ts";
import { openSession, type Session } from "../../../src/bigquery/session.ts";
import { findBigQuery, type TestBigQuery } from "./emulator.ts";

/** The BigQuery of this test run. */
export function bigQueryOfRun(): Promise<TestBigQuery> {
  return findBigQuery(inject("runFolder"));
}

/** Two datasets of one test. */
export interface FreshDatasets extends TestBigQuery {
  readonly data: string;
  readonly ops: string;
  readonly client: Client;
  /** Runs statements as a BigQuery user would, in dataset `data` by default. */
  readonly session: Session;
  /** Creates a dataset with options, as an existing one might have. */
  create(dataset: string, options?: object): Promise<void>;
  drop(): Promise<void>;
}

/** Returns unique names of datasets; a publication or `create` creates them. */
export async function freshDatasets(): Promise<FreshDatasets> {
  const bigQuery = await bigQueryOfRun();
  const { project, apiEndpoint } = bigQuery;
  const data = `test_${randomBytes(6).toString("hex")}`;
  const ops = `${data}_ops`;
  const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
  const session = openSession({ client, dataset: data, location: null, maximumBytesBilled: null });
  return {
    ...bigQuery,
    data,
    ops,
    client,
    session,
    async create(dataset, options = {}) {
      const body = { datasetReference: { projectId: project, datasetId: dataset }, ...options };
      await client.send({ method: "POST", path: "/datasets", body });
    },
    async drop() {
      for (const dataset of [data, ops]) {
        const path = `/datasets/${dataset}`;
        try {
          await client.send({ method: "DELETE", path, query: { deleteContents: true } });
        } catch (error) {
          if (!isNotFound(error)) throw error;
        }
      }
    },
  };
}
