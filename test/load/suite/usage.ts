import { describe, expect, test } from "vitest";
import { type EndpointUsageJobConfig, endpointUsageJob } from "../../../src/jobs/usage/endpoint-usage.ts";
import type { FeedContext } from "../../../src/jobs/feed-type.ts";
import { commit } from "../../../src/load/write/commit.ts";
import type { FeedCommit, Warehouse } from "../../support/bound-load.ts";
import { retentionRuleOf } from "../../../src/schemas/retention.ts";
import { ANSWERED_AT, callOf, runOf } from "./nights.ts";
import { type GetContext, type Context, type TextRow, valueOf } from "./context.ts";
import type { Attempt } from "../../../src/schemas/attempt.ts";

const job = { job: "another", type: "enrich" } as const;

/** A day of one endpoint in UTC; all four counts are equal. */
interface UsageDay {
  readonly endpoint: string;
  /** `YYYY-MM-DD`. */
  readonly day: string;
  readonly count: number;
  readonly isFinal?: boolean;
}

const nextDay = (day: string): string => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);

function commitOfDays(
  days: readonly UsageDay[],
  {
    observedAt,
    calls = [callOf({ endpoint: "GET /usage" })],
  }: {
    readonly observedAt: string;
    readonly calls?: readonly Attempt[];
  },
): FeedCommit {
  return {
    run: runOf(job),
    calls,
    drift: [],
    counters: { requests: 1 },
    upserts: [
      {
        table: "endpoint_usage_bucket",
        columns: [
          "endpoint",
          "bucketing_size",
          "timezone",
          "bucket_start",
          "bucket_start_local",
          "bucket_end",
          "total_requests",
          "num_input_records",
          "num_resolvable_records",
          "num_matches",
          "_extra",
          "observed_at",
          "is_final",
        ],
        rows: days.map(({ endpoint, day, count, isFinal = false }) => [
          endpoint,
          "day",
          "UTC",
          `${day}T00:00:00+00:00`,
          `${day}T00:00:00`,
          `${nextDay(day)}T00:00:00+00:00`,
          ...Array.from({ length: 4 }, () => String(count)),
          null,
          observedAt,
          String(isFinal),
        ]),
        along: ["observed_at"],
      },
    ],
    checkpoints: [{ stream: "day UTC", cursor: { from: "2026-01-01", next: "2026-11-19" } }],
  };
}

/** Runs the job at {@link ANSWERED_AT}: the service reports `v2/enrich` without use. */
async function runEndpointUsage(
  warehouse: Warehouse,
  { size, timezone, startDate }: { size: string; timezone: string; startDate: string },
): Promise<void> {
  const counts = { total_requests: 0, num_input_records: 0, num_resolvable_records: 0, num_matches: 0 };
  const body = JSON.stringify({ results: [{ endpoint: "v2/enrich", ...counts, buckets: [] }] });
  const feed: Pick<FeedContext, "checkpoints" | "call" | "commit"> & Record<string, unknown> = {
    job: { name: job.job, type: "endpoint_usage", bucketingSize: size, timezone, startDate },
    log: { debug() {}, info() {}, warn() {}, error() {} },
    clock: { now: () => Date.parse(ANSWERED_AT) },
    checkpoints: new Map(),
    async call({ read }) {
      const value = read(Buffer.from(body));
      if (value === null) throw new Error("the answer could not be read");
      return { kind: "answer", value, answeredAt: ANSWERED_AT, apiRequestId: null, mayBeDone: false };
    },
    commit: (rows) =>
      commit(warehouse.db, runOf(job), { ...rows, calls: [callOf({ endpoint: "GET /usage" })] }),
  };
  // The only part that the job uses.
  await endpointUsageJob.run(feed as unknown as FeedContext<EndpointUsageJobConfig>);
}

const DAY_MS = 86_400_000;
/** UTC day, a number of days ago, `YYYY-MM-DD`. */
const dayBefore = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);

const dayRow = (day: string | undefined, ours: number | null, records: number | null) => ({
  day,
  ours: ours === null ? null : String(ours),
  not_ours: ours === null ? null : String(1 - ours),
  ours_records: records === null ? null : String(records),
  ours_in_doubt: ours === null ? null : "0",
  ours_refused: ours === null ? null : "0",
});

