import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { share } from "../../support/share.ts";
import { type DbtProject, type DbtRun, runDbt } from "./dbt.ts";
import { dbtOnBigQuery, dbtOnDuckDb, dbtOnPostgres, replacePublishedFile } from "./engines.ts";
import {
  type Marts,
  martsInBigQuery,
  martsInDuckDb,
  martsInPostgres,
  type MartStore,
  readMarts,
} from "./marts.ts";
import {
  ERASURE_SECRET,
  type Night,
  type PublishedDatasets,
  runSandboxNights,
  type SandboxNights,
} from "./sandbox-nights.ts";

/** Engines of the package. */
export const ENGINES = ["postgres", "duckdb", "bigquery"] as const;
/** One of {@link ENGINES}. */
export type Engine = (typeof ENGINES)[number];

/** A `dbt build` after a night. */
export interface Build extends DbtRun {
  readonly engine: Engine;
  readonly night: number;
}

/** Nights with the marts that dbt built from them. */
export interface ThreeNights extends SandboxNights {
  readonly folder: string;
  readonly builds: readonly Build[];
}

/** A project and its marts. */
export interface Place {
  readonly project: DbtProject;
  readonly store: MartStore;
}

const VARS = { person_etl_erasure_key: ERASURE_SECRET };

/** Returns the nights of this run; the first caller makes them, in some minutes. */
export async function threeNights(): Promise<ThreeNights> {
  const folder = join(inject("runFolder"), "nights");
  await mkdir(folder, { recursive: true });
  return share(folder, async () => {
    const builds: Build[] = [];
    const nights = await runSandboxNights(async (night, at) => {
      const places = placesOf(folder, at);
      await replacePublishedFile(places.duckdb.project, night);
      builds.push(
        ...(await Promise.all(ENGINES.map((engine) => build(folder, engine, places[engine], night)))),
      );
    });
    return { ...nights, folder, builds };
  });
}

/** Projects and marts by engine. */
export function placesOf(
  folder: string,
  { postgresUrl, bigQuery }: { readonly postgresUrl: string; readonly bigQuery: PublishedDatasets },
): Readonly<Record<Engine, Place>> {
  const duckDb = dbtOnDuckDb(folder, VARS);
  return {
    postgres: { project: dbtOnPostgres(folder, postgresUrl, VARS), store: martsInPostgres(postgresUrl) },
    duckdb: { project: duckDb, store: martsInDuckDb(duckDb) },
    bigquery: { project: dbtOnBigQuery(folder, bigQuery, VARS), store: martsInBigQuery(bigQuery) },
  };
}

const fileOf = (folder: string, engine: Engine, night: number) => join(folder, `${engine}-${night}.json`);

async function build(
  folder: string,
  engine: Engine,
  { project, store }: Place,
  night: Night,
): Promise<Build> {
  const run = await runDbt(project, ["build"]);
  const marts = run.code === 0 ? await readMarts(store) : {};
  await writeFile(fileOf(folder, engine, night.number), JSON.stringify(marts));
  return { engine, night: night.number, ...run };
}

/** Reads the marts as they were after a night. */
export async function martsAfter({ folder }: ThreeNights, engine: Engine, night: number): Promise<Marts> {
  // Written by `build`.
  return JSON.parse(await readFile(fileOf(folder, engine, night), "utf8")) as Marts;
}
