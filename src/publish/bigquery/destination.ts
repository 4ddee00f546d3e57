import { type ClientOptions, openClient } from "../../bigquery/client.ts";
import { type NamedProject, explainFailure } from "../../bigquery/explain-failure.ts";
import { isNotFound } from "../../bigquery/failure.ts";
import { openSession, type Session } from "../../bigquery/session.ts";
import type { Destination, Position } from "../destination.ts";
import { checkDestination } from "./check.ts";
import { commitBatch } from "./commit.ts";
import { positionTable } from "./ddl.ts";
import { measureTables } from "./measure.ts";
import { migrateDatasets, openDataset } from "./migrate.ts";
import { dropStaging, stageFiles, type StagingContext } from "./stage.ts";

/** Datasets to publish to. */
export interface BigQueryTarget extends ClientOptions {
  /** Name in the configuration. */
  readonly name: string;
  /** Location of the datasets (`EU`, `us-central1`); null for that of the existing datasets. */
  readonly location: string | null;
  readonly dataset: string;
  readonly opsDataset: string;
}

/** Each batch bills all bytes of the tables it changes, so few large batches are cheaper. Files of a batch take about 3 GB of `data_dir`. */
const KEYS_PER_BATCH = 5_000_000;

/** Opens a destination in BigQuery; connects at the first use. */
export function openBigQueryDestination(target: BigQueryTarget): Destination {
  const { name, project, dataset, opsDataset } = target;
  const client = openClient(target);
  const names = { project, data: dataset, ops: opsDataset };
  const where: NamedProject = {
    project,
    location: target.location,
    path: `publish.${name}`,
    datasets: [dataset, opsDataset],
  };
  let opening: Promise<StagingContext> | null = null;

  /** Creates missing datasets; all jobs run in their location. */
  function context(): Promise<StagingContext> {
    opening ??= openContext().catch((error: unknown) => {
      opening = null;
      throw error;
    });
    return opening;
  }

  async function openContext(): Promise<StagingContext> {
    const location = await openDataset(client, dataset, target.location);
    await openDataset(client, opsDataset, location);
    return { client, names, location };
  }

  async function session(): Promise<Session> {
    const { location } = await context();
    return openSession({ client, dataset: null, location, maximumBytesBilled: null });
  }

  return {
    name,
    description: `BigQuery project ${project}, datasets ${dataset} and ${opsDataset}`,
    fileFormat: "json",
    keysPerBatch: KEYS_PER_BATCH,
    check: (catalog) => checkDestination({ client, names, where }, catalog),
    migrate: async (catalog) => migrateDatasets(await context(), catalog),
    restart: () => Promise.resolve(),
    async position() {
      try {
        const reader = await session();
        const text = `SELECT number, id FROM ${positionTable(names)} WHERE id IS NOT NULL`;
        const [row] = await reader.rows<Position>({ text });
        return row ?? null;
      } catch (error) {
        if (isNotFound(error)) return null;
        throw error;
      }
    },
    stage: async (batch, staged) => stageFiles(await context(), batch, staged),
    async commit(batch) {
      const opened = await context();
      const outcome = await commitBatch(opened, batch);
      await dropStaging(opened, batch, { older: outcome !== "refused" });
      return outcome;
    },
    // A commit is visible immediately; time travel keeps deleted values for the dataset's configured time.
    finish: () => Promise.resolve(),
    measure: async (tables) => measureTables(await session(), names, tables),
    explain: (error) => explainFailure(error, where),
    async close() {},
  };
}
