import { beforeAll, expect, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { planJobs } from "../../src/jobs/report/plan.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { createMetrics } from "../../src/operate/metrics.ts";
import { parseFaults } from "../../packages/sandbox/src/start-sandbox.ts";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { NURSES } from "./search/audience-world.ts";
import { configOf, jobOf, startWorld, threeJobs, type World } from "./world.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const prices = (enrich = 0.1) =>
  `prices: { currency: USD, resolve: 0.01, validate_emails: 0.002, enrich: ${enrich}, unlock: 0.20 }`;
const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";
const audience = `
  audiences: { type: audience_search, searches: { nurses: { query: ${NURSES}, unlock: { max_billable: 100 } } } }`;

/** Records that the sandbox billed on an endpoint (`/v2/enrich`). */
async function billedBySandbox(world: World, path: string): Promise<number> {
  const { endpoints } = await world.control<{ endpoints: Record<string, { billed: number }> }>("/ledger");
  return Object.entries(endpoints)
    .filter(([endpoint]) => endpoint.endsWith(path))
    .reduce((sum, [, { billed }]) => sum + billed, 0);
}

const round = (amount: number) => Number(amount.toFixed(6));

test("a night costs what the sandbox billed: in its report, in cost_daily and in the status", async () => {
  const config = configOf(threeJobs + audience, prices());
  const world = await startWorld({ rows: 60, people: 20_000, config });
  await world.control("/search_plan", { state_ms: 20 });
  const report = await world.run();
  const resolved = await billedBySandbox(world, "/v1/resolve");
  const validated = await billedBySandbox(world, "/v2/validate_emails");
  const enriched = await billedBySandbox(world, "/v2/enrich");
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

test("records that may have been billed are stated apart, and together they bound the bill", async () => {
  const world = await startWorld({
    rows: 200,
    config: configOf(enrichOnly, prices()),
    faults: parseFaults("reply_lost=0.4@enrich"),
  });
  const { cost } = await world.run();
  const billed = await billedBySandbox(world, "/v2/enrich");
  expect(cost?.possibly_billed).toBeGreaterThan(0);
  expect(cost?.possibly_billed_amount).toBe(round((cost?.possibly_billed ?? 0) * 0.1));
  expect(cost?.records_billed).toBeLessThanOrEqual(billed);
  expect((cost?.records_billed ?? 0) + (cost?.possibly_billed ?? 0)).toBeGreaterThanOrEqual(billed);
  expect(
    await world.rows(
      "SELECT sum(records_billed) AS billed, sum(possibly_billed) AS possible FROM person_data_ops.cost_daily",
    ),
  ).toEqual([{ billed: String(cost?.records_billed), possible: String(cost?.possibly_billed) }]);
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
  const matched = [first, second].map((report) => jobOf(report, "enrich_customers").records_matched) as [
    number,
    number,
  ];
  expect([first, second].map(({ cost }) => cost?.amount)).toEqual([
    round(matched[0] * 0.1),
    round(matched[1] * 0.05),
  ]);
  expect(
    await world.rows(
      "SELECT trim_scale(price) AS price, records_sent, records_billed, trim_scale(amount) AS amount FROM person_data_ops.cost_daily ORDER BY price DESC",
    ),
  ).toEqual([
    {
      price: "0.1",
      records_sent: "50",
      records_billed: String(matched[0]),
      amount: String(first.cost?.amount),
    },
    {
      price: "0.05",
      records_sent: "57",
      records_billed: String(matched[1]),
      amount: String(second.cost?.amount),
    },
  ]);

  const metrics = createMetrics("0");
  metrics.observeRun(first);
  metrics.observeRun(second);
  const { text } = await metrics.render(await readStatus(await world.services()));
  const total = round((first.cost?.amount ?? 0) + (second.cost?.amount ?? 0));
  const left = round(5.05 - (matched[0] + matched[1]) * 0.05);
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
