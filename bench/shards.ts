import { parseArgs } from "node:util";
import { controlSandbox } from "../test/support/sandbox-control.ts";
import { environmentOf, launcher, writeConfig } from "./enrich-job.ts";
import { measure } from "./measured-process.ts";
import { dropSchemas, type Stage, setStage } from "./stage.ts";

/**
 * Measures `--shard` with a slow service: a sandbox that delays every answer. Runs the resolve job as 1, 2, 4 and 8
 * processes with one call in flight each. Uses little CPU.
 *
 *     npm run bench:shards -- [--rows 15300] [--latency-ms 10000] [--processes 1,2,4,8]
 */
const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "15300" },
    "latency-ms": { type: "string", default: "10000" },
    processes: { type: "string", default: "1,2,4,8" },
  },
});

interface JobReport {
  readonly records_sent: number;
  readonly requests: number;
  readonly seconds: number;
}

/** Runs the job in parallel processes. */
async function runShards(stage: Stage, processes: number) {
  const schema = `bench_shards_${processes}`;
  const config = writeConfig(stage, schema, {
    type: "resolve",
    service: `concurrency: ${processes}`,
    fields: "first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone]",
  });
  const common = ["--config", config, "--json", "--log-level", "warn"];
  const command = (...args: string[]) => measure(launcher, [...common, ...args], environmentOf(stage));
  await command("migrate");
  const startedAt = performance.now();
  const shards = Array.from({ length: processes }, (_, i) => `${i}/${processes}`);
  const runs = await Promise.all(shards.map((shard) => command("run", "--shard", shard)));
  const wallSeconds = (performance.now() - startedAt) / 1000;
  const jobs = runs.flatMap(({ stdout }) => (JSON.parse(stdout) as { jobs: readonly JobReport[] }).jobs);
  await dropSchemas(stage.databaseUrl, schema);
  return {
    processes,
    sent: jobs.reduce((sum, job) => sum + job.records_sent, 0),
    calls: jobs.reduce((sum, job) => sum + job.requests, 0),
    jobSeconds: Math.max(...jobs.map((job) => job.seconds)),
    wallSeconds,
    cpuSeconds: runs.reduce((sum, run) => sum + run.cpuSeconds, 0),
  };
}

/** Records that a round's processes sent more than once; resets the sandbox's counts. */
async function countRepeats({ serviceUrl }: Stage): Promise<number> {
  const { contents } = await controlSandbox<{
    readonly contents: { readonly received_more_than_once: number };
  }>(serviceUrl, "/ledger");
  await controlSandbox(serviceUrl, "/reset", {});
  return contents.received_more_than_once;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

const stage = await setStage(Number(values.rows), ["--latency-ms", values["latency-ms"]]);
try {
  say(`${values.rows} rows, ${values["latency-ms"]} ms a call, one call in flight per process`);
  say("processes   sent  sent twice  calls  job s  speedup  wall s  speedup  client CPU s");
  let first: { readonly jobSeconds: number; readonly wallSeconds: number } | null = null;
  for (const processes of values.processes.split(",").map(Number)) {
    const round = await runShards(stage, processes);
    first ??= round;
    say(
      [
        String(processes).padStart(9),
        String(round.sent).padStart(6),
        String(await countRepeats(stage)).padStart(11),
        String(round.calls).padStart(6),
        round.jobSeconds.toFixed(1).padStart(6),
        (first.jobSeconds / round.jobSeconds).toFixed(2).padStart(8),
        round.wallSeconds.toFixed(1).padStart(7),
        (first.wallSeconds / round.wallSeconds).toFixed(2).padStart(8),
        round.cpuSeconds.toFixed(1).padStart(13),
      ].join(" "),
    );
  }
} finally {
  await stage.close();
}
