import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  createWriteStream,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import { Client } from "pg";
import { to as copyTo } from "pg-copy-streams";
import { openEmbedded } from "../src/load/embedded/open.ts";
import type { Db } from "../src/load/db/db.ts";
import { createSampleTable } from "../src/load/db/copy.ts";
import { migrate } from "../src/load/db/migrate.ts";
import { selectLookup } from "../src/load/lookups/selection.ts";
import { openWarehouse } from "../src/load/open.ts";
import { acquireLock } from "../src/load/runs/lock.ts";
import { beginRun } from "../src/load/runs/runs.ts";
import { silentLog } from "../src/log.ts";
import { sampleInputs } from "../packages/sandbox/src/sample-inputs.ts";
import { tables } from "../src/schemas/registry.ts";
import type { LookupSpec } from "../src/load/lookups/lookup.ts";
import type { InputSource } from "../src/load/inputs/input.ts";

/** People that the service knows; more rows than these are as many people. */
const LEAST_PEOPLE = 1_000_000;
/** Records per request, as person-etl sends them. */
export const BATCH = 500;

/** Environment of a benchmark: a service, a Postgres with an input table, a folder. */
export interface Stage {
  readonly serviceUrl: string;
  readonly databaseUrl: string;
  /** The server's process, to measure its CPU; null for a server on another machine. */
  readonly postmasterPid: number | null;
  readonly servicePid: number;
  readonly folder: string;
  close(): Promise<void>;
}

const columns = [
  "id",
  "first_name",
  "last_name",
  "email",
  "work_email",
  "phone",
  "linkedin",
  "street",
  "city",
  "state",
  "zip",
  "updated_at",
] as const;

/** The mapping that the benchmark's job uses. */
export const benchInput: InputSource = {
  name: "customers",
  connection: null,
  relation: { table: ["crm", "customers"] },
  where: null,
  orderBy: null,
  key: ["id"],
  normalize: false,
  fields: {
    first_name: ["first_name"],
    last_name: ["last_name"],
    emails: ["email", "work_email"],
    phones: ["phone"],
    linkedin_url: ["linkedin"],
    address_line_1: ["street"],
    city: ["city"],
    state: ["state"],
    zipcode: ["zip"],
  },
};

/** Starts the sandbox as a separate process. */
async function startService(
  people: number,
  flags: readonly string[],
): Promise<{ url: string; child: ChildProcess }> {
  const program = new URL("../packages/sandbox/src/main.ts", import.meta.url).pathname;
  const args = [program, "--port", "0", "--exit-with-parent", "--people", String(people), ...flags];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    return { url: (JSON.parse(line) as { url: string }).url, child };
  }
  throw new Error("The sandbox did not start.");
}

/** Creates a folder that the server's user can enter, so that the data is here and is removed. */
export function makeServerFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "person-etl-bench-"));
  chmodSync(folder, 0o711);
  return folder;
}

