import { linkSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { publishDestination } from "../src/jobs/publish/publish-destination.ts";
import { tableText } from "../src/load/db/names.ts";
import { openWarehouse } from "../src/load/open.ts";
import { silentLog } from "../src/log.ts";
import { catalogOf, type Destination, type Position, type StagedFiles } from "../src/publish/destination.ts";
import { duckTypes } from "../src/publish/duckdb/statements.ts";
import { launcher } from "./enrich-job.ts";
import { median } from "./figures.ts";
import { fillPeople, openServer, writeFilledConfig } from "./fill-people.ts";
import { type Measured, measure } from "./measured-process.ts";
import { dropSchemas } from "./stage.ts";

/**
 * Publishes many people to a new DuckDB file by the real command line, and loads the same files by DuckDB alone; then again with
 * 1 % of the people changed: their names only, and all of their rows.
 *
 *     npm run bench:publish -- [--people 200000] [--rounds 3]   # 0 compares only the 1 %
 *
 * A million people need 12 GB in the folder for temporary files. Needs Linux (/proc).
 */
const { values } = parseArgs({
  options: { people: { type: "string", default: "200000" }, rounds: { type: "string", default: "3" } },
});
const PEOPLE = Number(values.people);
const NAMES = { data: "bench", ops: "bench_ops", state: "bench_state" };
const floor = new URL("floor-duckdb.ts", import.meta.url).pathname;

const server = await openServer();
const { url, folder } = server;
const db = openWarehouse({ url, schema: NAMES.data, opsSchema: NAMES.ops, stateSchema: NAMES.state });
const env = { ...process.env, BENCH_URL: url };

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const config = writeFilledConfig(
  folder,
  NAMES,
  `publish:
  local: { type: duckdb, path: ${join(folder, "people.duckdb")} }
`,
);
const run = (...args: readonly string[]) =>
  measure(launcher, ["--config", config, "--json", "--log-level", "error", ...args], env);

async function fill(): Promise<void> {
  await dropSchemas(url, NAMES.data);
  await run("migrate");
  const client = new Client({ connectionString: url });
  await client.connect();
  const rows = await fillPeople(client, NAMES, PEOPLE);
  await client.end();
  print(`${PEOPLE} people, ${rows} rows`);
}

let keptAt: Position | null = null;

/** Publishes into files; returns the list for `floor-duckdb.ts`, and their rows. */
async function keepFiles(name: string): Promise<{ list: string; rows: number }> {
  const kept = join(folder, name);
  mkdirSync(kept);
  const tables = new Map<string, [string, Record<string, string>, string[]]>();
  let rows = 0;
  let bytes = 0;
  const destination: Destination = {
    name: "kept",
    description: "kept files",
    fileFormat: "text",
    keysPerBatch: 1_000_000,
    check: async () => [],
    migrate: async () => {},
    restart: () => Promise.resolve(),
    position: async () => keptAt,
    async stage(_, { table, content, part, files, lines }: StagedFiles) {
      if (content === "keys") return;
      const types = Object.fromEntries(table.columns.map((c) => [c.name, duckTypes[c.type].type]));
      const entry = tables.get(table.name) ?? [table.name, types, []];
      for (const file of files) {
        const path = join(kept, `${part}-${basename(file)}`);
        linkSync(file, path);
        bytes += statSync(path).size;
        entry[2].push(path);
      }
      rows += lines;
      tables.set(table.name, entry);
    },
    async commit({ number, id }) {
      keptAt = { number, id };
      return "committed";
    },
    finish: async () => {},
    measure: async () => [],
    explain: (error) => error,
    close: async () => {},
  };
  const catalog = catalogOf(null);
  const started = performance.now();
  await publishDestination({ db, destination, catalog, folder: join(folder, "publish"), log: silentLog });
  print(
    `${name}: files alone ${((performance.now() - started) / 1000).toFixed(1)} s, ${(bytes / 1e6).toFixed(0)} MB`,
  );
  const list = join(folder, `${name}.json`);
  writeFileSync(list, JSON.stringify([...tables.values()]));
  return { list, rows };
}

function report(what: string, m: Measured, rows: number): void {
  const columns = [
    what,
    `${m.seconds.toFixed(1)} s`,
    `${Math.round(rows / m.seconds).toLocaleString("en")} rows/s`,
    `${Math.round(Math.max(m.peakResidentBytes, m.peakTreeBytes) / 1e6)} MB in all processes`,
    `${m.cpuSeconds.toFixed(1)} s CPU`,
  ];
  print(`| ${columns.join(" | ")} |`);
}

/** Changes 1 % of the people, publishes, and compares with DuckDB loading the same rows into an empty file. */
async function publishChanges(what: string, statements: readonly string[]): Promise<void> {
  for (const statement of statements) await db.pool.query(statement);
  const changed = await keepFiles(what);
  const bare = await measure(process.execPath, [floor, join(folder, `${what}.duckdb`), changed.list]);
  report(`${what} of 1 % into an empty file, DuckDB alone`, bare, changed.rows);
  const ours = await run("publish", "local");
  report(`publish, ${what} of 1 % changed`, ours, changed.rows);
  print(
    `${what} of 1 %, publish / DuckDB alone: ${(ours.seconds / bare.seconds).toFixed(2)} by time, ${(ours.cpuSeconds / bare.cpuSeconds).toFixed(2)} by CPU`,
  );
}

try {
  await fill();
  const { list, rows } = await keepFiles("all");
  const ratios: number[] = [];
  if (Number(values.rounds) === 0) report("publish", await run("publish", "local"), rows);
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const path of ["people.duckdb", "floor.duckdb", "data/publish"]) {
      rmSync(join(folder, path), { recursive: true, force: true });
    }
    const bare = await measure(process.execPath, [floor, join(folder, "floor.duckdb"), list]);
    report("DuckDB alone", bare, rows);
    const ours = await run("publish", "local", "--full");
    report("publish", ours, rows);
    ratios.push(ours.seconds / bare.seconds);
  }
  if (ratios.length > 0)
    print(
      `publish / DuckDB alone: ${median(ratios).toFixed(2)} (${ratios.map((r) => r.toFixed(2)).join(", ")})`,
    );
  await publishChanges("names", [
    `UPDATE ${NAMES.data}.person SET full_name = full_name || '.', _synced_at = now() WHERE hashtext(service_pid) % 100 = 0`,
  ]);
  await publishChanges(
    "all rows",
    catalogOf(null)
      .tables.filter(({ columns }) => columns.some(({ name }) => name === "service_pid"))
      .map(
        ({ name }) =>
          `UPDATE ${tableText(NAMES, name)} SET service_pid = service_pid WHERE hashtext(service_pid) % 100 = 1`,
      ),
  );
} finally {
  await db.close();
  await server.close();
}
