import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { controlSandbox, livingAt } from "../test/support/sandbox-control.ts";
import { checkout, environmentOf, writeConfig } from "./enrich-job.ts";
import { type Measured, measure } from "./measured-process.ts";
import { dropSchemas, exportTables, makeFloorTables, type Stage, setStage } from "./stage.ts";

/**
 * Measures the first sync of a large segment against plain COPY of the same rows (one connection, new tables of the same DDL).
 * Then a quiet check, a full pass, and a full pass after 0.1 % of the members changed.
 *
 *     npm run bench:segments -- [--members 1000000] [--moments 100] [--rounds 1]
 */
const { values } = parseArgs({
  options: {
    members: { type: "string", default: "1000000" },
    // Batches of one moment each: 1 puts all members into one.
    moments: { type: "string", default: "100" },
    rounds: { type: "string", default: "1" },
  },
});
const SEGMENT = "11111111-1111-4111-8111-111111111111";
const NAME = "bench_segment";
const FLOOR = "bench_segment_floor";
const TABLES = new Set(["segment_member", "segment_membership_history"]);

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

interface Run extends Measured {
  readonly requests: number;
  readonly jobSeconds: number;
  readonly rowsWritten: number;
}

async function run(stage: Stage, config: string, ...args: string[]): Promise<Run> {
  const flags = ["--config", config, "--json", "--log-level", "warn", "run", ...args];
  const measured = await measure(checkout, flags, environmentOf(stage));
  const { jobs } = JSON.parse(measured.stdout) as {
    jobs: { requests: number; seconds: number; rows_written: number }[];
  };
  const [job] = jobs;
  return {
    ...measured,
    requests: job?.requests ?? 0,
    jobSeconds: job?.seconds ?? 0,
    rowsWritten: job?.rows_written ?? 0,
  };
}

function line(what: string, { jobSeconds, requests, rowsWritten, peakResidentBytes, cpuSeconds }: Run): void {
  const megabytes = Math.round(peakResidentBytes / 1024 / 1024);
  say(
    `${what.padEnd(24)} ${jobSeconds.toFixed(1).padStart(7)} s ${String(requests).padStart(6)} requests ` +
      `${String(rowsWritten).padStart(9)} rows ${String(megabytes).padStart(5)} MB ${cpuSeconds.toFixed(1).padStart(6)} CPU s`,
  );
}

/** Seconds of COPY of the same rows into fresh tables. */
async function copyFloor(stage: Stage): Promise<number> {
  await makeFloorTables(stage, FLOOR);
  const list = await exportTables(stage, NAME, FLOOR);
  const files = (JSON.parse(readFileSync(list, "utf8")) as [string, string][]).filter(([table]) =>
    TABLES.has(table.split(".")[1] ?? ""),
  );
  writeFileSync(list, JSON.stringify(files));
  const copied = await measure(process.execPath, [
    new URL("floor-copy.ts", import.meta.url).pathname,
    stage.databaseUrl,
    list,
    "1",
  ]);
  await dropSchemas(stage.databaseUrl, FLOOR);
  return copied.seconds;
}

const stage = await setStage(1, ["--no-contents", "--no-gzip"]);
try {
  const members = Number(values.members);
  const batch = Math.ceil(members / Number(values.moments));
  await controlSandbox(stage.serviceUrl, "/segments", { segment_id: SEGMENT, name: "large", members, batch });
  say(`${members} members, ${values.moments} moments`);
  for (let round = 0; round < Number(values.rounds); round++) {
    await dropSchemas(stage.databaseUrl, NAME);
    const config = writeConfig(stage, NAME, {
      jobs: `members: { type: segment_members, segments: [{ id: ${SEGMENT} }] }`,
    });
    const first = await run(stage, config);
    line("first sync", first);
    const floor = await copyFloor(stage);
    say(
      `COPY of the same rows    ${floor.toFixed(1).padStart(7)} s; the first sync has ${(floor / first.jobSeconds).toFixed(2)} of its speed`,
    );
    line("quiet check", await run(stage, config));
    line("whole reading", await run(stage, config, "--full-refresh"));
    const living = await livingAt(stage.serviceUrl, SEGMENT);
    const changes = Math.ceil(members / 2000);
    const remove = living.filter((_, i) => i % Math.floor(living.length / changes) === 7).slice(0, changes);
    await controlSandbox(stage.serviceUrl, "/members", { segment_id: SEGMENT, remove });
    line("0.05 % removed", await run(stage, config));
    await controlSandbox(stage.serviceUrl, "/members", { segment_id: SEGMENT, add: remove });
    line("0.05 % added again", await run(stage, config));
  }
} finally {
  await stage.close();
}
