import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { type SampleInput, sampleInputs } from "../../../packages/sandbox/src/sample-inputs.ts";
import type { Config, InputConfig, JobConfig } from "../../config/config.ts";
import { StopRunError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { isLookupJob } from "../../jobs/lookup/lookup-types.ts";
import { inputSourceOf } from "../../jobs/sources.ts";
import type { Db } from "../../load/db/db.ts";
import { createSampleTable } from "../../load/db/copy.ts";
import { type Context, result } from "../command.ts";
import { UsageError } from "../failure.ts";
import { sandboxProgram } from "../package.ts";

interface SandboxFlags {
  readonly port: number;
  readonly host?: string;
  readonly people?: number;
  readonly seed?: number;
  readonly faults?: string;
  readonly latency?: number;
  readonly apiKey?: string;
}

export async function sandbox(context: Context, flags: SandboxFlags) {
  const { latency, apiKey, ...others } = flags;
  const given = { ...others, "latency-ms": latency, "api-key": apiKey };
  const options = Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
  const { child, closed, errorText } = await spawnSandbox(context, options);
  const stopped = context.untilStopped();
  const address = await Promise.race([readAddress(child.stdout), stopped]);
  if (address) {
    const keys = apiKey === undefined ? "Any key works." : "Only the key of --api-key works.";
    await context.announce(address, `The sandbox is running at ${address.url} until Ctrl-C. ${keys}`);
  }
  await Promise.race([closed, stopped]);
  if (context.stop.signal.aborted) return result(null, "");
  const [reason = ""] = errorText().split("\nusage:");
  if (child.exitCode === 2) throw new UsageError(reason);
  throw new StopRunError("sandbox_failed", `The sandbox ended unexpectedly: ${reason}`);
}

const START_TIMEOUT_MS = 30_000;

const END_TIMEOUT_MS = 2_000;

/**
 * Starts the sandbox service and returns its address. It runs in its own process group, so that Ctrl-C doesn't reach it
 * while calls are in flight, and exits with this process.
 */
export async function startSandboxService(
  context: Context,
  { sandbox: { seed, people }, dataDir }: Pick<Config, "sandbox" | "dataDir">,
): Promise<string> {
  const { child, errorText } = await spawnSandbox(context, [
    "--port=0",
    `--seed=${seed}`,
    `--people=${people}`,
    "--no-contents",
    // Keeps segments between runs.
    `--state=${join(dataDir, `sandbox-${seed}-${people}.json`)}`,
  ]);
  const address = await Promise.race([
    readAddress(child.stdout),
    // Doesn't keep the process open.
    delay(START_TIMEOUT_MS, null, { signal: context.stop.signal, ref: false }),
  ]);
  if (address === null) {
    throw new StopRunError("sandbox_failed", `The sandbox service didn't start: ${errorText()}`);
  }
  const { url } = address;
  context.log.info({ url, seed, people }, "sandbox_started");
  return url;
}

/** Starts the sandbox without the keys and addresses in our environment, which it doesn't need. */
async function spawnSandbox({ env, scope }: Context, options: readonly string[]) {
  const child = spawn(process.execPath, [sandboxProgram, ...options, "--exit-with-parent"], {
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: Object.fromEntries(["PATH", "SystemRoot", "NODE_COMPILE_CACHE"].map((name) => [name, env[name]])),
  });
  // Without a free file descriptor, the child has no pipes.
  await once(child, "spawn");
  const closed = once(child, "close");
  closed.catch(() => {});
  scope.deferProgram("sandbox", () => endChild(child));
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => {
    text = (text + part).slice(-4000);
  });
  return { child, closed, errorText: () => text.trim() || "no output" };
}

/** Reads the address from the program's first line; null if it ends before. */
async function readAddress(input: Readable): Promise<{ readonly url: string; readonly port: number } | null> {
  const lines = createInterface({ input });
  const [line] = (await Promise.race([once(lines, "line"), once(lines, "close")])) as readonly string[]; // as Node.js says
  return line === undefined ? null : JSON.parse(line);
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.stdin?.end();
  child.kill("SIGTERM");
  const waiting = new AbortController();
  await Promise.race([ended, delay(END_TIMEOUT_MS, undefined, { signal: waiting.signal }).catch(() => {})]);
  waiting.abort();
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
}

