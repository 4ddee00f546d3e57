import { createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { to as copyTo } from "pg-copy-streams";
import { openEmbedded } from "../src/load/embedded/open.ts";
import type { InputConnection } from "../src/load/inputs/input.ts";
import { openForeignInput, openLocalInput } from "../src/load/inputs/read.ts";
import { migrate } from "../src/load/db/migrate.ts";
import type { LookupSpec } from "../src/load/lookups/lookup.ts";
import { type LookupSelection, selectLookup } from "../src/load/lookups/selection.ts";
import { acquireLock, releaseLock } from "../src/load/runs/lock.ts";
import { beginRun as recordStart } from "../src/load/runs/runs.ts";
import type { RunRef } from "../src/load/runs/fence.ts";
import { silentLog } from "../src/log.ts";
import { openWarehouse } from "../src/load/open.ts";
import { filesIn } from "../test/support/files-in.ts";
import { median } from "./figures.ts";
import { cpuSeconds, peakResidentBytes } from "./process-tree.ts";
import { benchInput } from "./stage.ts";

/**
 * Measures the selection of a quiet night: nothing due, and 1 % of the rows changed. Compares it with a bare parallel join of
 * the input and the states that computes the same fingerprint; inputs in another database and in a file with copying their keys
 * and fingerprints. Alternates both, and prints medians. Sends nothing.
 *
 *     npm run bench:quiet -- [--rows 1000000] [--rounds 5] [--filled]
 *
 * `--filled` measures in the tables that an earlier run left in PERSON_ETL_BENCH_POSTGRES_URL; `--rounds 0` only fills them.
 */
const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "5" },
    filled: { type: "boolean", default: false },
  },
});
const rows = Number(values.rows);
const rounds = Number(values.rounds);

const base: LookupSpec = {
  job: "resolve_customers",
  type: "resolve",
  source: benchInput.name,
  kind: "resolve:bench",
  mapping: "bench",
  legacyParameters: "bench",
  input: benchInput,
  refreshAfterMs: 180 * 24 * 3_600_000,
  refreshUnmatchedAfterMs: null,
  pidFrom: null,
  dropsInvalidEmails: false,
  erasesMissing: false,
  resend: false,
  acceptParameters: null,
  maxRecords: null,
  shard: null,
};
const resolve = base;
const enrich: LookupSpec = {
  ...base,
  job: "enrich_customers",
  type: "enrich",
  kind: "enrich:bench",
  pidFrom: resolve.job,
  dropsInvalidEmails: true,
};

const folder = mkdtempSync(join(tmpdir(), "person-etl-bench-"));
const given = process.env["PERSON_ETL_BENCH_POSTGRES_URL"];
const embedded = given ? null : await openEmbedded({ dataDir: folder, log: silentLog });
const url = given ?? embedded?.connectionString ?? "";
const target = { url, schema: "quiet", opsSchema: "quiet_ops", stateSchema: "quiet_state" };
const db = openWarehouse(target);
const client = new Client({ connectionString: url });
await client.connect();

const megabytes = () => Math.round(peakResidentBytes(process.pid) / 1024 / 1024);
const idle = megabytes();

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function value(text: string): Promise<string> {
  const { rows: found } = await client.query<{ value: string }>(text);
  return found[0]?.value ?? "";
}

/** Creates the input: about 1 % of the rows have no usable value for a match. */
async function makeInput(): Promise<void> {
  await client.query(`SET client_min_messages = warning;
    DROP SCHEMA IF EXISTS crm, quiet, quiet_ops, quiet_state CASCADE; CREATE SCHEMA crm;
    CREATE TABLE crm.customers AS SELECT i AS id, 'First' || i % 5000 AS first_name, 'Last' || i % 70000 AS last_name,
      'person' || i || '@example.com' AS email, CASE WHEN i % 3 = 0 THEN 'work' || i || '@example.org' END AS work_email,
      '+1555' || lpad((i % 10000000)::text, 7, '0') AS phone, 'https://linkedin.example/in/p' || i AS linkedin,
      i % 9000 || ' Main Street' AS street, 'Springfield' AS city, 'CA' AS state, lpad((i % 90000)::text, 5, '0') AS zip,
      now() AS updated_at
    FROM generate_series(1, ${rows}) AS i;
    ALTER TABLE crm.customers ADD PRIMARY KEY (id)`);
  await client.query("VACUUM ANALYZE crm.customers");
}

