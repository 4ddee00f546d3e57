import { join } from "node:path";
import { runEnrichJob, writeConfig } from "./enrich-job.ts";
import { cpuOf, round } from "./figures.ts";
import { composedFloor, fetchFloor } from "./floor.ts";
import { measure } from "./measured-process.ts";
import { dropSchemas, exportTables, type Stage, setStage, writeBodies } from "./stage.ts";

/**
 * Fails if a night became more expensive beside its floor: ratios on the same machine, the best of three rounds, because other
 * load only makes a round worse.
 *
 *     npm run bench:guard
 */
const ROWS = 8000;
const QUIET_ROWS = 100_000;
const ROUNDS = 3;

/** A measured ratio or size; smaller is better. */
interface Limit {
  readonly meaning: string;
  /** Inclusive. */
  readonly limit: number;
}

const limits = {
  first_night_cpu_to_floor: {
    meaning: "CPU of a first night, client and Postgres, to that of fetching, parsing and plain COPY",
    limit: 3.6,
  },
  resend_cpu_to_fetch: {
    meaning: "CPU of sending everything again, nothing changed, to that of HTTP and JSON.parse",
    limit: 7.5,
  },
  quiet_night_cpu_to_join: {
    meaning: "CPU of selecting what is due, nothing changed, to that of a bare join of input and states",
    limit: 2.5,
  },
  node_peak_mb: { meaning: "largest resident memory of Node in a first night, MB", limit: 220 },
} satisfies Record<string, Limit>;

type Ratio = keyof typeof limits;
type Ratios = Record<Exclude<Ratio, "quiet_night_cpu_to_join">, number>;

async function runRound(stage: Stage, bodies: string): Promise<Ratios> {
  await dropSchemas(stage.databaseUrl, "bench_guard");
  const config = writeConfig(stage, "bench_guard");
  const first = await runEnrichJob(stage, "first night", config);
  const list = await exportTables(stage, "bench_guard", "bench_floor");
  const floor = await composedFloor(stage, first.people, bodies, list);
  const resend = await runEnrichJob(stage, "--resend", config, ["--resend"]);
  const fetched = await fetchFloor(stage, first.people, bodies);
  return {
    first_night_cpu_to_floor: round(cpuOf(first) / cpuOf(floor), 2),
    resend_cpu_to_fetch: round(cpuOf(resend) / cpuOf(fetched), 2),
    node_peak_mb: first.peak_node_mb,
  };
}

/** Largest CPU ratio that `quiet-night.ts` prints for nights without changes; each is of medians. */
async function quietNights(): Promise<readonly number[]> {
  const program = new URL("quiet-night.ts", import.meta.url).pathname;
  const args = [program, "--rows", String(QUIET_ROWS), "--rounds", String(ROUNDS)];
  const { stdout } = await measure(process.execPath, args);
  const ratios = [...stdout.matchAll(/^nothing due.*×.* ([\d.]+) ×/gmu)].map(([, ratio]) => Number(ratio));
  if (ratios.length === 0) throw new Error("quiet-night.ts printed no ratios.");
  return [Math.max(...ratios)];
}

const stage = await setStage(ROWS);
const rounds: Ratios[] = [];
try {
  const bodies = join(stage.folder, "bodies.jsonl");
  await writeBodies(stage, bodies);
  for (let i = 0; i < ROUNDS; i++) rounds.push(await runRound(stage, bodies));
} finally {
  await stage.close();
}

const quiet = await quietNights();
for (const [name, { meaning, limit }] of Object.entries(limits)) {
  // The keys of a literal.
  const ratio = name as Ratio;
  const measured = ratio === "quiet_night_cpu_to_join" ? quiet : rounds.map((each) => each[ratio]);
  const best = Math.min(...measured);
  process.stdout.write(`${name}: ${best} (limit ${limit}; rounds ${measured.join(", ")})\n`);
  if (best <= limit) continue;
  process.exitCode = 1;
  process.stderr.write(
    `${name} is ${best}, above its limit of ${limit}: the ${meaning}.
Compare this commit with the one before by \`npm run bench -- --people 20000 --rounds 3\`, and find the cause with docs/performance.md.
If the cost is worth it, raise the limit in bench/guard.ts and give the reason in the commit.\n`,
  );
}
