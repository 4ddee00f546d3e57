import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findBigQuery } from "../../test/support/bigquery-emulator.ts";
import { type Measured, measure } from "../measured-process.ts";

/**
 * Answers about people through the BigQuery emulator: our gathering and commits beside the emulator's own plain load of the
 * same rows, and what BigQuery would count for them.
 *
 *     npm run bench:bigquery -- [--people 200000] [--per-commit 100000] [--nights 2]
 *
 * Takes the emulator of BIGQUERY_EMULATOR_HOST, else starts one (see docs/testing.md).
 */
const { values } = parseArgs({
  options: {
    people: { type: "string", default: "200000" },
    "per-commit": { type: "string", default: "100000" },
    nights: { type: "string", default: "2" },
  },
});
const people = Number(values.people);
const here = new URL(".", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "person-etl-bench-bigquery-"));
const emulator = join(folder, "emulator");
mkdirSync(emulator);

function run(program: string, ...args: readonly string[]): Promise<Measured> {
  tell(`${program} …`);
  return measure(process.execPath, [join(here, program), ...args]);
}

/** Our half runs as the launcher (bin/person-etl) has it: with a heap of its size. */
function runOurs(program: string, ...args: readonly string[]): Promise<Measured> {
  tell(`${program} …`);
  const heap = ["--max-semi-space-size=8", "--max-old-space-size=144", "--heap-growing-percent=120"];
  const env = { ...process.env, MALLOC_ARENA_MAX: "2", MALLOC_TRIM_THRESHOLD_: "131072" };
  return measure(process.execPath, [...heap, join(here, program), ...args], env);
}

/** What is known by now: a run takes minutes, and may be cut off. */
function tell(text: string): void {
  process.stderr.write(`${new Date().toISOString()} ${text}\n`);
}

const mb = (bytes: number) => Math.round(bytes / 1e6);
const perPerson = (n: number) => Math.round(n / people);

try {
  const bigQuery = await findBigQuery(emulator);
  if (!bigQuery?.apiEndpoint) throw new Error("There is no emulator to be had.");
  const { apiEndpoint } = bigQuery;
  const project = `bench-${Date.now().toString(36)}`;
  const rows = join(folder, "rows");
  const made = await run("plain-rows.ts", rows, values.people, "0");
  const tables = JSON.parse(made.stdout) as Record<string, { rows: number; logicalBytes: number }>;
  const floor = await run("plain-load.ts", apiEndpoint, project, rows, "floor");
  const work = join(folder, "work");
  mkdirSync(work);
  const ours = (day: string) =>
    runOurs("load.ts", apiEndpoint, project, work, values.people, values["per-commit"], day);
  tell(`plain load: ${Math.round(floor.seconds)} s`);
  const nights = [];
  const all = [
    ["0", "first night"],
    ["1", "next night"],
  ] as const;
  for (const [day, what] of all.slice(0, Number(values.nights))) {
    const measured = await ours(day);
    const told = JSON.parse(measured.stdout) as {
      gatherSeconds: number;
      commitSeconds: number;
      commits: number;
      loadedBytes: number;
      rowsWritten: number;
    };
    nights.push({
      what,
      seconds: Math.round(measured.seconds),
      gather_seconds: Math.round(told.gatherSeconds),
      commit_seconds: Math.round(told.commitSeconds),
      people_per_second: Math.round(people / measured.seconds),
      peak_node_mb: mb(measured.peakResidentBytes),
      commits: told.commits,
      load_jobs_per_staging_table: 1,
      rows_written: told.rowsWritten,
      loaded_bytes_per_person: perPerson(told.loadedBytes),
    });
    tell(JSON.stringify(nights.at(-1)));
  }
  const stored = Object.values(tables).reduce((sum, { logicalBytes }) => sum + logicalBytes, 0);
  const result = {
    at: new Date().toISOString(),
    machine: { cores: cpus().length, cpu: cpus()[0]?.model ?? "", node: process.version },
    people,
    rows_per_person: perPerson(Object.values(tables).reduce((sum, table) => sum + table.rows, 0)),
    plain_load: { seconds: Math.round(floor.seconds), people_per_second: Math.round(people / floor.seconds) },
    nights,
    stored_logical_bytes_per_person: perPerson(stored),
    by_table: Object.fromEntries(
      Object.entries(tables).map(([name, { rows: n, logicalBytes }]) => [
        name,
        { rows: n, bytes_per_person: perPerson(logicalBytes) },
      ]),
    ),
  };
  const text = JSON.stringify(result, null, 2);
  mkdirSync(join(here, "../results"), { recursive: true });
  writeFileSync(join(here, "../results/bigquery.json"), `${text}\n`);
  process.stdout.write(`${text}\n`);
} finally {
  const pidFile = join(emulator, "bigquery", "pid");
  // Only an emulator that was started here has one.
  if (existsSync(pidFile)) process.kill(Number(readFileSync(pidFile, "utf8")));
  rmSync(folder, { recursive: true, force: true });
}
