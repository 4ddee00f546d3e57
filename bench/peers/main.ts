import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runSql } from "../../test/support/run-sql.ts";
import { runEnrichJob, writeConfig } from "../enrich-job.ts";
import type { Figures } from "../figures.ts";
import { composedFloor, fetchFloor } from "../floor.ts";
import { dropSchemas, exportTables, type Stage, setStage, writeBodies } from "../stage.ts";
import { compareRows } from "./compare-rows.ts";
import { type DltVariant, installDlt, runDlt, versionsOfDlt } from "./dlt-pipeline.ts";
import { FIGURES, type PeerFigures, type Round } from "./figures-file.ts";
import { writePage } from "./write-page.ts";

/**
 * Runs the same enrich job with person-etl and with dlt, on one service and one Postgres, and writes the tables and the plot of
 * docs/reference/benchmarks.md.
 *
 *     npm run bench:peers -- [--people 20000] [--rounds 5] [--without-automatic] [--add]
 *
 * `--add` keeps the rounds of earlier runs. Needs Linux (/proc) and Python 3.11 to 3.13.
 */
const { values } = parseArgs({
  options: {
    people: { type: "string", default: "20000" },
    rounds: { type: "string", default: "5" },
    "without-automatic": { type: "boolean", default: false },
    add: { type: "boolean", default: false },
  },
});

const SCHEMA = "bench_ours";

const variants: readonly DltVariant[] = [
  { name: "dlt, Arrow, Parquet", dataset: "dlt_parquet", normalizing: "flattened", format: "parquet" },
  { name: "dlt, Arrow, CSV", dataset: "dlt_csv", normalizing: "flattened", format: "csv" },
  { name: "dlt, automatic", dataset: "dlt_automatic", normalizing: "automatic", format: "csv" },
];

function say(night: string, figures: Figures): void {
  const { what, people_per_second, client_cpu_per_1000, server_cpu_per_1000, peak_tree_mb } = figures;
  process.stdout.write(
    `${night.padEnd(8)}${what.padEnd(36)}${String(people_per_second).padStart(6)} people/s, CPU ${client_cpu_per_1000} + ${server_cpu_per_1000} s, ${peak_tree_mb} MB\n`,
  );
}

async function runRound(stage: Stage, bodies: string): Promise<Round> {
  const round: Round = { rows: Number(values.people), first: [], second: [], tables: {} };
  const note = (night: "first" | "second", figures: Figures) => {
    round[night].push(figures);
    say(night, figures);
  };
  await dropSchemas(stage.databaseUrl, SCHEMA);
  const config = writeConfig(stage, SCHEMA);
  const first = await runEnrichJob(stage, "person-etl", config);
  note("first", first);
  const list = await exportTables(stage, SCHEMA, "bench_floor");
  note("first", { ...(await composedFloor(stage, first.people, bodies, list)), what: "floor" });
  note("second", await runEnrichJob(stage, "person-etl", config));
  note("second", await runEnrichJob(stage, "person-etl --resend", config, ["--resend"]));
  note("second", await fetchFloor(stage, first.people, bodies));
  const dlt = await installDlt();
  for (const variant of variants) {
    if (values["without-automatic"] && variant.normalizing === "automatic") continue;
    await dropSchemas(stage.databaseUrl, variant.dataset);
    await runSql(stage.databaseUrl, `DROP SCHEMA IF EXISTS ${variant.dataset}_staging CASCADE`);
    rmSync(join(stage.folder, "dlt"), { recursive: true, force: true });
    note("first", await runDlt(stage, dlt, variant, "append", first.people));
    Object.assign(round.tables, await compareRows(stage.databaseUrl, SCHEMA, variant));
    note("second", await runDlt(stage, dlt, variant, "delete-insert", first.people));
    await compareRows(stage.databaseUrl, SCHEMA, variant);
    await dropSchemas(stage.databaseUrl, variant.dataset);
  }
  return round;
}

async function postgresVersion({ databaseUrl }: Stage): Promise<string> {
  const [row] = await runSql(databaseUrl, "SHOW server_version");
  return String(row?.["server_version"]);
}

await installDlt();
const stage = await setStage(Number(values.people));
try {
  const bodies = join(stage.folder, "bodies.jsonl");
  await writeBodies(stage, bodies);
  // The file has this form because this program wrote it.
  const kept = values.add ? (JSON.parse(readFileSync(FIGURES, "utf8")) as PeerFigures).rounds : [];
  const rounds = [...kept];
  for (let i = 0; i < Number(values.rounds); i++) {
    rounds.push(await runRound(stage, bodies));
    const figures: PeerFigures = {
      at: new Date().toISOString().slice(0, 10),
      machine: {
        cores: cpus().length,
        cpu: cpus()[0]?.model ?? "",
        memory_gb: Math.round(totalmem() / 2 ** 30),
      },
      versions: {
        node: process.version.slice(1),
        postgres: await postgresVersion(stage),
        ...(await versionsOfDlt(["dlt", "pyarrow", "adbc-driver-postgresql"])),
      },
      rounds,
    };
    writeFileSync(FIGURES, `${JSON.stringify(figures, null, 2)}\n`);
  }
} finally {
  await stage.close();
}
writePage();