/** Answers what a selection claimed, without the service: three of four contents match. */
async function answer({ kind, job, type }: LookupSpec, runId: string): Promise<void> {
  const table = type === "resolve" ? "quiet.resolution" : "quiet.enrichment";
  const isMatch = "get_byte(content, 0) % 4 <> 0";
  await client.query(`
    INSERT INTO quiet_state.lookup_answer (kind, content, outcome, service_pid, sent_service_pid, answered_at, call_number, call_id,
      is_first, _synced_at, _run_id)
    SELECT kind, content, CASE WHEN ${isMatch} THEN 'matched' ELSE 'unmatched' END, CASE WHEN ${isMatch} THEN 'p-' || md5(content) END,
      sent_service_pid, now(), 1, gen_random_uuid(), true, now(), '${runId}'
    FROM quiet_state.lookup_due WHERE kind = '${kind}' ORDER BY content;
    DELETE FROM quiet_state.lookup_due WHERE kind = '${kind}';
    INSERT INTO ${table} (job, source, source_key, is_match, service_pid, is_present, _synced_at, _run_id)
    SELECT r.job, r.source, r.source_key, a.outcome = 'matched', a.service_pid, a.outcome = 'matched', now(), '${runId}'
    FROM quiet_state.lookup_row AS r JOIN quiet_state.lookup_answer AS a ON a.kind = '${kind}' AND a.content = r.content
    WHERE r.job = '${job}' ORDER BY source_key COLLATE "C"
    ON CONFLICT (job, source, source_key) DO UPDATE SET is_present = excluded.is_present, service_pid = excluded.service_pid
      WHERE ${table.split(".")[1]}.service_pid IS DISTINCT FROM excluded.service_pid`);
}

/** Selects, and answers what is due. */
async function selectOnce(spec: LookupSpec): Promise<{ readonly sent: number; readonly unchanged: number }> {
  const run = await beginRun(spec);
  const selection = await selectLookup(db, spec, run);
  lastSelection = { selection, run };
  return { sent: selection.counts.toSend, unchanged: selection.counts.unchanged };
}

let lastSelection: { readonly selection: LookupSelection; readonly run: RunRef } | null = null;

async function finish(spec: LookupSpec): Promise<void> {
  if (!lastSelection) return;
  const { selection, run } = lastSelection;
  if (selection.counts.toSend > 0) await answer(spec, run.runId);
  await selection.close();
}

/** Starts a run of the job, alone. */
async function beginRun({ job, type }: LookupSpec): Promise<RunRef> {
  if (held) await releaseLock(db, held);
  const process = { host: "bench", pid: 1, machine: null, processStart: null };
  const runId = `bench-${job}-${Math.random()}`;
  const reply = await acquireLock(db, {
    runId,
    job,
    jobType: type,
    shard: "0/1",
    process,
    lifeMs: 86_400_000,
    dead: [],
  });
  if (reply.kind === "refused") throw new Error(`${job} is locked`);
  held = reply.run;
  await recordStart(db, held);
  return held;
}

let held: RunRef | null = null;

/** The bare join: counts the rows whose fingerprint is not the stored one. */
async function bareJoin({ job, input, type }: LookupSpec): Promise<string> {
  const reading = { type, ranked: false, hasFingerprint: true, isWithoutValues: true };
  const { rawRows } = await db.transaction((session) => openLocalInput(session, input, reading));
  return `SELECT count(*) AS value FROM (${rawRows}) AS i JOIN quiet_state.lookup_row AS r
    ON r.job = '${job}' AND r.source = 'customers' AND r.source_key = i.source_key WHERE r.fingerprint IS DISTINCT FROM i.fingerprint`;
}

interface Measure {
  readonly wall: number;
  readonly cpu: number;
}

const postmaster = Number(
  await value("SELECT pg_backend_pid() AS value").then(async (pid) => {
    const { readFileSync } = await import("node:fs");
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1];
  }),
);

async function measure(work: () => Promise<unknown>): Promise<Measure> {
  const before = cpuSeconds(postmaster) + process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6;
  const startedAt = performance.now();
  await work();
  const wall = (performance.now() - startedAt) / 1000;
  const after = cpuSeconds(postmaster) + process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6;
  return { wall, cpu: after - before };
}

function summary(measures: readonly Measure[]): Measure {
  return { wall: median(measures.map((m) => m.wall)), cpu: median(measures.map((m) => m.cpu)) };
}

