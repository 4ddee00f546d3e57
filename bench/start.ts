import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { openEmbedded } from "../src/load/embedded/open.ts";
import { silentLog } from "../src/log.ts";
import { checkout, environmentOf, launcher, runEnrichJob, writeConfig } from "./enrich-job.ts";
import { median } from "./figures.ts";
import { readTree } from "./process-tree.ts";
import { makeServerFolder, setStage, type Stage } from "./stage.ts";

/**
 * Measures short commands in a checkout and in an installed package, beside an empty Node.js program and one that connects to
 * Postgres, and the opening of the embedded database.
 *
 *     npm run bench:start
 */
const ROUNDS = 15;

interface Command {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
}

/** CPU of all children that ended, seconds. */
const childSeconds = () => readTree(process.pid).find(({ pid }) => pid === process.pid)?.reapedSeconds ?? 0;

/** Runs the commands in turn; prints medians. /proc counts hundredths of a second, so CPU is the mean of all rounds. */
function compare(commands: readonly Command[], env: NodeJS.ProcessEnv): void {
  const seconds = new Map(commands.map(({ name }) => [name, [] as number[]]));
  const cpu = new Map(commands.map(({ name }) => [name, 0]));
  for (let round = -1; round < ROUNDS; round++) {
    for (const { name, program, args } of commands) {
      const [before, startedAt] = [childSeconds(), performance.now()];
      execFileSync(program, args, { env, stdio: ["ignore", "ignore", "inherit"] });
      // The first round fills the compile cache.
      if (round < 0) continue;
      seconds.get(name)?.push((performance.now() - startedAt) / 1000);
      cpu.set(name, (cpu.get(name) ?? 0) + childSeconds() - before);
    }
  }
  for (const [name, times] of seconds) {
    const mean = (cpu.get(name) ?? 0) / ROUNDS;
    process.stdout.write(`${name.padEnd(40)} ${median(times).toFixed(2)} s, CPU ${mean.toFixed(2)} s\n`);
  }
}

async function compareCommands(stage: Stage): Promise<void> {
  const config = writeConfig(stage, "bench_start");
  await runEnrichJob(stage, "first run", config);
  const status = ["--config", config, "status"];
  const connecting = `const { default: pg } = await import("pg");
    const client = new pg.Client({ connectionString: process.env.BENCH_URL });
    await client.connect(); await client.query("SELECT 1"); await client.end();`;
  const node = process.execPath;
  compare(
    [
      { name: "empty program", program: node, args: ["-e", ""] },
      {
        name: "program that asks Postgres for 1",
        program: node,
        args: ["--input-type=module", "-e", connecting],
      },
      { name: "--version, installed", program: launcher, args: ["--version"] },
      { name: "--version, checkout", program: checkout, args: ["--version"] },
      { name: "status, installed", program: launcher, args: status },
      { name: "status, checkout", program: checkout, args: status },
    ],
    environmentOf(stage),
  );
}

async function timeEmbedded(): Promise<void> {
  const folder = makeServerFolder();
  try {
    for (const what of ["created", "opened", "opened"]) {
      const startedAt = performance.now();
      const server = await openEmbedded({ dataDir: folder, log: silentLog });
      process.stdout.write(
        `embedded database, ${what}`.padEnd(40) +
          ` ${((performance.now() - startedAt) / 1000).toFixed(2)} s\n`,
      );
      await server.close();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const stage = await setStage(500);
try {
  await compareCommands(stage);
} finally {
  await stage.close();
}
await timeEmbedded();
