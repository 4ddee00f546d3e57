import { cpus } from "node:os";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { runEnrichJob, writeConfig } from "./enrich-job.ts";
import { cpuOf, type Figures, round } from "./figures.ts";
import { composedFloor, fetchFloor } from "./floor.ts";
import { dropSchemas, exportTables, setStage, writeBodies } from "./stage.ts";

/**
 * Compares the enrich job of the real command line with a floor: a bare client fetches and parses the same bodies,
 * while plain COPY loads the same rows into new tables of the same DDL.
 *
 *     npm run bench -- [--people 100000[,200000]] [--rounds 1]
 *
 * Needs Linux (/proc). Starts an embedded Postgres unless PERSON_ETL_BENCH_POSTGRES_URL is set.
 */
const { values } = parseArgs({
  options: { people: { type: "string", default: "100000" }, rounds: { type: "string", default: "1" } },
});

const root = new URL("..", import.meta.url).pathname;

async function benchSize(
  rows: number,
  rounds: number,
): Promise<{ figures: Figures[]; ratios: Record<string, number>[] }> {
  const stage = await setStage(rows);
  try {
    const bodies = join(stage.folder, "bodies.jsonl");
    await writeBodies(stage, bodies);
    const figures: Figures[] = [];
    const ratios: Record<string, number>[] = [];
    for (let i = 0; i < rounds; i++) {
      await dropSchemas(stage.databaseUrl, "bench_ours");
      const config = writeConfig(stage, "bench_ours");
      const first = await runEnrichJob(stage, "first night", config);
      const list = await exportTables(stage, "bench_ours", "bench_floor");
      const bare = await composedFloor(stage, first.people, bodies, list);
      const resend = await runEnrichJob(stage, "--resend, nothing changed", config, ["--resend"]);
      const fetched = await fetchFloor(stage, first.people, bodies);
      const second = await runEnrichJob(stage, "second night", config);
      figures.push(first, bare, resend, fetched, second);
      ratios.push({
        first_night_to_floor: round(first.people_per_second / bare.people_per_second, 2),
        resend_to_fetch: round(resend.people_per_second / fetched.people_per_second, 2),
        cpu_to_floor: round(cpuOf(first) / cpuOf(bare), 2),
        resend_cpu_to_fetch: round(cpuOf(resend) / cpuOf(fetched), 2),
      });
    }
    return { figures, ratios };
  } finally {
    await stage.close();
  }
}

const results = [];
for (const size of values.people.split(",").map(Number)) {
  const { figures, ratios } = await benchSize(size, Number(values.rounds));
  results.push({ input_rows: size, figures, ratios });
  process.stdout.write(`\n${size.toLocaleString("en")} input rows\n`);
  process.stdout.write(
    `${figures
      .map((f) =>
        [
          f.what.padEnd(50),
          `${f.seconds.toFixed(1)} s`.padStart(9),
          `${f.people_per_second.toLocaleString("en")} people/s`.padStart(18),
          `CPU/1,000: ${f.client_cpu_per_1000} + ${f.server_cpu_per_1000 ?? "?"} s`.padStart(28),
          `${f.peak_node_mb} MB node, ${f.peak_tree_mb} MB tree`.padStart(28),
        ].join(" "),
      )
      .join("\n")}\n`,
  );
  for (const ratio of ratios) process.stdout.write(`${JSON.stringify(ratio)}\n`);
}
mkdirSync(join(root, "bench/results"), { recursive: true });
const file = join(root, "bench/results/latest.json");
const machine = { cores: cpus().length, cpu: cpus()[0]?.model ?? "", node: process.version };
writeFileSync(file, `${JSON.stringify({ at: new Date().toISOString(), machine, results }, null, 2)}\n`);
process.stdout.write(`\nWritten to ${file}\n`);
