import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, test } from "vitest";
import { takeMigratedDatabase } from "../support/migrated-database.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { type DbtProject, type DbtRun, runDbt } from "./support/dbt.ts";
import { dbtOnPostgres } from "./support/engines.ts";
import { ENGINES, placesOf, threeNights } from "./support/three-nights.ts";

const SWITCHES = ["segments", "deaths", "usage", "validation", "searches"].map(
  (name) => `person_etl_${name}`,
);

/** dbt on a migrated warehouse without a row. */
async function onEmptyWarehouse(vars: DbtProject["vars"]): Promise<DbtProject> {
  const database = await takeMigratedDatabase();
  atEnd(() => database.release());
  const folder = await mkdtemp(join(inject("runFolder"), "dbt-"));
  return dbtOnPostgres(folder, database.url, vars);
}

/** Exit code, with the output if it isn't 0. */
const ending = ({ code, output }: DbtRun) => (code === 0 ? "green" : `${code}: ${output}`);

test("an empty warehouse builds", async () => {
  const run = await runDbt(await onEmptyWarehouse({ person_etl_erasure_key: "a key" }), ["build"]);
  expect(ending(run)).toBe("green");
  expect(run.results.length).toBeGreaterThan(40);
});

test("a warehouse without segments, deaths, usage, validation and searches builds", async () => {
  const off = Object.fromEntries(SWITCHES.map((name) => [name, false]));
  const run = await runDbt(await onEmptyWarehouse(off), ["build"]);
  expect(ending(run)).toBe("green");
  const built = run.results.map(({ unique_id: id }) => id);
  expect(built).toContain("model.person_etl.dim_person");
  expect(built).not.toContain("model.person_etl.fct_deaths");
});

test("each switch may be off alone", async () => {
  const folder = await mkdtemp(join(inject("runFolder"), "dbt-"));
  for (const name of SWITCHES) {
    const project = dbtOnPostgres(folder, "postgres://nobody@127.0.0.1:1/none", { [name]: false });
    expect([name, ending(await runDbt(project, ["parse"]))]).toEqual([name, "green"]);
  }
});

test.for(ENGINES)("on %s, the sources are fresh after the last night", async (engine) => {
  const nights = await threeNights();
  const run = await runDbt(placesOf(nights.folder, nights)[engine].project, ["source", "freshness"]);
  expect(ending(run)).toBe("green");
});
