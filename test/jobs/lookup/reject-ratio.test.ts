import { expect, test } from "vitest";
import { unusualRejects } from "../../../src/jobs/confirm.ts";
import { enrichJob } from "../support.ts";

const counters = (sent: number, rejected: number, before = 0) => ({
  records_sent: sent,
  records_rejected: rejected,
  records_rejected_before_sending: before,
});

test("more than 5 percent rejected is unusual from a thousand records on, those rejected before sending included", () => {
  expect(unusualRejects(enrichJob, counters(999, 999))).toBe(null);
  expect(unusualRejects(enrichJob, counters(1000, 50))).toBe(null);
  expect(unusualRejects(enrichJob, counters(1000, 51))).toBe(
    "enrich_customers: 51 of 1,000 records were rejected, more than 5 %.",
  );
  expect(unusualRejects(enrichJob, counters(940, 60, 60))).not.toBe(null);
});

test("a job with its own limit has nothing unusual below it", () => {
  expect(unusualRejects({ ...enrichJob, maxRejectRatio: 1 }, counters(1000, 1000))).toBe(null);
});