/** Creates an input table with `rows` rows in an empty database, and starts a sandbox with these flags. */
export async function setStage(
  rows: number,
  sandboxFlags: readonly string[] = ["--no-contents", "--no-gzip"],
): Promise<Stage> {
  const folder = makeServerFolder();
  const given = process.env["PERSON_ETL_BENCH_POSTGRES_URL"];
  const embedded = given ? null : await openEmbedded({ dataDir: folder, log: silentLog });
  const databaseUrl = given ?? embedded?.connectionString ?? "";
  const people = Math.max(rows, LEAST_PEOPLE);
  const service = await startService(people, sandboxFlags);
  const warehouse = openWarehouse({
    url: databaseUrl,
    schema: "unused",
    opsSchema: "unused_ops",
    stateSchema: "unused_state",
  });
  await runSql(databaseUrl, "DROP SCHEMA IF EXISTS crm CASCADE");
  await createSampleTable(
    warehouse,
    benchInput,
    columns.map((name) => ({
      name,
      type: name === "id" ? "bigint" : name === "updated_at" ? "timestamptz" : "text",
    })),
    sampleRows(rows, people),
  );
  await warehouse.close();
  // Like a user's own table: its comment marks sample rows, which are sent to no service with an address.
  await runSql(databaseUrl, "COMMENT ON TABLE crm.customers IS NULL");
  await runSql(databaseUrl, "VACUUM ANALYZE crm.customers");
  return {
    serviceUrl: service.url,
    databaseUrl,
    postmasterPid: await postmasterOf(databaseUrl),
    servicePid: service.child.pid ?? 0,
    folder,
    async close() {
      service.child.kill("SIGTERM");
      await embedded?.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function* sampleRows(rows: number, people: number): Generator<readonly (string | null)[]> {
  for (const row of sampleInputs({ seed: 1, people, rows })) {
    yield columns.map((name) => (row[name] === null ? null : String(row[name])));
  }
}

/** Runs statements without a result. */
export async function runSql(url: string, text: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}

async function postmasterOf(url: string): Promise<number | null> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  const stat = await Promise.resolve(rows[0]?.pid).then((pid) => {
    try {
      return readFileSync(`/proc/${pid}/stat`, "utf8");
    } catch {
      return null; // A server on another machine.
    }
  });
  await client.end();
  return stat === null ? null : Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
}

/** Drops the schemas of one round. */
export async function dropSchemas(url: string, name: string): Promise<void> {
  await runSql(url, `DROP SCHEMA IF EXISTS ${name}, ${name}_ops, ${name}_state CASCADE`);
}

/** Writes the job's request bodies, one per line; returns the number of records. */
export async function writeBodies(stage: Stage, file: string): Promise<number> {
  const name = "bench_bodies";
  await dropSchemas(stage.databaseUrl, name);
  const warehouse = openNamed(stage.databaseUrl, name);
  await migrate(warehouse);
  const wanted = { runId: "bodies", job: "bodies", jobType: "enrich", shard: "0/1" };
  const bench = { host: "bench", pid: process.pid, machine: null, processStart: null };
  const reply = await acquireLock(warehouse, { ...wanted, process: bench, lifeMs: 600_000, dead: [] });
  if (reply.kind === "refused") throw new Error("another process is running this benchmark");
  const { run } = reply;
  await beginRun(warehouse, run);
  const spec: LookupSpec = {
    job: "bodies",
    type: "enrich",
    source: benchInput.name,
    kind: "enrich:bench",
    mapping: "bench",
    legacyParameters: "bench",
    input: benchInput,
    refreshAfterMs: null,
    refreshUnmatchedAfterMs: null,
    pidFrom: null,
    dropsInvalidEmails: false,
    erasesMissing: false,
    resend: false,
    acceptParameters: null,
    maxRecords: null,
    shard: null,
  };
  const selection = await selectLookup(warehouse, spec, run);
  const out = createWriteStream(file);
  let batch: string[] = [];
  const flush = () => {
    if (batch.length > 0) out.write(`{"records":[${batch.join(",")}]}\n`);
    batch = [];
  };
  for await (const page of selection.records()) {
    for (const record of page) {
      batch.push(`{"record_id":"${record.recordId}",${record.json.slice(1)}`);
      if (batch.length === BATCH) flush();
    }
  }
  flush();
  await new Promise((resolve) => out.end(resolve));
  await selection.close();
  await warehouse.close();
  await dropSchemas(stage.databaseUrl, name);
  return selection.counts.toSend;
}

/** Opens a warehouse with a separate schema name. */
export function openNamed(url: string, name: string): Db {
  return openWarehouse({ url, schema: name, opsSchema: `${name}_ops`, stateSchema: `${name}_state` });
}

/** Exports every non-empty table in COPY format; returns the list for `floor-copy.ts`, largest first. */
export async function exportTables(stage: Stage, name: string, floorName: string): Promise<string> {
  const client = new Client({ connectionString: stage.databaseUrl });
  await client.connect();
  const files: { table: string; file: string; bytes: number }[] = [];
  for (const table of tables) {
    const suffix = table.schema === "data" ? "" : `_${table.schema}`;
    const file = join(stage.folder, `${table.name}.copy`);
    const source = `${name}${suffix}.${table.name}`;
    await pipeline(client.query(copyTo(`COPY ${source} TO STDOUT`)), createWriteStream(file));
    const bytes = statSync(file).size;
    if (bytes > 0) files.push({ table: `${floorName}${suffix}.${table.name}`, file, bytes });
  }
  await client.end();
  const list = join(stage.folder, "tables.json");
  const sorted = files.toSorted((a, b) => b.bytes - a.bytes);
  writeFileSync(list, JSON.stringify(sorted.map(({ table, file }) => [table, file])));
  return list;
}

/** Creates the floor's empty tables: the same DDL under another name. */
export async function makeFloorTables(stage: Stage, name: string): Promise<void> {
  await dropSchemas(stage.databaseUrl, name);
  const warehouse = openNamed(stage.databaseUrl, name);
  await migrate(warehouse);
  await warehouse.close();
  const named = tables.map(
    (table) => `${name}${table.schema === "data" ? "" : `_${table.schema}`}.${table.name}`,
  );
  // Postgres 18 otherwise misses the tables whose keys aren't enforced.
  await runSql(stage.databaseUrl, `TRUNCATE ${named.join(", ")} CASCADE`);
}
