import { beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { readPlanLeft, reportCosts } from "../../src/jobs/report/costs.ts";
import { planJobs } from "../../src/jobs/report/plan.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { createMetrics } from "../../src/operate/metrics.ts";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { NURSES } from "./search/audience-world.ts";
import { billedBySandbox, configOf, enrichOnly, jobOf, startWorld, threeJobs, type World } from "./world.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const prices = (enrich = 0.1) =>
  `prices: { currency: USD, resolve: 0.01, validate_emails: 0.002, enrich: ${enrich}, unlock: 0.20 }`;
const audience = `
  audiences: { type: audience_search, searches: { nurses: { query: ${NURSES}, unlock: { max_billable: 100 } } } }`;

const round = (amount: number) => Number(amount.toFixed(6));

test("a night costs what the sandbox billed: in its report, in cost_daily and in the status", async () => {
  const config = configOf(threeJobs + audience, prices());
  const world = await startWorld({ rows: 60, people: 20_000, config });
  await world.control("/search_plan", { state_ms: 20 });
  const report = await world.run();
  const resolved = await billedBySandbox(world, "/v1/resolve");
  const validated = await billedBySandbox(world, "/v2/validate_emails");
  const enriched = await billedBySandbox(world);
  const unlocked = await billedBySandbox(world, "/results");
  expect(Math.min(resolved, validated, enriched, unlocked)).toBeGreaterThan(0);

  const cost = (records_billed: number, price: number) => ({
    amount: round(records_billed * price),
    possibly_billed_amount: 0,
    currency: "USD",
    records_billed,
    possibly_billed: 0,
    price,
    records_without_price: 0,
  });
  expect(report.jobs.map(({ job, cost: own }) => [job, own])).toEqual([
    ["resolve_customers", cost(resolved, 0.01)],
    ["validate_customers", cost(validated, 0.002)],
    ["enrich_customers", cost(enriched, 0.1)],
    ["audiences", cost(unlocked, 0.2)],
  ]);
  const amount = round(resolved * 0.01 + validated * 0.002 + enriched * 0.1 + unlocked * 0.2);
  expect(report.cost).toMatchObject({ amount, currency: "USD", price: null });

  const days = await world.rows(
    `SELECT day = (now() AT TIME ZONE 'UTC')::date AS today, endpoint, job, records_sent >= records_billed AS sent, records_billed,
      possibly_billed, trim_scale(price) AS price, trim_scale(amount) AS amount, currency
    FROM person_data_ops.cost_daily ORDER BY endpoint`,
  );
  const day = (endpoint: string, job: string, billed: number, price: number) => ({
    today: "t",
    endpoint,
    job,
    sent: "t",
    records_billed: String(billed),
    possibly_billed: "0",
    price: String(price),
    amount: String(round(billed * price)),
    currency: "USD",
  });
  expect(days).toEqual([
    day("person-search/v0/search-jobs/{segment_id}/results", "audiences", unlocked, 0.2),
    day("v1/resolve", "resolve_customers", resolved, 0.01),
    day("v2/enrich", "enrich_customers", enriched, 0.1),
    day("v2/validate_emails", "validate_customers", validated, 0.002),
  ]);

  const status = await readStatus(await world.services());
  expect(status.spent).toMatchObject({ amount, possibly_billed_amount: 0, records_without_price: 0 });
  expect(status.days.map(({ job, cost: own }) => [job, own?.amount])).toContainEqual([
    "enrich_customers",
    round(enriched * 0.1),
  ]);
  expect((await world.run()).cost).toMatchObject({ amount: 0, records_billed: 0 });
});

test("a budget in money holds to the record, and a changed price counts from the next call on", async () => {
  const budget = "\nbudgets: { enrich: { per_month: { amount: 5.05 } } }";
  const world = await startWorld({ rows: 130, config: configOf(enrichOnly, prices() + budget) });
  const planned = await planJobs({ ...(await world.services()), clock: systemClock }, []);
  expect(planned).toMatchObject({
    estimated_cost: { high: 5, currency: "USD" },
    jobs: [{ records_to_send: 50, limited_by: "budget_month", estimated_cost: { high: 5 } }],
    budgets: [{ limit: 50, limit_amount: 5.05, left: 50, left_amount: 5, price: 0.1, currency: "USD" }],
  });
  const first = await world.run();
  expect(jobOf(first, "enrich_customers")).toMatchObject({
    status: "limited",
    limited_by: "budget_month",
    records_sent: 50,
  });
  expect(world.notes.at(-1)).toMatch(/ 50 records to send in 1 call, .*\$.*, about /);

  // 5.05 at 0.05 are 101 records, of which 44 were billed.
  world.configure(configOf(enrichOnly, prices(0.05) + budget));
  const second = await world.run();
  expect(jobOf(second, "enrich_customers").records_sent).toBe(57);
  const [atTen = 0, atFive = 0] = [first, second].map(
    (report) => jobOf(report, "enrich_customers").records_matched,
  );
  expect([first, second].map(({ cost }) => cost?.amount)).toEqual([round(atTen * 0.1), round(atFive * 0.05)]);
  expect(
    (
      await world.rows(
        "SELECT trim_scale(price) AS price, records_sent, records_billed, trim_scale(amount) AS amount FROM person_data_ops.cost_daily ORDER BY price DESC",
      )
    ).map((row) => Object.values(row).map(Number)),
  ).toEqual([
    [0.1, 50, atTen, first.cost?.amount],
    [0.05, 57, atFive, second.cost?.amount],
  ]);

  const metrics = createMetrics("0");
  metrics.observeRun(first);
  metrics.observeRun(second);
  const { text } = await metrics.render(await readStatus(await world.services()));
  const total = round((first.cost?.amount ?? 0) + (second.cost?.amount ?? 0));
  const left = round(5.05 - (atTen + atFive) * 0.05);
  const lines = text.split("\n").filter((line) => /^person_etl_\w*cost/.test(line));
  expect(
    lines.map((line) => line.replace(/ (\S+)$/, (_, value: string) => ` ${round(Number(value))}`)),
  ).toEqual([
    `person_etl_cost_total{job="enrich_customers",currency="USD"} ${total}`,
    'person_etl_possibly_billed_cost_total{job="enrich_customers",currency="USD"} 0',
    `person_etl_budget_cost_left{budget="enrich",period="month",currency="USD"} ${left}`,
    `person_etl_month_cost{currency="USD"} ${total}`,
  ]);

  world.configure(configOf(enrichOnly, `${prices(0)}${budget}`));
  expect(await world.run()).toMatchObject({ status: "succeeded", cost: { amount: 0 } });
});

test("a call is granted what others have left of a budget since the selection, and no more is sent", async () => {
  const budget = "confirm_above: { records: 20, ratio: 0.1 }\nbudgets: { enrich: { per_day: 1000 } }";
  const world = await startWorld({ rows: 60, config: configOf(enrichOnly, budget) });
  await world.run();
  await world.rows("UPDATE crm.customers SET street = '1 Main St'");
  const report = await world.run({
    confirm: async () => {
      await world.rows("UPDATE person_data_state.budget_use SET records_reserved = 980 WHERE period = 'day'");
      return true;
    },
  });
  const job = jobOf(report, "enrich_customers");
  expect(job).toMatchObject({ limited_by: "budget_day", records_sent: 20, requests: 1 });
  const used = "SELECT records_reserved FROM person_data_state.budget_use WHERE period = 'day'";
  expect(await world.value(used)).toBe("1000");
});

test("without prices nothing is shown in money, and calls made then have no price later", async () => {
  const world = await startWorld({ rows: 30, config: configOf(enrichOnly) });
  const report = await world.run();
  expect(JSON.stringify([report, await planJobs(await world.services(), [])])).not.toContain("cost");
  expect(
    await world.value("SELECT bool_and(price IS NULL AND amount IS NULL) FROM person_data_ops.cost_daily"),
  ).toBe("t");
  const status = await readStatus(await world.services());
  expect([status.spent, status.days[0]?.cost]).toEqual([undefined, undefined]);

  world.configure(configOf(enrichOnly, prices()));
  const billed = jobOf(report, "enrich_customers").records_matched;
  expect((await readStatus(await world.services())).spent).toMatchObject({
    amount: 0,
    records_billed: billed,
    records_without_price: billed,
  });
});

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
  expect(await world.value("SELECT sum(possibly_billed) FROM person_data_ops.cost_daily")).toBe(
    String(doubtful.possibly_billed),
  );

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
  const allowance =
    "prices: { currency: USD, enrich: { amount: 0.10, included_per_month: 500, overage: 0.20 } }";
  const world = await startWorld({ rows: 60, people: 20_000, config: configOf(enrichOnly, allowance) });
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