interface SampleColumn {
  readonly type: "bigint" | "text" | "timestamptz";
  readonly value: (row: SampleInput) => string | null;
}

const joinText = (...parts: readonly (string | null)[]): string | null =>
  parts.filter((part) => part !== null && part.trim() !== "").join(" ") || null;

/** Values of each field's columns, in order; other columns and fields are empty. */
const VALUES: Readonly<Partial<Record<string, readonly ((row: SampleInput) => string | null)[]>>> = {
  first_name: [(row) => row.first_name],
  last_name: [(row) => row.last_name],
  full_name: [(row) => joinText(row.first_name, row.last_name)],
  emails: [(row) => row.email, (row) => row.work_email],
  phones: [(row) => row.phone],
  linkedin_url: [(row) => row.linkedin],
  full_address: [(row) => joinText(row.street, row.city, row.state, row.zip)],
  address_line_1: [(row) => row.street],
  city: [(row) => row.city],
  state: [(row) => row.state],
  zipcode: [(row) => row.zip],
};

/** Enough rows to see every outcome, few enough that a first run takes seconds. */
const SAMPLE_ROWS = 5000;

/** True if a missing input table is created with sample rows; in a database of the user, it is an error. */
export function getsSampleTables(baseUrl: string, warehouseUrl: unknown): boolean {
  return baseUrl === "sandbox" && warehouseUrl === "embedded";
}

/** Creates missing input tables of these jobs in the embedded database, filled with rows for the sandbox; none elsewhere. */
export async function createSampleTables(
  config: Config,
  jobs: readonly JobConfig[],
  db: Db,
  { log, notify }: Pick<Context, "log" | "notify">,
): Promise<void> {
  if (!getsSampleTables(config.service.baseUrl, config.warehouse.url)) return;
  const { seed, people } = config.sandbox;
  const rows = Math.min(SAMPLE_ROWS, people);
  const inputs = new Set(jobs.filter(isLookupJob).map((job) => job.input));
  const own = [...inputs].filter(({ connection }) => connection === null);
  for (const [table, readers] of Map.groupBy(own, tableText)) {
    const [input] = readers;
    if (table === null || !input) continue;
    const columns = [...columnsOf(readers)];
    const source = await inputSourceOf(input, Object.keys(input.fields));
    const isNew = await createSampleTable(
      db,
      source,
      columns.map(([name, { type }]) => ({ name, type })),
      cellsOf(
        sampleInputs({ seed, people, rows }),
        columns.map(([, { value }]) => value),
      ),
    );
    if (!isNew) continue;
    log.info({ input: input.name, rows }, "sample_table_created");
    notify(`Created the input table ${table} with ${countText(rows, "sample row")}.`);
  }
}

function* cellsOf(
  rows: Iterable<SampleInput>,
  values: readonly SampleColumn["value"][],
): Generator<readonly (string | null)[]> {
  for (const row of rows) yield values.map((value) => value(row));
}

/** Name of an input's table; null for a query. */
function tableText({ source }: InputConfig): string | null {
  if (source.kind !== "table") return null;
  return source.schema === null ? source.table : `${source.schema}.${source.table}`;
}

/** All columns that the inputs read, by name: key, mapped fields; also `updated_at`, as most tables have it. */
function columnsOf(inputs: readonly InputConfig[]): ReadonlyMap<string, SampleColumn> {
  const columns = new Map<string, SampleColumn>();
  const add = (name: string, column: SampleColumn) => columns.set(name, columns.get(name) ?? column);
  for (const { key } of inputs) {
    // The last key column is unique; those before it are the same for all rows (`[tenant_id, id]`).
    for (const name of key)
      add(name, { type: "bigint", value: ({ id }) => (name === key.at(-1) ? String(id) : "1") });
  }
  for (const [field, names] of inputs.flatMap(({ fields }) => Object.entries(fields))) {
    for (const [i, name] of names.entries())
      add(name, { type: "text", value: VALUES[field]?.[i] ?? (() => null) });
  }
  return add("updated_at", { type: "timestamptz", value: (row) => row.updated_at });
}
