import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
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
const root = new URL("..", import.meta.url).pathname;
const SEGMENT = "11111111-1111-4111-8111-111111111111";
const NAME = "bench_segment";
const FLOOR = "bench_segment_floor";
const TABLES = new Set(["segment_member", "segment_membership_history"]);

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function control(stage: Stage, path: string, body: object): Promise<unknown> {
  const response = await fetch(`${stage.serviceUrl}/_sandbox${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}

function writeConfig(stage: Stage): string {
  const file = join(stage.folder, "segments.yaml");
  writeFileSync(
    file,
    `service: { base_url: "${stage.serviceUrl}", api_key: "\${BENCH_KEY}" }
warehouse: { type: postgres, url: "\${BENCH_URL}", schema: ${NAME}, ops_schema: ${NAME}_ops, state_schema: ${NAME}_state }
data_dir: ${join(stage.folder, "data")}
inputs: {}
jobs:
  members: { type: segment_members, segments: [{ id: ${SEGMENT} }] }
`,
  );
  return file;
}

interface Run extends Measured {
  readonly requests: number;
  readonly jobSeconds: number;
  readonly rowsWritten: number;
}

async function run(stage: Stage, config: string, ...args: string[]): Promise<Run> {
  const env = { ...process.env, BENCH_KEY: "bench", BENCH_URL: stage.databaseUrl };
  const flags = ["--config", config, "--json", "--log-level", "warn", "run", ...args];
  const measured = await measure(join(root, "bin/person-etl"), flags, env);
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
    join(root, "bench/floor-copy.ts"),
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
  await control(stage, "/segments", { segment_id: SEGMENT, name: "large", members, batch });
  say(`${members} members, ${values.moments} moments`);
  for (let round = 0; round < Number(values.rounds); round++) {
    await dropSchemas(stage.databaseUrl, NAME);
    const config = writeConfig(stage);
    const first = await run(stage, config);
    line("first sync", first);
    const floor = await copyFloor(stage);
    say(
      `COPY of the same rows    ${floor.toFixed(1).padStart(7)} s; the first sync has ${(floor / first.jobSeconds).toFixed(2)} of its speed`,
    );
    line("quiet check", await run(stage, config));
    line("whole reading", await run(stage, config, "--full-refresh"));
    const response = await fetch(`${stage.serviceUrl}/_sandbox/segments/${SEGMENT}/members?limit=${members}`);
    const ever = (await response.json()) as { members: { service_pid: string; is_member: boolean }[] };
    const living = ever.members.filter(({ is_member }) => is_member).map(({ service_pid: pid }) => pid);
    const changes = Math.ceil(members / 2000);
    const remove = living.filter((_, i) => i % Math.floor(living.length / changes) === 7).slice(0, changes);
    await control(stage, "/members", { segment_id: SEGMENT, remove });
    line("0.05 % removed", await run(stage, config));
    await control(stage, "/members", { segment_id: SEGMENT, add: remove });
    line("0.05 % added again", await run(stage, config));
  }
} finally {
  await stage.close();
}
