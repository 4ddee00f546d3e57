import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import type { CrashPoint } from "../../src/crash-point.ts";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { type CliResult, makeFolder, runCli, type RunningCli, startCli } from "../cli/support/cli.ts";
import { runHereJson } from "../cli/support/in-process.ts";
import { configText, PEOPLE, sampleRows } from "../cli/support/setting.ts";
import { daysToNoon, MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { runSql } from "../support/run-sql.ts";
import { controlSandbox, ledgerAt } from "../support/sandbox-control.ts";
import { type Random, seededRandom, testSeed } from "../support/seeded-random.ts";
import { sized } from "../support/test-size.ts";
import {
  addressesOf,
  checkCopy,
  checkCounts,
  checkReceived,
  checkRows,
  checkSent,
  checkTraces,
  createInput,
  type CustomerRow,
  type Day,
  type Erasure,
  insertRows,
  openDoor,
  presentRows,
  readErased,
  startOwnDatabase,
  type Totals,
} from "./day-support.ts";
import { RUN, STEPS } from "./kill-support.ts";

const FIRST_SEED = testSeed(1);
const SEEDS = Array.from({ length: sized(1, 6) }, (_, i) => FIRST_SEED + i);
const ROUNDS = sized(4, 24);
/** The laws are checked after every nth round, and after the last one. */
const CHECK_EVERY = 4;
/** Rows at the start; others come and go. */
const ROWS = 260;
/** Records of a call at most, by the service's own limit, so that each job makes several calls. */
const SMALL_BATCHES = "413=40";
const CONCURRENCY = 4;
const TIME_LIMIT_MS = 1_800_000;

/** Faults that leave nothing behind once rejected records were sent again. */
const FAULTS = [
  "429=0:0.1",
  "429_date=0:0.1",
  "503:0.1",
  "500:0.05",
  "502:0.05",
  "504:0.05",
  "cut_before:0.05",
  "cut_body:0.06",
  "truncated_json:0.05",
  "reply_lost:0.06",
  "slow=400:0.2",
  "shuffled:0.5",
  "duplicated:0.3",
  "missing:0.15",
  "foreign:0.3",
  "string_too_long:0.05",
  "402=17:0.05@enrich",
  "legacy_errors,500:0.05",
];

const POINTS: readonly CrashPoint[] = [
  ...STEPS,
  "publication_claimed",
  "publication_staged",
  "publication_committed",
  "publication_confirmed",
];

/** A crash point, or a moment as a share of a run. */
type Moment = string | number;

type Round = ReturnType<typeof drawRound>;

/** Draws the events of a round before it begins; null for none. */
function drawRound(random: Random) {
  const some = <T>(share: number, draw: () => T): T | null => (random.chance(share) ? draw() : null);
  const moment = () => 0.1 + 0.8 * random.next();
  const shards = random.chance(0.35) ? 2 : 1;
  const point = (): Moment => `${random.pick(POINTS)}:${random.chance(0.5) ? 1 : 1 + random.below(5)}`;
  return {
    edits: {
      changed: random.below(25),
      added: random.below(20),
      deleted: random.below(10),
      back: random.below(8),
      equal: random.below(4),
      shared: random.below(2),
    },
    faults: random.chance(0.6) ? Array.from({ length: 3 }, () => random.pick(FAULTS)) : [],
    /** Records of enrich beyond those of the day so far. */
    budget: some(0.35, () => 2 + random.below(15)),
    shards,
    kill: some(0.6, () => ({
      process: random.below(shards),
      at: random.chance(0.5) ? point() : moment(),
    })),
    crash: some(0.25, () => ({ at: moment(), downMs: 100 + random.below(900) })),
    cuts: some(0.3, () => ({ at: moment(), times: 5 + random.below(20), everyMs: 10 + random.below(100) })),
    erasure: some(0.5, () => ({
      by: random.pick(["pid", "email", "source-key"] as const),
      /** A moment of the run; null for an erasure before it. */
      at: some(0.6, moment),
      killedAt: some(
        0.3,
        (): Moment => (random.chance(0.5) ? random.pick(["after_erasure_noted", "after_erasure"]) : moment()),
      ),
    })),
  };
}

/** A day with what a simulation of it needs. */
interface Simulation extends Day {
  readonly random: Random;
  /** Expected duration of a run that has something to do, on this machine and under its load. */
  runMs: number;
}

const pool: readonly CustomerRow[] = sampleRows(1500).map((row) => {
  const { id, first_name, last_name, email, work_email, phone, city } = row;
  return { id, first_name, last_name, email, work_email, phone, city };
});

async function openDay(seed: number): Promise<Simulation> {
  const service = await startSandbox({ people: PEOPLE, latencyMs: 60 });
  onTestFinished(() => service.close());
  await controlSandbox(service.url, "/clock", { days: daysToNoon() });
  const server = await startOwnDatabase();
  const rows = pool.slice(0, ROWS);
  await createInput(server.url, rows);
  const counts = { rounds: 0, kills: 0, serverCrashes: 0, cutSessions: 0, erasures: 0 };
  const outcome = { records: 0, sentTwice: 0, mostSentTwice: 0, lost: 0, doubled: 0, leftAfterErasure: 0 };
  return {
    random: seededRandom(seed),
    server,
    sandbox: service.url,
    door: await openDoor(service.url),
    setting: {
      cwd: await makeFolder(),
      env: { WAREHOUSE_URL: server.url, PERSON_SERVICE_API_KEY: "k" },
      url: server.url,
      query: (sql) => runSql(server.url, sql),
    },
    input: new Map(rows.map((row) => [row.id, { versions: [row], copies: 1 }])),
    erasures: [],
    killed: new Map(),
    runMs: 0,
    broken: [],
    totals: { seed, ...counts, ...outcome },
  };
}

/** Sets faults of the service and the budget. */
async function arrange(day: Simulation, faults: readonly string[], budget: number | null): Promise<void> {
  await controlSandbox(day.sandbox, "/faults", { faults: [SMALL_BATCHES, ...faults].join(",") });
  const more = [
    "publish: { local: { type: duckdb, path: people.duckdb } }\n",
    ...(budget === null ? [] : [`budgets: { enrich: { per_day: ${budget} } }\n`]),
  ];
  const service = `  concurrency: ${CONCURRENCY}\n`;
  const text = configText({ baseUrl: day.door.url, service }) + more.join("");
  await writeFile(join(day.setting.cwd, "config.yaml"), text);
}

function times(count: number, act: () => void): void {
  for (let left = count; left > 0; left -= 1) act();
}

async function editInput(day: Simulation, { edits }: Round): Promise<void> {
  const { random, input } = day;
  const touched = new Set<number>();
  const put = (row: CustomerRow): void => {
    const { versions, copies } = input.get(row.id) ?? { versions: [], copies: 0 };
    input.set(row.id, { versions: [...versions, row], copies: Math.max(1, copies) });
    touched.add(row.id);
  };
  const addCopies = ({ id }: CustomerRow, copies: number): void => {
    const customer = input.get(id);
    if (customer) customer.copies = Math.max(0, customer.copies + copies);
    touched.add(id);
  };
  const some = () => random.pick(presentRows(day));
  let id = Math.max(...input.keys());
  times(edits.changed, () => {
    const [row, { id: _, ...other }] = [some(), random.pick(pool)];
    const { email, work_email, phone, city } = other;
    put({ ...row, ...random.pick([{ email }, { work_email }, { phone }, { city }, other]) });
  });
  times(edits.added, () => put({ ...random.pick(pool), id: (id += 1) }));
  times(edits.equal, () => put({ ...some(), id: (id += 1) }));
  times(edits.deleted, () => addCopies(some(), -9));
  times(edits.shared, () => addCopies(some(), 1));
  times(edits.back, () => {
    const former = [...input.values()].flatMap(({ versions, copies }) =>
      versions.slice(0, copies === 0 ? undefined : -1),
    );
    if (former.length > 0) put(random.pick(former));
  });
  const keys = [...touched, 0].join(", ");
  await day.setting.query(`DELETE FROM crm.customers WHERE id IN (${keys})`);
  const rows = presentRows(day, { copies: true });
  await insertRows(
    day.setting.url,
    rows.filter((row) => touched.has(row.id)),
  );
}

/** A process may be killed, end at what happens, or find another one at work, but reports no internal error. */
function checkEnd(day: Day, name: string, { code, stdout, stderr }: CliResult): void {
  const isExpected = code === null || [0, 1, 3, 4].includes(code);
  if (!isExpected || stdout.includes('"code":"internal"'))
    day.broken.push(`${name} ended with ${code}: ${stdout.slice(-1500)} ${stderr.slice(-1500)}`);
}

/** Starts a command that is killed at a moment, or never. */
function start(day: Simulation, args: readonly string[], at: Moment | null): RunningCli {
  const { cwd, env } = day.setting;
  const running = startCli(args, {
    cwd,
    env: typeof at === "string" ? { ...env, PERSON_ETL_CRASH_AT: at } : env,
  });
  if (typeof at === "number") {
    const timer = setTimeout(() => running.child.kill("SIGKILL"), at * day.runMs);
    void running.result.then(() => clearTimeout(timer));
  }
  return running;
}

async function drawErasure({ random, setting, ...day }: Simulation, by: Erasure["by"]): Promise<Erasure> {
  const row = random.pick(presentRows(day).filter((one) => addressesOf(one).length > 0));
  const [address = ""] = addressesOf(row);
  if (by === "source-key") return { by, value: String(row.id), addresses: new Set(addressesOf(row)) };
  const known = await setting.query(
    "SELECT DISTINCT service_pid AS pid FROM person_data.resolution WHERE is_present ORDER BY 1",
  );
  if (by === "email" || known.length === 0) return { by: "email", value: address, addresses: new Set() };
  return { by, value: String(random.pick(known)["pid"]), addresses: new Set() };
}

/** Erases somebody; repeats the command until it is accepted. */
async function erase(day: Simulation, erasure: Erasure, killedAt: Moment | null): Promise<void> {
  day.erasures.push(erasure);
  day.totals.erasures += 1;
  const what = erasure.by === "source-key" ? `customers/${erasure.value}` : erasure.value;
  const args = ["--json", "erase", `--${erasure.by}`, what, "--yes", "--ignore-missing"];
  for (const at of [killedAt, ...Array.from({ length: 10 }, () => null)]) {
    const { child, result } = start(day, args, at);
    const ended = await result;
    checkEnd(day, "erase", ended);
    if (child.signalCode === "SIGKILL") day.totals.kills += 1;
    if (ended.code !== 0 && ended.code !== 3) continue;
    // The command's receipt; addresses that others have stay.
    const receipt = JSON.parse(ended.stdout) as { readonly shared_email_addresses?: readonly string[] };
    for (const address of receipt.shared_email_addresses ?? [])
      erasure.addresses.delete(address.trim().toLowerCase());
    return;
  }
  day.broken.push(`an erasure by ${erasure.by} was never accepted`);
}

async function cutSessions(
  day: Simulation,
  { at, times, everyMs }: NonNullable<Round["cuts"]>,
): Promise<void> {
  await delay(at * day.runMs);
  for (let left = times; left > 0; left -= 1) {
    const cut = await day.setting
      .query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`)
      // The server may be down.
      .catch(() => []);
    day.totals.cutSessions += cut.length;
    await delay(everyMs);
  }
}

async function crashServer(day: Simulation, { at, downMs }: NonNullable<Round["crash"]>): Promise<void> {
  await delay(at * day.runMs);
  await day.server.crash(downMs);
  day.totals.serverCrashes += 1;
}

async function play(day: Simulation, round: Round): Promise<void> {
  const { setting, totals, door } = day;
  const { shards, kill, crash, cuts, erasure: erasing } = round;
  await editInput(day, round);
  const [used] = await setting.query(`SELECT coalesce(max(records_reserved), 0)::int AS records
    FROM person_data_state.budget_use WHERE budget = 'enrich' AND period = 'day'`);
  await arrange(day, round.faults, round.budget && Number(used?.["records"]) + round.budget);
  const erasure = erasing && (await drawErasure(day, erasing.by));
  if (erasure && erasing?.at === null) await erase(day, erasure, erasing.killedAt);

  const runs = Array.from({ length: shards }, (_, index) => {
    const shard = ["--shard", `${index}/${shards}`, "--run-id", `round-${door.round}`];
    return start(day, [...RUN, ...(shards === 1 ? [] : shard)], kill?.process === index ? kill.at : null);
  });
  const eraseLater = async (how: NonNullable<Round["erasure"]>, at: number) => {
    await delay(at * day.runMs);
    if (erasure) await erase(day, erasure, how.killedAt);
  };
  await Promise.all([
    ...(crash ? [crashServer(day, crash)] : []),
    ...(cuts ? [cutSessions(day, cuts)] : []),
    ...(typeof erasing?.at === "number" ? [eraseLater(erasing, erasing.at)] : []),
    ...runs.map(async ({ child, result }) => {
      checkEnd(day, "a run", await result);
      if (child.signalCode !== "SIGKILL") return;
      totals.kills += 1;
      day.killed.set(door.round, (day.killed.get(door.round) ?? 0) + 1);
    }),
  ]);
}

/** Records of enrich that were billed so far. */
const readBilled = async ({ sandbox }: Day) =>
  (await ledgerAt(sandbox)).endpoints["POST /v2/enrich"]?.billed ?? 0;

const today = () => new Date().toISOString().slice(0, 10);

async function runUntilDone(day: Simulation): Promise<void> {
  for (let left = 10; left > 0; left -= 1) {
    const { code, stdout } = await runCli(RUN, day.setting);
    if (code === 0) return;
    if (left === 1) day.broken.push(`an undisturbed run ended with ${code}: ${stdout.slice(-3000)}`);
  }
}

/** Runs once more when nothing is due; from that follows how long a run takes. */
async function runQuietly(day: Simulation): Promise<void> {
  const calls = day.door.calls.length;
  const startedMs = performance.now();
  await runUntilDone(day);
  day.runMs = 1.5 * (performance.now() - startedMs);
  if (day.door.calls.length > calls) day.broken.push("a run without anything due made calls");
}

/** Runs without disturbance until nothing is due, rejected records included, and checks every law. */
async function settle(day: Simulation): Promise<void> {
  const { setting, door } = day;
  const from = door.calls.length;
  await arrange(day, [], null);
  await runUntilDone(day);
  const rejects = await setting.query(
    "SELECT FROM person_data.reject WHERE resolved_at IS NULL AND stage <> 'input' LIMIT 1",
  );
  if (rejects.length > 0) {
    await runHereJson(["rejects", "retry", "--yes"], setting);
    await runUntilDone(day);
  }
  await runQuietly(day);
  const erased = await readErased(day);
  checkSent(day, erased, door.calls.slice(from));
  await checkCopy(day);
  await checkTraces(day, erased);
  await checkReceived(day, CONCURRENCY);
  await checkRows(day, erased);
  await checkCounts(day);
}

const days: Totals[] = [];

test.each(SEEDS)(
  "a day of kills, crashes, cut sessions, faults and erasures loses and doubles nothing (seed %i)",
  async (seed) => {
    await passMidnight();
    const date = today();
    const day = await openDay(seed);
    const { totals, door, broken } = day;
    days.push(totals);
    onTestFinished(() => void process.stdout.write(`a day: ${JSON.stringify(totals)}\n`));
    await arrange(day, [], null);
    await runUntilDone(day);
    await runQuietly(day);
    for (let number = 1; number <= ROUNDS; number++) {
      const round = drawRound(day.random);
      door.round = number;
      const [erased, from] = [await readErased(day), door.calls.length];
      const billedBefore = await readBilled(day);
      await play(day, round);
      const billed = (await readBilled(day)) - billedBefore;
      // A budget is kept, whatever happened.
      if (round.budget !== null && today() === date && billed > round.budget)
        broken.push(`${billed} records of enrich were billed under a budget of ${round.budget}`);
      checkSent(day, erased, door.calls.slice(from));
      if (number % CHECK_EVERY === 0 || number === ROUNDS) await settle(day);
      totals.rounds = number;
      expect(broken, `seed ${seed}, round ${number}: ${JSON.stringify(round)}`).toEqual([]);
    }
    expect([totals.lost, totals.doubled, totals.leftAfterErasure]).toEqual([0, 0, 0]);
  },
  TIME_LIMIT_MS + MIDNIGHT_TIMEOUT_MS,
);

test("every kind of event took place", () => {
  const names = sized(["kills"] as const, ["kills", "serverCrashes", "cutSessions", "erasures"] as const);
  expect(names.filter((name) => days.every((totals) => totals[name] === 0))).toEqual([]);
});
