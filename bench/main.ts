import { cpus } from "node:os";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type Measured, measure } from "./measured-process.ts";
import { cpuSeconds } from "./process-tree.ts";
import { dropSchemas, exportTables, makeFloorTables, type Stage, setStage, writeBodies } from "./stage.ts";

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

const CALLS_IN_FLIGHT = 8;
const COPY_CONNECTIONS = 2;
const root = new URL("..", import.meta.url).pathname;

interface Figures {
  readonly what: string;
  readonly people: number;
  readonly seconds: number;
  readonly people_per_second: number;
  readonly client_cpu_per_1000: number;
  readonly server_cpu_per_1000: number | null;
  readonly peak_node_mb: number;
  readonly peak_tree_mb: number;
}

const round = (value: number, digits = 0) => Number(value.toFixed(digits));

function figuresOf(what: string, people: number, m: Measured, serverCpu: number | null): Figures {
  return {
    what,
    people,
    seconds: round(m.seconds, 2),
    people_per_second: round(people / m.seconds),
    client_cpu_per_1000: round((m.cpuSeconds / people) * 1000, 3),
    server_cpu_per_1000: serverCpu === null ? null : round((serverCpu / people) * 1000, 3),
    peak_node_mb: round(m.peakResidentBytes / 1e6),
    peak_tree_mb: round(m.peakTreeBytes / 1e6),
  };
}

async function withServerCpu<T>(
  stage: Stage,
  work: () => Promise<T>,
): Promise<{ result: T; cpu: number | null }> {
  const pid = stage.postmasterPid;
  const before = pid === null ? 0 : cpuSeconds(pid);
  const result = await work();
  return { result, cpu: pid === null ? null : cpuSeconds(pid) - before };
}

function writeConfig(stage: Stage, schema: string): string {
  const file = join(stage.folder, "config.yaml");
  writeFileSync(
    file,
    `service: { base_url: "${stage.serviceUrl}", api_key: "\${BENCH_KEY}", concurrency: ${CALLS_IN_FLIGHT} }
warehouse: { type: postgres, url: "\${BENCH_URL}", schema: ${schema}, ops_schema: ${schema}_ops, state_schema: ${schema}_state }
data_dir: ${join(stage.folder, "data")}
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone],
              linkedin_url: linkedin, address_line_1: street, city: city, state: state, zipcode: zip }
jobs:
  enrich_customers: { type: enrich, input: customers }
`,
  );
  return file;
}

async function ours(stage: Stage, what: string, config: string, extra: readonly string[]): Promise<Figures> {
  const env = { ...process.env, BENCH_KEY: "bench", BENCH_URL: stage.databaseUrl };
  const args = ["--config", config, "--json", "--log-level", "warn", "run", "--yes", ...extra];
  const { result, cpu } = await withServerCpu(stage, () => measure(join(root, "bin/person-etl"), args, env));
  const report = JSON.parse(result.stdout) as {
    jobs: { records_matched: number; records_sent: number; records_unchanged: number }[];
  };
  const job = report.jobs[0];
  const people = what === "second night" ? (job?.records_unchanged ?? 0) : (job?.records_matched ?? 0);
  return figuresOf(what, people, result, cpu);
}

async function floor(stage: Stage, people: number, bodies: string, list: string): Promise<Figures> {
  await makeFloorTables(stage, "bench_floor");
  const { result, cpu } = await withServerCpu(stage, () =>
    Promise.all([
      measure(process.execPath, [
        join(root, "bench/floor-fetch.ts"),
        stage.serviceUrl,
        "/v2/enrich",
        bodies,
        String(CALLS_IN_FLIGHT),
      ]),
      measure(process.execPath, [
        join(root, "bench/floor-copy.ts"),
        stage.databaseUrl,
        list,
        String(COPY_CONNECTIONS),
      ]),
    ]),
  );
  const [fetched, copied] = result;
  await dropSchemas(stage.databaseUrl, "bench_floor");
  const both: Measured = {
    seconds: Math.max(fetched.seconds, copied.seconds),
    cpuSeconds: fetched.cpuSeconds + copied.cpuSeconds,
    peakResidentBytes: Math.max(fetched.peakResidentBytes, copied.peakResidentBytes),
    peakTreeBytes: fetched.peakTreeBytes + copied.peakTreeBytes,
    stdout: "",
  };
  return figuresOf(
    `composed floor (fetch ${round(fetched.seconds, 1)} s, COPY ${round(copied.seconds, 1)} s)`,
    people,
    both,
    cpu,
  );
}

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
      const first = await ours(stage, "first night", config, []);
      const list = await exportTables(stage, "bench_ours", "bench_floor");
      const bare = await floor(stage, first.people, bodies, list);
      const resend = await ours(stage, "--resend, nothing changed", config, ["--resend"]);
      const second = await ours(stage, "second night", config, []);
      figures.push(first, bare, resend, second);
      ratios.push({
        first_night_to_floor: round(first.people_per_second / bare.people_per_second, 2),
        resend_to_first_night: round(resend.people_per_second / first.people_per_second, 2),
        cpu_to_floor: round(
          (first.client_cpu_per_1000 + (first.server_cpu_per_1000 ?? 0)) /
            (bare.client_cpu_per_1000 + (bare.server_cpu_per_1000 ?? 0)),
          2,
        ),
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
