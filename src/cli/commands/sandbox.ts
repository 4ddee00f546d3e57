import type { Command } from "commander";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { type SampleInput, sampleInputs } from "../../../packages/sandbox/src/sample-inputs.ts";
import type { Config, InputConfig, InputField, JobConfig } from "../../config/config.ts";
import { StopRunError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { isLookupJob } from "../../jobs/lookup/lookup-types.ts";
import { inputSourceOf } from "../../jobs/sources.ts";
import type { Db } from "../../load/db/db.ts";
import { createSampleTable } from "../../load/db/copy.ts";
import { type AddCommand, type Context, type Outcome, result, wholeNumber } from "../command.ts";
import { UsageError } from "../failure.ts";
import { programFile } from "../package.ts";

interface SandboxFlags {
  readonly port: number;
  readonly host?: string;
  readonly people?: number;
  readonly seed?: number;
  readonly faults?: string;
  readonly latency?: number;
  readonly apiKey?: string;
}

const DEFAULT_PORT = 8787;

/** `sandbox`: a local mock of the service. */
export const addSandbox: AddCommand = (program, act) => {
  program
    .command("sandbox")
    .description("run a local mock of the service with synthetic people, until Ctrl-C")
    .option("--port <n>", "port to listen on, 0 for a free one", wholeNumber(0), DEFAULT_PORT)
    .option("--host <host>", "address to listen on (default: 127.0.0.1)")
    .option("--people <n>", "size of the population (default: 1000000)", wholeNumber(1))
    .option("--seed <n>", "seed of the population (default: 1)", wholeNumber(0))
    .option("--faults <plan>", "faults to inject, such as 429=2:0.1@enrich,cut_body:0.05")
    .option("--latency <ms>", "milliseconds of delay per response", wholeNumber(0))
    .option("--api-key <key>", "the only accepted key (default: any key that doesn't start with `revoked`)")
    .action((flags: SandboxFlags, command: Command) => act(command, (context) => sandbox(context, flags)));
};

async function sandbox(context: Context, flags: SandboxFlags): Promise<Outcome> {
  const { child, errorText } = await spawnSandbox(context, argumentsOf(flags));
  child.stdout.setEncoding("utf8").once("data", (line: string) => {
    const address: { url: string; port: number } = JSON.parse(line);
    const keys = flags.apiKey === undefined ? "Any key works." : "Only the key of --api-key works.";
    void context.announce(address, `The sandbox is running at ${address.url} until Ctrl-C. ${keys}`);
  });
  await Promise.race([once(child, "close"), context.untilStopped()]);
  if (context.stop.signal.aborted) return result(null, "");
  const [reason = ""] = errorText().split("\nusage:");
  if (child.exitCode === 2) throw new UsageError(reason);
  throw new StopRunError("sandbox_failed", `The sandbox ended unexpectedly: ${reason}`);
}

function argumentsOf(flags: SandboxFlags): string[] {
  const given = {
    port: flags.port,
    host: flags.host,
    people: flags.people,
    seed: flags.seed,
    faults: flags.faults,
    "latency-ms": flags.latency,
    "api-key": flags.apiKey,
  };
  return Object.entries(given).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${value}`],
  );
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
  const url = await Promise.race([
    readUrl(child.stdout),
    once(child, "exit").then(() => null),
    delay(START_TIMEOUT_MS, null, { signal: context.stop.signal }),
  ]);
  if (url === null) {
    throw new StopRunError("sandbox_failed", `The sandbox service didn't start: ${errorText()}`);
  }
  context.log.info({ url, seed, people }, "sandbox_started");
  return url;
}

/** Starts the sandbox without the keys and addresses in our environment, which it doesn't need. */
async function spawnSandbox({ env, scope }: Context, options: readonly string[]) {
  const program = fileURLToPath(programFile("../packages/sandbox/src/main"));
  const child = spawn(process.execPath, [program, ...options, "--exit-with-parent"], {
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: Object.fromEntries(["PATH", "SystemRoot", "NODE_COMPILE_CACHE"].map((name) => [name, env[name]])),
  });
  // Without a free file descriptor, the child has no pipes.
  await once(child, "spawn");
  scope.deferProgram("sandbox", () => endChild(child));
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => {
    text = (text + part).slice(-4000);
  });
  return { child, errorText: () => text.trim() || "no output" };
}

