import { expect, test } from "vitest";
import { renderPlan } from "../../src/cli/commands/plan.ts";
import type { JobPlan } from "../../src/jobs/job-type.ts";

const nothing: JobPlan = {
  job: "resolve_customers",
  type: "resolve",
  records_read: 0,
  records_due: 0,
  due_reasons: {},
  records_unchanged: 0,
  records_duplicate: 0,
  records_waiting: 0,
  records_suppressed: 0,
  records_rejected_before_sending: 0,
  reject_reasons: {},
  records_to_send: 0,
  records_expected: 0,
  records_remaining: 0,
  limited_by: null,
  budget_left: null,
  calls: 0,
  estimated_billable: { low: 0, expected: 0, high: 0, basis: "nothing to send" },
  estimated_seconds: 0,
  waiting_answers: { calls: 0, bytes: 0 },
  needs_confirmation: false,
  remarks: [],
};

const resolve: JobPlan = {
  ...nothing,
  records_read: 14_629,
  records_due: 3,
  due_reasons: { never_answered: 3 },
  records_rejected_before_sending: 14_626,
  reject_reasons: { duplicate_key: 14_626 },
  records_to_send: 3,
  records_expected: 3,
  calls: 1,
  estimated_billable: { low: 0, expected: 3, high: 3, basis: "no history" },
  estimated_seconds: 1,
};

test("a plan shows only ends of rows that occur, and they add up to the rows read", () => {
  expect(renderPlan({ jobs: [resolve], budgets: [] }, 80)).toBe(`input rows           read  rejected  to send
────────────────────────────────────────────
resolve_customers  14,629    14,626        3
(read = rejected + to send)

this run           records  calls  billed (est.)  time (est.)
─────────────────────────────────────────────────────────────
resolve_customers        3      1              3        1.0 s

resolve_customers
  • due: 3 never answered
  • billed: at most 3, no history
  • rejected: 14,626 duplicate key. Another row of the input has the same key; only one of them is used.

Nothing was sent or billed. \`plan --show 1\` prints the first request of each job.`);
});

test("a table that is too wide has a column for each job instead", () => {
  const many: JobPlan = {
    ...resolve,
    records_read: 1_000_000,
    records_unchanged: 500_000,
    records_suppressed: 100_000,
    records_waiting: 100_000,
    records_duplicate: 100_000,
    records_remaining: 185_371,
  };
  const text = renderPlan(
    { jobs: [many, { ...many, job: "enrich_customers", type: "enrich" }], budgets: [] },
    80,
  );
  expect(text).toContain(`input rows  resolve_customers  enrich_customers
───────────────────────────────────────────────
read                1,000,000         1,000,000
unchanged             500,000           500,000
suppressed            100,000           100,000
rejected               14,626            14,626
waiting               100,000           100,000
duplicate             100,000           100,000
remaining             185,371           185,371
to send                     3                 3
(read = unchanged + suppressed + rejected + waiting + duplicate + remaining + to send)`);
});

test("a feed has calls but no input rows, and nothing to explain has no remark", () => {
  const usage = { ...nothing, job: "usage", type: "endpoint_usage", calls: 2, estimated_seconds: 2 };
  expect(
    renderPlan({ jobs: [usage], budgets: [] }, 80),
  ).toBe(`this run  records  calls  billed (est.)  time (est.)
────────────────────────────────────────────────────
usage           0      2              0        2.0 s

Nothing was sent or billed.`);
});
