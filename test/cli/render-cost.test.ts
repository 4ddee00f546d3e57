import { expect, test } from "vitest";
import { renderBudgets, renderRunCost } from "../../src/cli/costs.ts";
import type { Cost } from "../../src/jobs/price.ts";
import { type JobReport, zeroCounters } from "../../src/jobs/job.ts";

const nothing: Cost = {
  amount: 0,
  possibly_billed_amount: 0,
  currency: "USD",
  records_billed: 0,
  possibly_billed: 0,
  price: null,
  records_without_price: 0,
};

function jobOf(job: string, type: string, cost: Partial<Cost>): JobReport {
  return {
    job,
    type,
    status: "succeeded",
    seconds: 1,
    ...zeroCounters,
    cost: { ...nothing, ...cost },
  };
}

function lineOf(jobs: readonly JobReport[], cost: Partial<Cost>, shard?: string): string {
  const ofShard = shard === undefined ? {} : { shard };
  return renderRunCost({ status: "succeeded", run_id: "r", jobs, cost: { ...nothing, ...cost }, ...ofShard });
}

test("the cost of a run is one sentence, with what may have been billed in addition", () => {
  const enriched = jobOf("enrich_customers", "enrich", { amount: 123.4, records_billed: 1234, price: 0.1 });
  const validated = jobOf("validate_customers", "validate_emails", { records_billed: 2000, price: 0.002 });
  expect(lineOf([], {})).toBe("Cost: $0.00.");
  expect(lineOf([enriched], { amount: 123.4 })).toBe("Cost: $123.40 (1,234 matches at $0.10).");
  expect(lineOf([validated], { amount: 4 })).toBe("Cost: $4.00 (2,000 addresses at $0.002).");
  expect(lineOf([jobOf("vips", "audience_search", { records_billed: 1, price: 0.2 })], { amount: 0.2 })).toBe(
    "Cost: $0.20 (1 record at $0.20).",
  );
  expect(
    lineOf([enriched, validated], { amount: 127.4, possibly_billed: 50, possibly_billed_amount: 5 }, "0/2"),
  ).toBe(
    "Cost of all shards so far: $127.40 (enrich_customers: 1,234 at $0.10; validate_customers: 2,000 at $0.002). " +
      "Up to $5.00 more: 50 records may have been billed without an answer.",
  );
  expect(lineOf([], { records_without_price: 3 })).toBe(
    "Cost: $0.00. 3 billed records without a price not included.",
  );
  expect(renderRunCost({ status: "succeeded", run_id: "r", jobs: [] })).toBe("");
});

test("budgets in money fit 80 columns", () => {
  const budgets = [
    {
      budget: "validate_emails",
      period: "month",
      limit: 250_000,
      used: 12_000,
      left: 238_000,
      limit_amount: 500,
      left_amount: 476,
      price: 0.002,
      currency: "USD",
      lasts_until: null,
    },
    { budget: "enrich", period: "day", limit: 20_000, used: 1, left: 19_999, lasts_until: null },
  ] as const;
  expect(renderBudgets({ budgets }, 80).split("\n")).toEqual([
    "budget           records                       limit               left",
    "───────────────────────────────────────────────────────────────────────",
    "validate_emails  this month (UTC)  250,000 ($500.00)  238,000 ($476.00)",
    "enrich           today (UTC)                  20,000             19,999",
    "(a limit in money counts every record sent as billed, at the current price)",
  ]);
});