const countOf = (context: Context, condition: string) =>
  valueOf(context, `SELECT count(*) FROM person_data_ops.endpoint_usage_bucket WHERE ${condition}`);

const bucketsOf = (size: string) =>
  `SELECT bucket_start, bucket_start_local, bucket_end, total_requests, is_final
   FROM person_data_ops.endpoint_usage_bucket WHERE bucketing_size = '${size}' ORDER BY bucket_start`;
/** Start, local start and end, to the minute. */
const boundsOf = (rows: readonly TextRow[]) =>
  rows.map((row) =>
    [row["bucket_start"], row["bucket_start_local"], row["bucket_end"]].map((time) =>
      time?.slice(0, 16).replace(" ", "T"),
    ),
  );

/** A call for ten records that started and ended at one moment (UTC). */
const enrichCall = (time: string, changes: Partial<Attempt> = {}) =>
  callOf({
    endpoint: "POST /v2/enrich",
    startedAt: `${time}+00:00`,
    requestCompletedAt: `${time}+00:00`,
    recordsSent: 10,
    ...changes,
  });

/** Tests of reported usage and its comparison with the ledger. */
export function describeUsage(getContext: GetContext): void {
  describe("buckets of usage", () => {
    const enrich = { endpoint: "v2/enrich", day: "2026-11-19" };
    const resolve = { endpoint: "v1/resolve", day: "2026-11-19" };

    test("are written where they change, and no others; the moment of observation moves along", async () => {
      const context = getContext();
      const { warehouse } = context;
      const [first] = await warehouse.commitFeed(
        commitOfDays(
          [
            { ...enrich, count: 5 },
            { ...resolve, count: 0 },
          ],
          {
            observedAt: "2026-11-20T04:00:00+00:00",
          },
        ),
      );
      expect(first).toMatchObject({ given: 2, inserted: 2, updated: 0 });
      const [second] = await warehouse.commitFeed(
        commitOfDays(
          [
            { ...enrich, count: 7 },
            { ...resolve, count: 0 },
          ],
          {
            observedAt: "2026-11-21T04:00:00+00:00",
          },
        ),
      );
      expect(second).toMatchObject({ given: 2, inserted: 0, updated: 1 });
      expect(await countOf(context, "total_requests = 7 AND num_matches = 7")).toBe("1");
      const newest = "(SELECT max(observed_at) FROM person_data_ops.endpoint_usage_bucket)";
      expect(await countOf(context, `observed_at = ${newest} AND endpoint = 'v2/enrich'`)).toBe("1");
      expect(await countOf(context, `observed_at < ${newest}`)).toBe("1");
      const [third] = await warehouse.commitFeed(
        commitOfDays([{ ...enrich, count: 7, isFinal: true }], { observedAt: "2026-11-22T04:00:00+00:00" }),
      );
      expect(third).toMatchObject({ given: 1, inserted: 0, updated: 1 });
      expect(await countOf(context, "is_final")).toBe("1");
    });

    test("of a commit whose answer was lost are written once", async () => {
      const context = getContext();
      const { warehouse } = context;
      const calls = [callOf({ endpoint: "GET /usage" })];
      const commit = commitOfDays([{ ...enrich, count: 5 }], {
        observedAt: "2026-11-20T04:00:00+00:00",
        calls,
      });
      await warehouse.commitFeed(commit);
      await warehouse.commitFeed(commit);
      expect(await countOf(context, "total_requests = 5")).toBe("1");
      expect(await warehouse.readCheckpoints(job.job)).toMatchObject([
        { stream: "day UTC", cursor: { from: "2026-01-01", next: "2026-11-19" } },
      ]);
    });
  });

  describe("buckets that the job reads", () => {
    test.each([
      [
        "month",
        "Asia/Kathmandu",
        [
          ["2026-09-30T18:15", "2026-10-01T00:00", "2026-10-31T18:15"],
          ["2026-10-31T18:15", "2026-11-01T00:00", "2026-11-30T18:15"],
        ],
      ],
      [
        "week",
        "Pacific/Kiritimati",
        [
          ["2026-11-08T10:00", "2026-11-09T00:00", "2026-11-15T10:00"],
          ["2026-11-15T10:00", "2026-11-16T00:00", "2026-11-22T10:00"],
        ],
      ],
    ] as const)("of a %s have the bounds of %s", async (size, timezone, bounds) => {
      const context = getContext();
      const startDate = size === "month" ? "2026-10-17" : "2026-11-12";
      await runEndpointUsage(context.warehouse, { size, timezone, startDate });
      const rows = await context.sql(bucketsOf(size));
      expect(boundsOf(rows)).toEqual(bounds);
      expect(rows.map((row) => [row["total_requests"], row["is_final"]])).toEqual([
        ["0", "true"],
        ["0", "false"],
      ]);
    });
  });

  describe("usage_reconciliation", () => {
    test("compares our answered calls with the service's counts, by its own day", async () => {
      const context = getContext();
      await context.warehouse.commitFeed(
        commitOfDays(
          [
            { endpoint: "v2/enrich", day: "2026-11-19", count: 5, isFinal: true },
            { endpoint: "v2/enrich", day: "2026-11-20", count: 1 },
            { endpoint: "v1/resolve", day: "2026-11-19", count: 3 },
          ],
          {
            observedAt: "2026-11-21T04:00:00+00:00",
            calls: [
              enrichCall("2026-11-19T23:59:59.999999"),
              enrichCall("2026-11-19T12:00:00"),
              enrichCall("2026-11-20T00:00:00"),
              ...[null, 408, 500, 502, 504, 507].map((httpStatus) =>
                enrichCall("2026-11-20T00:00:01", { httpStatus }),
              ),
              ...[307, 400, 402, 404, 409, 413, 422, 429, 503].map((httpStatus) =>
                enrichCall("2026-11-20T00:00:02", { httpStatus }),
              ),
              // No connection.
              enrichCall("2026-11-20T00:00:03", { httpStatus: null, isSent: false, recordsSent: 0 }),
              callOf({ endpoint: "GET /usage", recordsSent: 0 }),
            ],
          },
        ),
      );
      expect(
        await context.sql(
          `SELECT endpoint, day, ours, reported, not_ours, ours_records, reported_records, ours_in_doubt, is_final, ours_refused
           FROM person_data_ops.usage_reconciliation ORDER BY endpoint, day`,
        ),
      ).toEqual([
        {
          endpoint: "usage",
          day: "2026-11-21",
          ours: "1",
          reported: null,
          not_ours: null,
          ours_records: "0",
          reported_records: null,
          ours_in_doubt: "0",
          is_final: null,
          ours_refused: "0",
        },
        {
          endpoint: "v1/resolve",
          day: "2026-11-19",
          ours: "0",
          reported: "3",
          not_ours: "3",
          ours_records: "0",
          reported_records: "3",
          ours_in_doubt: "0",
          is_final: "false",
          ours_refused: "0",
        },
        {
          endpoint: "v2/enrich",
          day: "2026-11-19",
          ours: "2",
          reported: "5",
          not_ours: "3",
          ours_records: "20",
          reported_records: "5",
          ours_in_doubt: "0",
          is_final: "true",
          ours_refused: "0",
        },
        {
          endpoint: "v2/enrich",
          day: "2026-11-20",
          ours: "1",
          reported: "1",
          not_ours: "0",
          ours_records: "10",
          reported_records: "1",
          ours_in_doubt: "6",
          is_final: "false",
          ours_refused: "9",
        },
      ]);
    });

    test("keeps calls by the warehouse's clock, whatever the caller's", async () => {
      const { warehouse } = getContext();
      await warehouse.commitFeed(
        commitOfDays([], {
          observedAt: "2026-11-20T04:00:00Z",
          calls: [enrichCall(`${dayBefore(400)}T12:00:00`)],
        }),
      );
      const rule = retentionRuleOf("api_call");
      expect(await warehouse.removeOld(rule ? [{ rule, keepMs: 30 * DAY_MS }] : [])).toEqual({ api_call: 0 });
    });

    test("leaves out days whose calls were removed, and the day on which that ended", async () => {
      const context = getContext();
      const { warehouse } = context;
      await warehouse.writeServiceHost("service.example:443", { replace: false });
      const days = [42, 40, 38].map(dayBefore);
      await warehouse.commitFeed(
        commitOfDays(
          days.map((day) => ({ endpoint: "v2/enrich", day, count: 1, isFinal: true })),
          {
            observedAt: `${dayBefore(37)}T04:00:00+00:00`,
            calls: [41, 38].map((age) => enrichCall(`${dayBefore(age)}T12:00:00`)),
          },
        ),
      );
      await context.sql("UPDATE person_data_ops.api_call SET _synced_at = started_at");
      const compare = () =>
        context.sql(
          `SELECT day, ours, not_ours, ours_records, ours_in_doubt, ours_refused
           FROM person_data_ops.usage_reconciliation WHERE reported IS NOT NULL ORDER BY day`,
        );
      const rule = retentionRuleOf("api_call");
      const keep = (age: number) => (rule ? [{ rule, keepMs: age * DAY_MS }] : []);
      expect(await warehouse.removeOld(keep(60))).toEqual({ api_call: 0 });
      expect(await compare()).toEqual([dayRow(days[0], 0, 0), dayRow(days[1], 0, 0), dayRow(days[2], 1, 10)]);
      expect(await warehouse.removeOld(keep(40))).toEqual({ api_call: 1 });
      const cut = [dayRow(days[0], null, null), dayRow(days[1], null, null), dayRow(days[2], 1, 10)];
      expect(await compare()).toEqual(cut);
      // Removed rows don't return when the retention grows.
      await warehouse.removeOld(keep(60));
      expect(await compare()).toEqual(cut);
    });
  });

  test("the first day of an organization's searches that isn't final is known", async () => {
    const { warehouse } = getContext();
    const firstOpen = (orgId: string, upTo = "2026-11-20") => warehouse.firstOpenSearchDay(orgId, upTo);
    expect(await firstOpen("org-1")).toBe(null);
    const commit = (orgId: string, days: readonly (readonly [string, boolean])[]) =>
      warehouse.commitFeed({
        run: runOf(job),
        calls: [callOf({ endpoint: "GET /person-search/v0/usage" })],
        drift: [],
        counters: {},
        upserts: [
          {
            table: "person_search_usage_daily",
            columns: ["org_id", "period_start", "is_final"],
            rows: days.map(([day, isFinal]) => [orgId, day, String(isFinal)]),
          },
        ],
        checkpoints: [],
      });
    await commit("org-1", [
      ["2026-11-16", true],
      ["2026-11-17", false],
      ["2026-11-18", false],
      ["2027-11-18", true],
    ]);
    await commit("org-2", [["2026-11-19", false]]);
    expect([await firstOpen("org-1"), await firstOpen("org-1", "2026-11-15")]).toEqual(["2026-11-17", null]);
    expect(await firstOpen("org-2")).toBe("2026-11-19");
  });

  test("the newest quota and the unreadable days of each organization are known", async () => {
    const { warehouse } = getContext();
    expect([await warehouse.readQuotas(), await warehouse.readGaps()]).toEqual([[], []]);
    const columns = ["org_id", "observed_at", "daily_record_limit", "current_day_remaining"];
    await warehouse.commitFeed({
      run: runOf(job),
      calls: [callOf({ endpoint: "GET /person-search/v0/usage" })],
      drift: [],
      counters: {},
      upserts: [
        {
          table: "person_search_quota",
          columns,
          rows: [
            ["org-1", "2026-11-20T04:00:00+00:00", "500", "17"],
            ["org-1", "2026-11-21T04:00:00+00:00", "500", "16"],
            ["org-2", "2026-11-19T04:00:00+00:00", null, null],
          ],
        },
        {
          table: "sync_gap",
          columns: ["job", "stream", "gap_start", "gap_end", "noticed_at"],
          rows: [
            [
              "searches",
              "history",
              "2026-03-01T00:00:00+00:00",
              "2026-04-01T00:00:00+00:00",
              "2026-11-21T04:00:00+00:00",
            ],
          ],
        },
      ],
      checkpoints: [],
    });
    expect(await warehouse.readQuotas()).toMatchObject([
      { orgId: "org-1", limit: 500, left: 16 },
      { orgId: "org-2", limit: null, left: null },
    ]);
    expect(await warehouse.readGaps()).toMatchObject([{ job: "searches", stream: "history" }]);
  });
}
