import { beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { readPlanLeft, reportCosts } from "../../src/jobs/report/costs.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { planJobs } from "../../src/jobs/report/plan.ts";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { configOf, jobOf, startWorld, type World } from "./world.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";

async function billedBySandbox(world: World, path = "/v2/enrich"): Promise<number> {
  const { endpoints } = await world.control<{ endpoints: Record<string, { billed: number }> }>("/ledger");
  return Object.entries(endpoints)
    .filter(([endpoint]) => endpoint.endsWith(path))
    .reduce((sum, [, { billed }]) => sum + billed, 0);
}

/** 60 records included in each month, further ones at $0.12, and at $0.08 after the first 150. */
const contract =
  "prices: { currency: USD, enrich: { amount: 0.10, per: match, included_per_month: 60, overage: 0.12, tiers: [{ from: 150, amount: 0.08 }] } }";

/** The invoice of that contract in dollars, record by record. */
function invoiceOf(records: number): number {
  let cents = 0;
  for (let i = 1; i <= records; i++) cents += i <= 60 ? 0 : i <= 150 ? 12 : 8;
  return cents / 100;
}

/** Moves the calls of today to the night of a day in March 2026. */
const moveTo = (world: World, day: number) =>
  world.rows(`UPDATE person_data_ops.api_call SET reserved_at = '2026-03-${String(day).padStart(2, "0")} 01:15Z'::timestamptz
    + (call_number % 1000) * interval '1 second' WHERE reserved_at > '2026-04-01'`);

const costsOf = async (world: World, month: string) =>
  reportCosts({ ...(await world.services()), clock: systemClock }, month);

const line = (price: number, records_billed: number, amount: number) => ({
  endpoint: "v2/enrich",
  job: "enrich_customers",
  billed: "match",
  price,
  currency: "USD",
  records_billed,
  amount,
  possibly_billed: 0,
  possibly_billed_amount: 0,
});

test("a month of nights with failures and resends costs what its contract bills, and each record in doubt is named", async () => {
  const world = await startWorld({ rows: 60, people: 20_000, config: configOf(enrichOnly, contract) });
  const nights = ["", "503:0.5", "", "429:0.5", ""];
  const billed: number[] = [];
  for (const [i, faults] of nights.entries()) {
    await world.control("/faults", { faults });
    await world.run(i === 0 ? {} : { resend: true, yes: true });
    await moveTo(world, 1 + 7 * i);
    billed.push(await billedBySandbox(world));
  }
  const invoiced = billed.at(-1) ?? 0;
  expect(invoiced).toBeGreaterThan(150);
  const march = await costsOf(world, "2026-03");
  expect(march).toMatchObject({
    month: "2026-03",
    is_over: true,
    currency: "USD",
    amount: invoiceOf(invoiced),
    amount_at_most: invoiceOf(invoiced),
    records_billed: invoiced,
    possibly_billed: 0,
  });
  const cheap = invoiced - 150;
  expect(march.lines).toEqual([line(0, 60, 0), line(0.08, cheap, (cheap * 8) / 100), line(0.12, 90, 10.8)]);
  // Each night has what it added to the invoice.
  const days = await world.rows(
    "SELECT day, trim_scale(sum(amount)) AS amount FROM person_data_ops.cost_daily GROUP BY 1 ORDER BY 1",
  );
  expect(days.map(({ amount }) => Number(amount))).toEqual(
    billed.map((records, i) => Number((invoiceOf(records) - invoiceOf(billed[i - 1] ?? 0)).toFixed(2))),
  );

  await world.control("/faults", { faults: "reply_lost:1@enrich#1-30,missing:1" });
  await world.run({ resend: true, yes: true });
  // Earlier than others: what is in doubt takes no allowance from them.
  await moveTo(world, 2);
  const real = invoiceOf(await billedBySandbox(world));
  const doubtful = await costsOf(world, "2026-03");
  expect(doubtful.possibly_billed).toBeGreaterThan(0);
  expect(doubtful.amount).toBe(invoiceOf(doubtful.records_billed));
  expect(doubtful.amount_at_most).toBe(invoiceOf(doubtful.records_billed + doubtful.possibly_billed));
  expect(doubtful.amount).toBeLessThanOrEqual(real);
  expect(doubtful.amount_at_most).toBeGreaterThanOrEqual(real);
  expect(doubtful.unknown[0]).toContain(`${doubtful.possibly_billed} records of enrich_customers`);

  // April begins a new allowance.
  expect(await costsOf(world, "2026-04")).toMatchObject({ records_billed: 0, amount: 0, lines: [] });
  expect((await readStatus(await world.services())).plan_left).toMatchObject([
    { of: "enrich", basis: "included_per_month", limit: 60, used: 0, left: 60 },
  ]);
});

test.each([
  ["enrich", "/v2/enrich", "record"],
  ["enrich", "/v2/enrich", "match"],
  ["validate_emails", "/v2/validate_emails", "match"],
] as const)("%s costs what a service bills on %s by %s", async (type, path, per) => {
  const job = `\n  job: { type: ${type}, input: customers }`;
  const config = configOf(job, `prices: { currency: USD, ${type}: { amount: 0.10, per: ${per} } }`);
  const world = await startWorld({ rows: 60, people: 20_000, config });
  await world.control("/billing", { path, per });
  const planned = await planJobs({ ...(await world.services()), clock: systemClock }, []);
  expect(planned).toMatchObject({
    assumption: "",
    jobs: [{ estimated_billable: { low: per === "record" ? 60 : 0 } }],
  });
  const { cost } = await world.run();
  const billed = await billedBySandbox(world, path);
  expect(cost).toMatchObject({
    records_billed: billed,
    amount: Number((billed * 0.1).toFixed(2)),
    possibly_billed: 0,
  });
});

test("what a price doesn't state is called an assumption", async () => {
  const config = configOf(enrichOnly, "prices: { currency: USD, enrich: 0.10 }");
  const world = await startWorld({ rows: 10, config });
  await world.run();
  const assumption =
    "Assumed to be billed: enrich each match. Compare with an invoice, then set prices.enrich.per.";
  const month = new Date().toISOString().slice(0, 7);
  expect((await costsOf(world, month)).unknown).toContain(assumption);
  expect(await planJobs(await world.services(), [])).toMatchObject({ assumption });
});

test("a budget in money is never exceeded while calls are in doubt, and is used up by what is billed", async () => {
  const budget = "budgets: { enrich: { per_month: { amount: 2.40 } } }";
  const config = configOf(enrichOnly, `${contract}\n${budget}`);
  const world = await startWorld({ rows: 300, people: 20_000, config });
  await world.control("/faults", { faults: "reply_lost:0.4" });
  // 60 included and 20 at $0.12: more would be sent if only answers counted.
  for (let night = 0; night < 6; night++) {
    const report = await world.run();
    expect(invoiceOf(await billedBySandbox(world))).toBeLessThanOrEqual(2.4);
    if (jobOf(report, "enrich_customers").records_sent === 0) break;
  }
  const [budgetReport] = (await readStatus(await world.services())).budgets;
  expect(budgetReport).toMatchObject({ left: 0, limit_amount: 2.4 });
  expect(budgetReport?.used_amount).toBeGreaterThan(2.4 - 0.12);
});

test("the pace of an allowance counts days without a run, unless they are before the first one", async () => {
  const prices =
    "prices: { currency: USD, enrich: { amount: 0.10, included_per_month: 500, overage: 0.20 } }";
  const world = await startWorld({ rows: 60, people: 20_000, config: configOf(enrichOnly, prices) });
  await world.run({ runId: "first", maxRecords: 10 });
  await world.run();
  const move = (at: string, isOf: string) =>
    world.rows(`UPDATE person_data_ops.api_call SET reserved_at = '${at}' WHERE ${isOf}`);
  const { db } = world.warehouse;
  const planLeft = async () =>
    (await readPlanLeft(db, await world.config(), new Map(), Date.parse("2026-03-10T12:00:00Z")))[0];
  await move("2026-03-10T01:00Z", "true");
  // The first run sends everything, which is no pace.
  expect(await planLeft()).toMatchObject({ pace_days: 1, lasts_until: null });
  // A weekly run: some 60 records in a week.
  await move("2026-02-20T01:00Z", "run_id = 'first'");
  expect(await planLeft()).toMatchObject({ pace_days: 7, left: 500, lasts_until: null });
});

test("a 402 is stored with its code and figures, which state what is left of the plan", async () => {
  const config = configOf(enrichOnly, "prices: { currency: USD, enrich: 0.10 }");
  const world = await startWorld({ rows: 60, people: 20_000, config });
  await world.control("/capacity", { records: 25 });
  const report = await world.run();
  expect(jobOf(report, "enrich_customers")).toMatchObject({ status: "limited", limited_by: "credits" });
  const refused = await world.rows(
    "SELECT http_status, error_code, error_details FROM person_data_ops.api_call WHERE error_code IS NOT NULL ORDER BY started_at LIMIT 1",
  );
  expect(refused).toEqual([
    {
      http_status: "402",
      error_code: "insufficient_record_capacity",
      error_details:
        '{"records_available": 25, "records_requested": 60, "overage_records_available": 0, "allowance_records_available": 25}',
    },
  ]);
  const left = 25 - (await billedBySandbox(world));
  const planLeft = async () => (await readStatus(await world.services())).plan_left;
  expect(await planLeft()).toMatchObject([{ of: "POST /v2/enrich", basis: "stated", left, limit: null }]);
  await world.control("/capacity", { records: 1000 });
  await world.run();
  // More was billed than the service had stated.
  expect(await planLeft()).toMatchObject([{ left: null, lasts_until: null }]);
});
