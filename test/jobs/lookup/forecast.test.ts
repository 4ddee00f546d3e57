import { describe, expect, test } from "vitest";
import type { ServiceConfig } from "../../../src/config/config.ts";
import type { Cap } from "../../../src/jobs/lookup/lookup-spec.ts";
import { forecastOf, forecastText } from "../../../src/jobs/lookup/estimate.ts";
import { countsOf, enrichJob } from "../support.ts";
import type { DueGroups, LookupCounts } from "../../../src/load/lookups/counts.ts";

function groupsOf(others: number): DueGroups {
  return { sentAgain: { matched: 0, unmatched: 0 }, withPid: 0, others };
}

const night: LookupCounts = countsOf({
  read: 12_000,
  unchanged: 9000,
  due: 2990,
  dueReasons: { expired: 900, never_answered: 2000, content_changed: 90 },
  duplicate: 40,
  rejectedBeforeSending: 10,
  toSend: 2950,
  answeredBefore: 10_000,
  groups: { due: groupsOf(2950), toSend: groupsOf(2950) },
  history: { withPid: { answered: 0, matched: 0 }, others: { answered: 10_000, matched: 8000 } },
});

const service: ServiceConfig = {
  baseUrl: "https://service.example",
  apiKey: null,
  userApiKey: null,
  ca: null,
  concurrency: 8,
  requestsPerSecond: 0.05,
  limits: {},
};

function lineOf(counts: LookupCounts, cap: Cap | null): string {
  return forecastText(
    enrichJob,
    counts,
    forecastOf({ service, prices: null }, enrichJob, counts, { cap }),
    cap,
  );
}

describe("the line before anything is sent", () => {
  test("shows what is sent, its cost and the duration", () => {
    expect(lineOf(night, null)).toBe(
      "enrich_customers: 2,950 records to send in 6 calls, about 2,360 (2,310 to 2,407) billed, about 2 min",
    );
    expect(lineOf({ ...night, due: 0, toSend: 0 }, null)).toBe(
      "enrich_customers: nothing is due among 12,000 rows",
    );
  });

  test("states what a limit leaves for later", () => {
    const groups = { ...night.groups, toSend: groupsOf(500) };
    const cut = { ...night, groups, toSend: 500, remaining: 2450 };
    expect(lineOf(cut, { records: 500, limitedBy: "budget_day" })).toBe(
      "enrich_customers: 500 records to send in 1 call, about 400 (380 to 417) billed, about 20 s; 2,450 rows remaining (budget_day)",
    );
    const none = { ...night, toSend: 0, remaining: 2950 };
    expect(lineOf(none, { records: 0, limitedBy: "budget_month" })).toBe(
      "enrich_customers: nothing to send; 2,950 rows remaining (budget_month)",
    );
  });
});
