import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Client } from "pg";
import { checkout, runEnrichJob, writeConfig } from "./enrich-job.ts";
import { type Figures, round } from "./figures.ts";
import { cpuSeconds } from "./process-tree.ts";
import { dropSchemas, setStage, type Stage } from "./stage.ts";

/**
 * Shows where the time of a first night goes, and of a night in which everybody is sent again: in Node by its CPU profile,
 * in Postgres by samples of the statements that run, and on the cores by process. Prints the shares of which docs/performance.md has
 * the largest.
 *
 *     npm run bench:profile -- [--people 20000]
 */
const { values } = parseArgs({ options: { people: { type: "string", default: "20000" } } });

const SCHEMA = "bench_profile";
const SAMPLE_EVERY_MS = 20;
/** Share of the cores that the service uses while it is sent records. */
const SENDING = 0.1;

/** A kind of work, and the text by which it is recognized. The first that fits counts. */
type Kind = readonly [what: string, text: RegExp];

/** By function and file. */
const clientKinds: readonly Kind[] = [
  ["garbage collector", /^\(garbage/u],
  ["writing to sockets", /^(writeBuffer|writev|write\w*String) /u],
  [
    "parsing JSON",
    /src\/extract\/(json|read-answer|answer-body)|^RegExp: \[\[:,|^utf8Slice|buffer:.*toString/u,
  ],
  [
    "encoding rows for COPY",
    /^(write(Cell|Row|Escaped)|reserve|encodeRows|decodeRows|joinRows|bytesOf|add) .*person-groups/u,
  ],
  ["flattening and converting values", /src\/schemas\/|jobs\/lookup\/(lookup-types|answer-rows)/u],
  ["hashes", /crypto|person-groups|src\/spool\/spool.*(hash|encode)/u],
  ["loading: state, drivers of Postgres", /src\/load\/|node_modules\/(pg|kysely)/u],
  ["calls: HTTP, batches, decompression", /undici|src\/extract\/|zlib/u],
  ["spool", /src\/spool|internal\/fs|^(open\w*|close|read|fsync|rename|unlink|rm\w*|writeFile\w*|lstat) :/u],
  [
    "start: reading and compiling modules",
    /modules|bootstrap|^(ModuleWrap|compile|wrapSafe|\(anon\) :)|commander|zod/u,
  ],
];

/** By the start of the statement. */
const serverKinds: readonly Kind[] = [
  ["COPY of people", new RegExp(`^COPY "${SCHEMA}"`, "u")],
  [
    "answers, history and states of rows",
    /^\s*WITH (?:staged|changed) |"enrichment"|"lookup_answer"|"match_history"/u,
  ],
  ["states of people", /person_state/u],
  ["selection of due rows", /pg_temp|"(touched|seen|due)"|lookup_due|crm/u],
  ["calls, budgets and counters", /api_call|budget_use|sync_run|table_load|^WITH wanted/u],
  ["COMMIT", /^COMMIT/u],
];

const kindOf = (kinds: readonly Kind[], text: string) =>
  kinds.find(([, re]) => re.test(text))?.[0] ?? "other";

/** Amounts by kind. */
type Shares = Map<string, number>;

function add(shares: Shares, kind: string, amount: number): void {
  shares.set(kind, (shares.get(kind) ?? 0) + amount);
}

/** The part of V8's profile that is read here. */
interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
  }[];
  /** Node that ran, by sample. */
  readonly samples: readonly number[];
  /** Microseconds. */
  readonly timeDeltas: readonly number[];
}

function sharesOf({ nodes, samples, timeDeltas }: CpuProfile): Shares {
  const names = new Map(
    nodes.map(({ id, callFrame: { functionName, url } }) => [id, `${functionName || "(anon)"} ${url}:`]),
  );
  const shares: Shares = new Map();
  for (const [i, id] of samples.entries()) {
    const name = names.get(id) ?? "";
    if (!name.startsWith("(idle)")) add(shares, kindOf(clientKinds, name), timeDeltas[i] ?? 0);
  }
  return shares;
}

/** Aborted when the work has ended. */
function endOf(work: Promise<unknown>): AbortSignal {
  const ending = new AbortController();
  const end = () => ending.abort();
  void work.then(end, end);
  return ending.signal;
}

/** Counts the statements that use a CPU until the work has ended. */
async function sampleServer(url: string, work: Promise<unknown>): Promise<Shares> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const shares: Shares = new Map();
  const ended = endOf(work);
  while (!ended.aborted) {
    const { rows } = await client.query<{ query: string }>(
      `SELECT btrim(regexp_replace(query, '\\s+', ' ', 'g')) AS query FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND state = 'active' AND wait_event IS NULL`,
    );
    for (const { query } of rows) add(shares, kindOf(serverKinds, query), 1);
    await delay(SAMPLE_EVERY_MS);
  }
  await client.end();
  return shares;
}