/** Leaves the input as it is. */
async function nothing(): Promise<void> {}

/** Changes 1 % of the rows, others in every round. */
async function change(round: number): Promise<void> {
  await client.query(`UPDATE crm.customers SET email = email || '${round}' WHERE id % 100 = ${round}`);
}

/** Changes 30 % of the rows. */
async function changeMany(round: number): Promise<void> {
  await client.query(`UPDATE crm.customers SET email = email || 'x${round}' WHERE id % 10 IN (1, 4, 7)`);
}

/** Reads the input from another database or file into the warehouse, as far as a quiet night needs it. */
async function copyKeys({ input, type }: LookupSpec): Promise<void> {
  const foreign = db.foreignOf(input);
  if (!foreign) throw new Error("The input is in the warehouse itself.");
  const reading = { type, ranked: false, hasFingerprint: true, isWithoutValues: true };
  await db.transaction((session) => openForeignInput(session, foreign, input, reading));
}

async function compare(
  name: string,
  spec: LookupSpec,
  prepare: (round: number) => Promise<void>,
): Promise<void> {
  const join = spec.input.connection === null ? await bareJoin(spec) : null;
  const floor = () => (join === null ? copyKeys(spec) : value(join));
  const bare: Measure[] = [];
  const selection: Measure[] = [];
  let found = { sent: 0, unchanged: 0 };
  for (let round = 0; round < rounds; round++) {
    await prepare(round);
    bare.push(await measure(floor));
    selection.push(
      await measure(async () => {
        found = await selectOnce(spec);
      }),
    );
    await finish(spec);
  }
  const [one, other] = [summary(bare), summary(selection)];
  say(
    [
      name.padEnd(34),
      one.wall.toFixed(2).padStart(7),
      other.wall.toFixed(2).padStart(10),
      `${(other.wall / one.wall).toFixed(2)} ×`.padStart(8),
      one.cpu.toFixed(2).padStart(8),
      other.cpu.toFixed(2).padStart(10),
      `${(other.cpu / one.cpu).toFixed(2)} ×`.padStart(8),
      String(found.sent).padStart(9),
      String(found.unchanged).padStart(10),
    ].join(" "),
  );
}

/** Creates the input, and answers it for both jobs. */
async function fill(): Promise<void> {
  await makeInput();
  await migrate(db);
  for (const spec of [resolve, enrich]) {
    const first = await measure(() => selectOnce(spec));
    say(`${spec.job}: first selection ${first.wall.toFixed(1)} s`);
    await finish(spec);
    await client.query("VACUUM ANALYZE");
  }
}

/** Writes the input to a file of which a quiet night finds nothing due. */
async function exportInput(): Promise<void> {
  const rowsOf = client.query(copyTo("COPY crm.customers TO STDOUT (FORMAT csv, HEADER)"));
  await pipeline(rowsOf, createWriteStream(join(folder, "customers.csv")));
}

const elsewhere = (connection: InputConnection, table: readonly string[]): LookupSpec => ({
  ...resolve,
  input: { ...benchInput, connection, relation: { table } },
});

const stateBytes = () =>
  value(`SELECT round(sum(pg_column_size(fingerprint)) / count(*), 1) AS value FROM quiet_state.lookup_row`);

try {
  if (!values.filled) await fill();
  say(`${rows} rows, ${await stateBytes()} bytes of fingerprint in a state`);
  say(
    "                                   floor s  selection s    ratio  CPU s  selection    ratio      sent  unchanged",
  );
  await compare("nothing due", resolve, nothing);
  await compare("nothing due, pid_from, valid emails", enrich, nothing);
  await compare("1 % changed", resolve, change);
  await compare("30 % changed", resolve, changeMany);
  await exportInput();
  const other: InputConnection = { type: "postgres", name: "other", url };
  await compare("input in another Postgres", elsewhere(other, ["crm", "customers"]), nothing);
  const inFile = elsewhere(filesIn(folder), ["customers.csv"]);
  // DuckDB's fingerprints differ from those of Postgres.
  await selectOnce(inFile);
  await finish(inFile);
  await compare("input in a CSV file", inFile, nothing);
  say(`Node.js at its peak: ${megabytes()} MB, of which ${idle} MB before the first statement`);
} finally {
  if (held) await releaseLock(db, held);
  await client.end();
  await db.close();
  await embedded?.close();
  rmSync(folder, { recursive: true, force: true });
}
