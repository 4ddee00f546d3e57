import { expect, test } from "vitest";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

const jobs = `
  resolve_customers: { type: resolve, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, return_fields: [age] }`;
const names = ["resolve_customers", "enrich_customers"] as const;

const ROWS = 900;

/** Share of the rows before this one, 0 to 1: the older a row, the lower. */
const AGE = `id::float8 / ${ROWS}`;
/** A number from 0 to 1 by row and seed. */
const dice = (seed: number) => `(('x' || left(md5(id::text || '/${seed}'), 7))::bit(28)::int / 268435456.0)`;
/** Makes a row one of nobody in the population; equal numbers make equal rows. */
const stranger = (number: string) =>
  `email = NULL, work_email = NULL, linkedin = NULL, street = NULL, phone = '+1900' || 5550000 + ${number},
    first_name = 'Guest', last_name = 'Guest' || ${number}`;

/** Populations as CRMs have them. */
const shapes: readonly ((seed: number) => string)[] = [
  () => "SELECT 1",
  // Old rows are out of date: their match rate grows from 35 % to the full one.
  (seed) => `UPDATE crm.customers SET ${stranger("id")} WHERE ${dice(seed)} > 0.4 + 0.6 * ${AGE}`,
  // A tenth has no name, so resolve rejects it; mostly new rows from a newsletter.
  (seed) => `UPDATE crm.customers SET first_name = NULL, last_name = NULL WHERE ${dice(seed)} < 0.2 * ${AGE}`,
  // An import of people that the service doesn't have, three times.
  () => `UPDATE crm.customers SET ${stranger("id / 3")} WHERE id BETWEEN 200 AND 400`,
];

/** Compares the plan after a trial with the full run that follows, by job; widths are shares of the records sent. */
async function tryThenRun(world: World, seed: number, trial: number) {
  await world.rows(shapes[seed % shapes.length]?.(seed) ?? "");
  await world.run({ maxRecords: trial });
  const { jobs: plans } = await planJobs(await world.services(), []);
  const report = await world.run();
  return names.map((name) => {
    const plan = plans.find(({ job }) => job === name);
    const { records_matched: matched, records_sent: sent } = jobOf(report, name);
    const { low = 0, high = 0 } = plan?.estimated_billable ?? {};
    return { name, isCovered: low <= matched && matched <= high, width: (high - low) / sent };
  });
}

test("the range of a plan after a trial holds the outcome of the full run in 20 populations", async () => {
  const found = [];
  for (let seed = 1; seed <= 20; seed++) {
    const world = await startWorld({ rows: ROWS, seed, config: configOf(jobs) });
    found.push(...(await tryThenRun(world, seed, seed % 2 === 0 ? 200 : 100)));
    await world.close();
  }
  for (const name of names) {
    const ofJob = found.filter((one) => one.name === name);
    expect(ofJob.filter(({ isCovered }) => isCovered).length).toBeGreaterThanOrEqual(18);
    // A range from none to all would hold every outcome.
    const widths = ofJob.map(({ width }) => width).toSorted((a, b) => a - b);
    expect(widths[10]).toBeLessThan(0.25);
    expect(widths.at(-1)).toBeLessThan(0.35);
  }
});