/** CPU seconds so far. */
interface Ticks {
  readonly service: number;
  readonly server: number;
  readonly idle: number;
  readonly total: number;
}

function readTicks({ servicePid, postmasterPid }: Stage): Ticks {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n", 1);
  const fields = line.trim().split(/\s+/u).slice(1).map(Number);
  return {
    service: cpuSeconds(servicePid),
    server: postmasterPid === null ? 0 : cpuSeconds(postmasterPid),
    idle: ((fields[3] ?? 0) + (fields[4] ?? 0)) / 100,
    total: fields.reduce((sum, field) => sum + field, 0) / 100,
  };
}

/** Samples the cores every second; prints the mean of the seconds in which the service was busy. */
async function sampleCores(stage: Stage, work: Promise<unknown>): Promise<string> {
  const ended = endOf(work);
  const sum = { service: 0, server: 0, idle: 0, total: 0 };
  for (let before = readTicks(stage); !ended.aborted; ) {
    await delay(1000);
    const after = readTicks(stage);
    const names = ["service", "server", "idle", "total"] as const;
    if ((after.service - before.service) / (after.total - before.total) > SENDING)
      for (const name of names) sum[name] += after[name] - before[name];
    before = after;
  }
  const share = (amount: number) => `${Math.round((amount / sum.total) * 100)}%`;
  const node = sum.total - sum.service - sum.server - sum.idle;
  return `cores while sending: Node ${share(node)}, Postgres ${share(sum.server)}, the service ${share(sum.service)}, idle ${share(sum.idle)}`;
}

function printShares(title: string, seconds: number | null, shares: Shares): void {
  const total = [...shares.values()].reduce((sum, amount) => sum + amount, 0);
  process.stdout.write(`\n| ${title} | s per 1,000 | % |\n| --- | --- | --- |\n`);
  for (const [kind, amount] of [...shares].toSorted(([, a], [, b]) => b - a)) {
    const part = amount / total;
    process.stdout.write(`| ${kind} | ${round(part * (seconds ?? 0), 3)} | ${round(part * 100)} |\n`);
  }
}

async function profileNight(
  stage: Stage,
  what: string,
  config: string,
  extra: readonly string[],
): Promise<void> {
  const folder = mkdtempSync(join(stage.folder, "profile-"));
  process.env["NODE_OPTIONS"] = `--cpu-prof --cpu-prof-dir=${folder}`;
  const night: Promise<Figures> = runEnrichJob(stage, what, config, extra, checkout);
  const [figures, server, cores] = await Promise.all([
    night,
    sampleServer(stage.databaseUrl, night),
    sampleCores(stage, night),
  ]);
  delete process.env["NODE_OPTIONS"];
  const [file = ""] = readdirSync(folder);
  // Written by Node.
  const profile = JSON.parse(readFileSync(join(folder, file), "utf8")) as CpuProfile;
  process.stdout.write(
    `\n${what}: ${figures.people} people, ${figures.people_per_second} people/s\n${cores}\n`,
  );
  printShares("Node", figures.client_cpu_per_1000, sharesOf(profile));
  printShares("Postgres", figures.server_cpu_per_1000, server);
}

const stage = await setStage(Number(values.people));
try {
  await dropSchemas(stage.databaseUrl, SCHEMA);
  const config = writeConfig(stage, SCHEMA);
  await profileNight(stage, "first night", config, []);
  await profileNight(stage, "everybody sent again, nothing changed", config, ["--resend"]);
} finally {
  await stage.close();
}
