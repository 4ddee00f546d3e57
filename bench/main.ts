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
 *     npm run bench -- [--people 100000[,200000]] [--rounds 1] [--without-floor]
 *
 * Beyond a million people, the floor needs more disk than the run: `--without-floor` leaves it out.
 * Needs Linux (/proc). Starts an embedded Postgres unless PERSON_ETL_BENCH_POSTGRES_URL is set.
 */
const { values } = parseArgs({
  options: {
    people: { type: "string", default: "100000" },
    rounds: { type: "string", default: "1" },
    "without-floor": { type: "boolean", default: false },
  },
});

const withoutFloor = values["without-floor"];
const root = new URL("..", import.meta.url).pathname;

/** Prints what was measured, as soon as it was: a run of millions takes an hour. */
function say(figures: Figures): void {
  const { what, seconds, people_per_second, client_cpu_per_1000, server_cpu_per_1000 } = figures;
  const line = [
    what.padEnd(50),
    `${seconds.toFixed(1)} s`.padStart(9),
    `${people_per_second.toLocaleString("en")} people/s`.padStart(18),
    `CPU/1,000: ${client_cpu_per_1000} + ${server_cpu_per_1000 ?? "?"} s`.padStart(28),
    `${figures.peak_node_mb} MB node, ${figures.peak_tree_mb} MB tree`.padStart(28),
  ];
  process.stdout.write(`${line.join(" ")}\n`);
}

async function benchSize(
  rows: number,
  rounds: number,
): Promise<{ figures: Figures[]; ratios: Record<string, number>[] }> {
  const stage = await setStage(rows);
  const figures: Figures[] = [];
  const ratios: Record<string, number>[] = [];
  const note = (measured: Figures): Figures => {
    figures.push(measured);
    say(measured);
    return measured;
  };
  try {
    const bodies = join(stage.folder, "bodies.jsonl");
    if (!withoutFloor) await writeBodies(stage, bodies);
    for (let i = 0; i < rounds; i++) {
      await dropSchemas(stage.databaseUrl, "bench_ours");
      const config = writeConfig(stage, "bench_ours");
      const first = note(await runEnrichJob(stage, "first night", config));
      note(await runEnrichJob(stage, "second night", config));
      const resend = () => runEnrichJob(stage, "--resend, nothing changed", config, ["--resend"]);
      if (withoutFloor) {
        note(await resend());
        continue;
      }
      const list = await exportTables(stage, "bench_ours", "bench_floor");
      const bare = note(await composedFloor(stage, first.people, bodies, list));
      const again = note(await resend());
      const fetched = note(await fetchFloor(stage, first.people, bodies));
      ratios.push({
        first_night_to_floor: round(first.people_per_second / bare.people_per_second, 2),
        resend_to_fetch: round(again.people_per_second / fetched.people_per_second, 2),
        cpu_to_floor: round(cpuOf(first) / cpuOf(bare), 2),
        resend_cpu_to_fetch: round(cpuOf(again) / cpuOf(fetched), 2),
      });
    }
    return { figures, ratios };
  } finally {
    await stage.close();
  }
}

const results = [];
for (const size of values.people.split(",").map(Number)) {
  process.stdout.write(`\n${size.toLocaleString("en")} input rows\n`);
  const { figures, ratios } = await benchSize(size, Number(values.rounds));
  results.push({ input_rows: size, figures, ratios });
  for (const ratio of ratios) process.stdout.write(`${JSON.stringify(ratio)}\n`);
}
mkdirSync(join(root, "bench/results"), { recursive: true });
const file = join(root, "bench/results/latest.json");
const machine = { cores: cpus().length, cpu: cpus()[0]?.model ?? "", node: process.version };
writeFileSync(file, `${JSON.stringify({ at: new Date().toISOString(), machine, results }, null, 2)}\n`);
process.stdout.write(`\nWritten to ${file}\n`);
