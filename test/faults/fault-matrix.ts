import { openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import type { JobReport } from "../../src/jobs/job.ts";
import { configOf, fastClock, startWorld, threeJobs, type World } from "../jobs/world.ts";
import { unaccounted } from "../nights/night.ts";
import { findDifferences, MEMORY, readContents, type TableContents } from "../support/comparable-tables.ts";
import { daysToNoon } from "../support/held-day.ts";
import { ledgerAt } from "../support/sandbox-control.ts";
import { parseFaults } from "../../packages/sandbox/src/start-sandbox.ts";
import { findExceeded, findWrongCharges, findWrongTotals, PER_DAY } from "./totals.ts";
import type { Aftermath } from "./fault-cases.ts";
import { withoutRejected } from "./rejected-rows.ts";

/** A disturbance of some nights. */
export interface Disturbance {
  readonly faults: string;
  readonly aftermath: readonly Aftermath[];
  readonly mayBillTwice: boolean;
  /** Seed of the sandbox's chances. */
  readonly seed?: number;
  /** Longest wait of a call for headers, and between two pieces of a body. */
  readonly readTimeoutMs?: number;
  /** Further controls of the sandbox, before the first night. */
  readonly before?: (world: World) => Promise<void>;
}

const ROWS = 360;
const PEOPLE = 3000;
const SEED = 21;
const MOST_RUNS = 8;
const BUDGETS = `budgets: { ${Object.entries(PER_DAY)
  .map(([type, perDay]) => `${type}: { per_day: ${perDay} }`)
  .join(", ")} }`;

function contentsOf({ url }: World, { aftermath }: Disturbance): Promise<TableContents> {
  if (aftermath.every((left) => left === "nothing")) return readContents(url);
  // A row whose earlier answer was rejected sends another content to the next job.
  return readContents(url, {
    withoutTables: ["reject", "match_history", "person_history", "lookup_answer"],
    withoutColumns: [...MEMORY, "call_number", "group_call_numbers", "valid_to"],
  });
}

/** Runs all jobs once; returns the problems of the report. */
async function runOnce(
  world: World,
  { readTimeoutMs }: Disturbance,
  resend = false,
): Promise<{ jobs: readonly JobReport[]; defects: string[] }> {
  const clock = fastClock(300);
  const concurrency = 3;
  const http = openHttpClient({
    baseUrl: world.serviceUrl,
    readKey: async () => "test-key",
    concurrency,
    ...(readTimeoutMs === undefined ? {} : { readTimeoutMs }),
  });
  try {
    const report = await world.run(
      { resend, yes: true },
      { clock, http, limiter: createLimiter({ concurrency, requestsPerSecond: null, clock }) },
    );
    const internal = report.jobs.flatMap(({ job, error }) =>
      error?.code === "internal" ? [`${job}: ${error.message}`] : [],
    );
    return { jobs: report.jobs, defects: [...unaccounted(report), ...internal] };
  } finally {
    await http.close();
  }
}

/** Small batches, set by the service's own limit, make many calls with few records. */
const SMALL_BATCHES = { fault: "413", rate: 1, value: "24" };

/** Applies faults, in addition to the limit on batches; the seed determines their chances. */
async function setFaults(world: World, faults: string, seed: number): Promise<void> {
  const plan = parseFaults(faults).map((rule) => ({ ...rule, seed }));
  await world.control("/faults", { faults: [...plan, SMALL_BATCHES] });
}

/** Runs until nothing is due. */
async function recover(world: World, disturbance: Disturbance): Promise<string[]> {
  const defects: string[] = [];
  for (let run = 1; run <= MOST_RUNS; run++) {
    const { jobs, defects: wrong } = await runOnce(world, disturbance);
    defects.push(...wrong);
    if (jobs.every(({ status, records_sent }) => status === "succeeded" && records_sent === 0))
      return defects;
  }
  return [...defects, `${MOST_RUNS} runs without faults still left something to send`];
}

async function startFaultyWorld(): Promise<World> {
  const world = await startWorld({ rows: ROWS, people: PEOPLE, seed: SEED });
  await world.control("/clock", { days: daysToNoon() });
  return world;
}

const undisturbed = new Map<boolean, Promise<TableContents>>();

/** Tables after a run without faults; created once for all cases. */
function expectedFor(disturbance: Disturbance): Promise<TableContents> {
  const isSame = disturbance.aftermath.every((left) => left === "nothing");
  const known = undisturbed.get(isSame) ?? runUndisturbed(disturbance);
  undisturbed.set(isSame, known);
  return known;
}

async function runUndisturbed(disturbance: Disturbance): Promise<TableContents> {
  const world = await startFaultyWorld();
  await setFaults(world, "", SEED);
  const defects = await recover(world, disturbance);
  if (defects.length > 0) throw new Error(`the undisturbed run: ${defects.join("; ")}`);
  const contents = await contentsOf(world, disturbance);
  await world.close();
  return contents;
}

/** Runs two nights with faults, then as many as necessary without; returns the problems at the end. */
export async function disturb(disturbance: Disturbance) {
  const { aftermath } = disturbance;
  const expected = await expectedFor(disturbance);
  const world = await startFaultyWorld();
  await setFaults(world, disturbance.faults, disturbance.seed ?? SEED);
  await disturbance.before?.(world);
  const defects: string[] = [];
  world.configure(configOf(threeJobs, BUDGETS));
  for (let nights = 0; nights < 2; nights++) defects.push(...(await runOnce(world, disturbance)).defects);
  const { endpoints } = await ledgerAt(world.sandbox.url);
  defects.push(...(await findExceeded(world)));
  world.configure(configOf(threeJobs));
  await setFaults(world, "", SEED);
  await world.control("/capacity", { records: null });
  defects.push(...(await recover(world, disturbance)));
  const { requests, contents } = await ledgerAt(world.sandbox.url);
  defects.push(
    ...(await findWrongTotals(world, disturbance.mayBillTwice)),
    ...(await findWrongCharges(world)),
  );
  if (aftermath.includes("values")) defects.push(...(await runOnce(world, disturbance, true)).defects);
  const actual = await contentsOf(world, disturbance);
  const [wanted, found] = aftermath.includes("rejects")
    ? await withoutRejected(world, expected, actual)
    : [expected, actual];
  const differences = findDifferences(wanted, found);
  await world.close();
  const hits: Record<string, number> = {};
  for (const { faults } of Object.values(endpoints)) {
    for (const [name, times] of Object.entries(faults)) hits[name] = (hits[name] ?? 0) + times;
  }
  return {
    defects: [...defects, ...differences],
    /** Faults that hit a request, by name. */
    hits,
    requests,
    /** Distinct records that the service received. */
    records: contents.distinct_records,
    /** Rows that are missing or differ from a run without faults. */
    lost: differences.length,
    billedTwice: contents.billed_again,
  };
}