/** Reads the address from the program's first line. */
async function readUrl(stdout: Readable): Promise<string | null> {
  let text = "";
  for await (const chunk of stdout.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    text += chunk;
    if (!text.includes("\n")) continue;
    const { url } = JSON.parse(text);
    return typeof url === "string" ? url : null;
  }
  return null;
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

/** Column of a sample table with its values. */
interface SampleColumn {
  readonly name: string;
  readonly type: "bigint" | "text" | "timestamptz";
  readonly value: (row: SampleInput) => string | null;
}

const joinText = (...parts: readonly (string | null)[]): string | null => {
  const text = parts.filter((part) => part !== null && part.trim() !== "").join(" ");
  return text === "" ? null : text;
};

/** Values of each field's columns, in order; other columns and fields are empty. */
const VALUES: Readonly<Partial<Record<InputField, readonly ((row: SampleInput) => string | null)[]>>> = {
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

/** Creates missing input tables of these jobs in the warehouse, filled with rows for the sandbox. */
export async function createSampleTables(
  config: Config,
  jobs: readonly JobConfig[],
  db: Db,
  { log, notify }: Pick<Context, "log" | "notify">,
): Promise<void> {
  const { seed, people, inputRows: rows } = config.sandbox;
  for (const inputs of groupByTable(jobs.filter(isLookupJob).map((job) => job.input))) {
    const [input] = inputs;
    if (!input) continue;
    const columns = columnsOf(inputs);
    const source = await inputSourceOf(input, Object.keys(input.fields));
    const isNew = await createSampleTable(
      db,
      source,
      columns.map(({ name, type }) => ({ name, type })),
      rowsOf(columns, sampleInputs({ seed, people, rows })),
    );
    if (!isNew) continue;
    log.info({ input: input.name, rows }, "sample_table_created");
    notify(`Created the input table ${tableText(input)} with ${countText(rows, "sample row")}.`);
  }
}

function tableText({ source }: InputConfig): string {
  if (source.kind !== "table") return "";
  return source.schema === null ? source.table : `${source.schema}.${source.table}`;
}

/** Groups inputs that read the same table of the warehouse. */
function groupByTable(inputs: readonly InputConfig[]): readonly (readonly InputConfig[])[] {
  const groups = new Map<string, Set<InputConfig>>();
  for (const input of inputs) {
    if (input.source.kind !== "table" || input.connection !== null) continue;
    const place = JSON.stringify([input.source.schema, input.source.table]);
    groups.set(place, (groups.get(place) ?? new Set()).add(input));
  }
  return [...groups.values()].map((group) => [...group]);
}

/** All columns that the inputs read, without duplicates: key, mapped fields; also `updated_at`, as most tables have it. */
function columnsOf(inputs: readonly InputConfig[]): readonly SampleColumn[] {
  const columns = new Map<string, SampleColumn>();
  const add = (column: SampleColumn) => {
    if (!columns.has(column.name)) columns.set(column.name, column);
  };
  for (const { key } of inputs) {
    // The last key column is unique; those before it are the same for all rows (`[tenant_id, id]`).
    key.forEach((name, i) =>
      add({ name, type: "bigint", value: (row) => (i === key.length - 1 ? String(row.id) : "1") }),
    );
  }
  for (const { fields } of inputs) {
    // The cast restores the key type that Object.entries loses.
    for (const [field, names] of Object.entries(fields) as [InputField, readonly string[]][]) {
      names.forEach((name, i) => add({ name, type: "text", value: VALUES[field]?.[i] ?? (() => null) }));
    }
  }
  add({ name: "updated_at", type: "timestamptz", value: (row) => row.updated_at });
  return [...columns.values()];
}

function* rowsOf(
  columns: readonly SampleColumn[],
  rows: Iterable<SampleInput>,
): Generator<readonly (string | null)[]> {
  for (const row of rows) yield columns.map((column) => column.value(row));
}
