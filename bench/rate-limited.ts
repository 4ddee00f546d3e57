import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { runSql } from "../test/support/run-sql.ts";
import { controlSandbox } from "../test/support/sandbox-control.ts";
import { environmentOf, launcher, writeConfig } from "./enrich-job.ts";
import { measure } from "./measured-process.ts";
import { dropSchemas, setStage, type Stage } from "./stage.ts";

/**
 * Runs the enrich job of the real command line against a service with 300 ms latency that refuses more than R requests per second, and
 * compares its time with the ideal: requests / R + one latency.
 *
 *     npm run bench:rates -- [--seconds 30] [--rates 5,20,50] [--only limits|storms]
 *
 * The second part lets the service refuse everything for some seconds and prints when the rate was back. Needs Linux (/proc).
 */
const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "30" },
    rates: { type: "string", default: "5,20,50" },
    only: { type: "string" },
  },
});
const SECONDS = Number(values.seconds);
const RATES = values.rates.split(",").map(Number);
const LATENCY_MS = 300;
/** The service takes this many records per request, so that requests, not records, are the limit. */
const MOST_RECORDS = 31;
const STORM_SECONDS = 6;
const CALM_SECONDS = 25;
/** The rate counts as restored when this many seconds from then on have 95 % of it. */
const STEADY_SECONDS = 5;
const NAME = "bench_rates";

interface Service {
  readonly rate: number;
  /** `Retry-After` of a 429; null for none. */
  readonly retryAfter: number | null;
  readonly isConfigured: boolean;
}

/** One call of the program's own ledger. */
interface Call {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly status: number;
}

const setFaults = (stage: Stage, faults: string) => controlSandbox(stage.serviceUrl, "/faults", { faults });
const fewRecords = `413=${MOST_RECORDS}`;

async function readCalls(stage: Stage): Promise<readonly Call[]> {
  const rows = await runSql(
    stage.databaseUrl,
    `SELECT extract(epoch FROM started_at) * 1000 AS at, milliseconds AS ms, http_status AS status FROM ${NAME}_ops.api_call ORDER BY started_at`,
  );
  return rows.map(({ at, ms, status }) => ({
    startedAtMs: Number(at),
    endedAtMs: Number(at) + Number(ms),
    status: Number(status),
  }));
}

/** Runs the job over the rows that R requests per second take some seconds for. */
async function runJob(stage: Stage, service: Service, seconds: number) {
  await dropSchemas(stage.databaseUrl, NAME);
  const limit = { requests_per_second: service.rate, retry_after: service.retryAfter };
  await controlSandbox(stage.serviceUrl, "/rate", limit);
  const config = writeConfig(stage, NAME, {
    service: `concurrency: 32${service.isConfigured ? `, requests_per_second: ${service.rate}` : ""}`,
    fields: "first_name: first_name, last_name: last_name, emails: [email, work_email]",
  });
  const env = environmentOf(stage);
  const common = ["--config", config, "--json", "--log-level", "error"];
  await measure(launcher, [...common, "migrate"], env);
  // The first batches are larger, refused and cut.
  const records = String(service.rate * seconds * MOST_RECORDS);
  const run = await measure(launcher, [...common, "run", "--yes", "--max-records", records], env);
  return { seconds: run.seconds, calls: await readCalls(stage) };
}

const isAnswered = ({ status }: Call) => status !== 429;
const round = (value: number, digits: number) => value.toFixed(digits);
const titleOf = ({ rate, retryAfter, isConfigured }: Service) =>
  `${rate}/s, ${isConfigured ? "configured" : `not configured, ${retryAfter === null ? "no Retry-After" : `Retry-After: ${retryAfter}`}`}`;

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function measureLimit(stage: Stage, service: Service): Promise<void> {
  await setFaults(stage, fewRecords);
  const { seconds, calls } = await runJob(stage, service, SECONDS);
  const requests = calls.filter(isAnswered).length;
  const ideal = requests / service.rate + LATENCY_MS / 1000;
  const span = (Math.max(...calls.map((c) => c.endedAtMs)) - (calls[0]?.startedAtMs ?? 0)) / 1000;
  print(
    `| ${titleOf(service)} | ${requests} | ${calls.length - requests} | ${round(ideal, 1)} | ${round(seconds, 1)} | ${round(seconds / ideal, 3)} | ${round(span / ideal, 3)} |`,
  );
}

/** Seconds from the storm's end until the rate is restored; null if it never is. */
function recoveryOf(calls: readonly Call[], rate: number, endMs: number): number | null {
  const answered = calls.filter(isAnswered);
  const needed = 0.95 * rate * STEADY_SECONDS;
  for (let atMs = endMs; atMs < endMs + 30_000; atMs += 100) {
    const until = atMs + STEADY_SECONDS * 1000;
    const count = answered.filter((call) => call.startedAtMs >= atMs && call.startedAtMs < until).length;
    if (count >= needed) return (atMs - endMs) / 1000;
  }
  return null;
}

async function measureStorm(stage: Stage, service: Service): Promise<void> {
  await setFaults(stage, fewRecords);
  const storm = service.retryAfter === null ? "429_bare" : `429=${service.retryAfter}`;
  const running = runJob(stage, service, CALM_SECONDS);
  await delay(12_000);
  const startMs = Date.now();
  await setFaults(stage, storm);
  await delay(STORM_SECONDS * 1000);
  await setFaults(stage, fewRecords);
  const endMs = Date.now();
  const { calls } = await running;
  const refused = calls.filter((c) => c.status === 429 && c.startedAtMs >= startMs && c.startedAtMs < endMs);
  const recovery = recoveryOf(calls, service.rate, endMs);
  print(
    `| ${titleOf(service)} | ${refused.length} | ${recovery === null ? "not" : `${round(recovery, 1)} s`} |`,
  );
}

const rows = Math.max(...RATES) * Math.max(SECONDS, CALM_SECONDS) * MOST_RECORDS * 1.2;
const stage = await setStage(Math.ceil(rows), ["--no-contents", "--latency-ms", String(LATENCY_MS)]);
try {
  const unknown = RATES.flatMap((rate) =>
    [null, 1].map((retryAfter) => ({ rate, retryAfter, isConfigured: false })),
  );
  if (values.only !== "storms") {
    print("| limit of the service | requests | refused | ideal s | s | run / ideal | calls / ideal |");
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (const rate of RATES) await measureLimit(stage, { rate, retryAfter: 1, isConfigured: true });
    for (const service of unknown) await measureLimit(stage, service);
  }
  if (values.only !== "limits") {
    print(`\n| ${STORM_SECONDS} s of 429 | calls in the storm | back at 95 % after |`);
    print("| --- | ---: | ---: |");
    for (const service of unknown) await measureStorm(stage, service);
  }
} finally {
  await stage.close();
}
