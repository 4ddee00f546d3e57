import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { readPostgresAddress } from "../../../src/postgres-address.ts";
import type { DbtProject } from "./dbt.ts";
import type { Night, PublishedDatasets } from "./sandbox-nights.ts";

/** Prefix of the schemas that dbt writes. */
export const MARTS = "analytics";

/** dbt on Postgres, in the place of record. */
export function dbtOnPostgres(folder: string, url: string, vars: DbtProject["vars"] = {}): DbtProject {
  const { host, port, user, password, database } = readPostgresAddress(url);
  return {
    folder: join(folder, "postgres"),
    output: { type: "postgres", host, port, user, password, dbname: database, schema: MARTS, threads: 4 },
    vars,
  };
}

/** dbt on a file of its own, with the published one attached. */
export function dbtOnDuckDb(folder: string, vars: DbtProject["vars"] = {}): DbtProject {
  const own = join(folder, "duckdb");
  return {
    folder: own,
    output: {
      type: "duckdb",
      path: join(own, "analytics.duckdb"),
      schema: MARTS,
      attach: [{ path: join(own, "people.duckdb"), alias: "published", read_only: true }],
      settings: { TimeZone: "UTC" },
      threads: 4,
    },
    vars,
  };
}

/** Replaces the file that dbt reads, as a publication does. */
export async function replacePublishedFile(project: DbtProject, night: Night): Promise<void> {
  await mkdir(project.folder, { recursive: true });
  await copyFile(night.duckDbFile, join(project.folder, "people.duckdb"));
}

/** Prefix of the datasets that dbt writes. */
export const datasetOfMarts = ({ dataset }: PublishedDatasets): string => `${dataset}_marts`;

/** dbt on the published datasets. */
export function dbtOnBigQuery(
  folder: string,
  bigQuery: PublishedDatasets,
  vars: DbtProject["vars"] = {},
): DbtProject {
  const { project, apiEndpoint, dataset, opsDataset } = bigQuery;
  return {
    folder: join(folder, "bigquery"),
    output: {
      type: "bigquery",
      ...(apiEndpoint === null
        ? { method: "oauth" }
        : { method: "oauth-secrets", token: "none", api_endpoint: apiEndpoint }),
      project,
      dataset: datasetOfMarts(bigQuery),
      threads: 8,
      job_retries: 0,
    },
    vars: { ...vars, person_data_schema: dataset, person_data_ops_schema: opsDataset },
  };
}
