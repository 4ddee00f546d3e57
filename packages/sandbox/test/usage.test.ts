/// <reference lib="esnext.temporal" />
import { describe, expect, it } from "vitest";
import type { Sandbox, SandboxOptions } from "../src/start-sandbox.ts";
import { call, enrich, people, sandboxFor } from "./support.ts";

type Counts = Readonly<
  Record<"total_requests" | "num_input_records" | "num_resolvable_records" | "num_matches", number>
>;
interface EndpointUsage extends Counts {
  readonly endpoint: string;
  readonly buckets: readonly (Counts & { readonly bucket_start: string })[] | null;
}

/** A sandbox at noon (UTC) of a day. */
async function sandboxOn(day: string, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await sandboxFor(options);
  await call(sandbox, "/_sandbox/clock", {
    days: (Date.parse(`${day}T12:00:00Z`) - Date.now()) / 86_400_000,
  });
  return sandbox;
}
const usage = async (sandbox: Sandbox, query = ""): Promise<readonly EndpointUsage[]> =>
  JSON.parse((await call(sandbox, `/usage${query}`)).text).results;
const enrichOf = async (sandbox: Sandbox, query: string) =>
  (await usage(sandbox, query)).find(({ endpoint }) => endpoint === "v2/enrich");
const startsOf = async (sandbox: Sandbox, query: string) =>
  (await enrichOf(sandbox, query))?.buckets?.map((bucket) => bucket.bucket_start);

describe("endpoint usage", () => {
  it("shows unused endpoints on request, with zeros", async () => {
    const sandbox = await sandboxOn("2026-06-10");
    const results = await usage(sandbox, "?include_unused_endpoints=true");
    expect(results.find(({ endpoint }) => endpoint === "v2/infer_record_country")).toEqual({
      endpoint: "v2/infer_record_country",
      total_requests: 0,
      num_input_records: 0,
      num_resolvable_records: 0,
      num_matches: 0,
      overall_match_rate: 0,
      resolvable_match_rate: 0,
      last_requested_at: null,
      buckets: null,
    });
  });

  it("counts the calls that it carried out, and no others", async () => {
    const sandbox = await sandboxOn("2026-06-10");
    const query = "?start_date=2026-06-10&end_date=2026-06-10&include_unused_endpoints=true";
    const before = await enrichOf(sandbox, query);
    await enrich(sandbox, [{ service_pid: people.pidOf(1, 0) }, { emails: ["nobody@elsewhere.example"] }]);
    await call(sandbox, "/v2/enrich", { records: 1 });
    await call(sandbox, "/v2/enrich", { records: [] }, { headers: { "x-api-key": "org-other" } });
    const after = await enrichOf(sandbox, query);
    const differences = (key: keyof Counts) => Number(after?.[key]) - Number(before?.[key]);
    expect([
      differences("total_requests"),
      differences("num_input_records"),
      differences("num_resolvable_records"),
      differences("num_matches"),
    ]).toEqual([1, 2, 2, 1]);
  });

  it("cuts time into buckets of every size, naturally bounded, the future included", async () => {
    const sandbox = await sandboxOn("2026-06-10");
    const range = "&start_date=2026-06-10&end_date=2026-07-02";
    const days = async (size: string) =>
      (await startsOf(sandbox, `?bucketing_size=${size}${range}`))?.map((start) =>
        start.replace("T00:00:00+00:00", ""),
      );
    expect((await days("hour"))?.length).toBe(23 * 24);
    expect((await days("day"))?.slice(0, 2)).toEqual(["2026-06-10", "2026-06-11"]);
    // 2026-06-10 is a Wednesday.
    expect(await days("week")).toEqual(["2026-06-08", "2026-06-15", "2026-06-22", "2026-06-29"]);
    expect(await days("month")).toEqual(["2026-06-01", "2026-07-01"]);
    expect(await days("quarter")).toEqual(["2026-04-01", "2026-07-01"]);
    expect(await days("year")).toEqual(["2026-01-01"]);
  });

  it("follows a zone through its changes of clock", async () => {
    const sandbox = await sandboxOn("2026-11-20");
    const hours = async (day: string, timezone: string) =>
      startsOf(sandbox, `?bucketing_size=hour&start_date=${day}&end_date=${day}&timezone=${timezone}`);
    const spring = await hours("2026-03-08", "America/New_York");
    expect(spring?.length).toBe(23);
    expect(spring?.slice(0, 3)).toEqual([
      "2026-03-08T00:00:00-05:00",
      "2026-03-08T01:00:00-05:00",
      "2026-03-08T03:00:00-04:00",
    ]);
    const autumn = await hours("2026-11-01", "America/New_York");
    expect(autumn?.length).toBe(25);
    expect(autumn?.slice(1, 3)).toEqual(["2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00"]);
    // An hour of an hour and a half is two buckets.
    expect((await hours("2026-04-05", "Australia/Lord_Howe"))?.slice(1, 3)).toEqual([
      "2026-04-05T01:00:00+11:00",
      "2026-04-05T01:30:00+10:30",
    ]);
    // Midnight is skipped in Santiago.
    const skipped = await hours("2026-09-06", "America/Santiago");
    expect([skipped?.length, skipped?.[0]]).toEqual([23, "2026-09-06T01:00:00-03:00"]);
    expect((await hours("2026-06-01", "Asia/Kathmandu"))?.[0]).toBe("2026-06-01T00:00:00+05:45");
  });

  it("counts some calls late, and puts others right, mostly within three days", async () => {
    const sandbox = await sandboxOn("2026-06-10");
    const daysOf = async () => {
      const results = await usage(sandbox, "?start_date=2026-05-01&end_date=2026-06-09");
      return new Map(
        results.flatMap((result) =>
          (result.buckets ?? []).map((bucket) => [
            `${result.endpoint} ${bucket.bucket_start.slice(0, 10)}`,
            JSON.stringify(bucket),
          ]),
        ),
      );
    };
    const first = await daysOf();
    await call(sandbox, "/_sandbox/clock", { days: 30 });
    const later = await daysOf();
    const changed = [...later].filter(([key, bucket]) => first.get(key) !== bucket).map(([key]) => key);
    const recent = changed.filter((key) => key.slice(-10) >= "2026-06-07");
    expect(recent.length).toBeGreaterThan(3);
    expect(changed.length - recent.length).toBeGreaterThan(3);
    expect(changed.every((key) => key.slice(-10) >= "2026-05-15")).toBe(true);
  });

  it("can be distorted in every way that readers must handle", async () => {
    const sandbox = await sandboxOn("2026-06-10");
    const query = "?bucketing_size=day&start_date=2026-06-01&end_date=2026-06-01&timezone=America/New_York";
    const startWith = async (faults: string) => {
      await call(sandbox, "/_sandbox/faults", { faults });
      const [first] = await usage(sandbox, query);
      return [first?.endpoint, first?.buckets?.[0]?.bucket_start];
    };
    const [endpoint] = await startWith("");
    expect(await startWith("utc_times")).toEqual([endpoint, "2026-06-01T04:00:00Z"]);
    expect(await startWith("zoneless_times")).toEqual([endpoint, "2026-06-01T00:00:00"]);
    expect(await startWith("local_z_times")).toEqual([endpoint, "2026-06-01T00:00:00Z"]);
    expect(await startWith("slash_endpoints")).toEqual([`/${endpoint}`, "2026-06-01T00:00:00-04:00"]);
    await call(sandbox, "/_sandbox/faults", { faults: "sparse_buckets" });
    const sparse = await usage(sandbox, `${query}&include_unused_endpoints=true`);
    expect(sparse.some(({ buckets }) => buckets?.length === 0)).toBe(true);
  });
});

/** Answer of section 2.9. */
interface SearchUsage {
  readonly org_id: string;
  readonly daily_record_limit: number;
  readonly current_day_records_delivered: number;
  readonly current_day_remaining: number;
  readonly history: readonly Record<"period_start" | "records_delivered" | "searches_created", unknown>[];
}
const readSearchUsage = async (sandbox: Sandbox, query = ""): Promise<SearchUsage> =>
  JSON.parse((await call(sandbox, `/person-search/v0/usage${query}`)).text);

describe("person search usage", () => {
  it("has a row for each of the last days, today's last, quiet ones with zeros", async () => {
    const sandbox = await sandboxOn("2026-06-10");
    const answer = await readSearchUsage(sandbox);
    expect(Object.keys(answer).join()).toBe(
      "org_id,daily_record_limit,current_day_records_delivered,current_day_remaining,history",
    );
    expect(answer.org_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8000-[0-9a-f]{12}$/);
    expect(answer.history.map((row) => row.period_start)).toEqual(
      Array.from({ length: 30 }, (_, i) => Temporal.PlainDate.from("2026-05-12").add({ days: i }).toString()),
    );
    expect(answer.history.at(-1)?.records_delivered).toBe(answer.current_day_records_delivered);
    expect(answer.current_day_remaining).toBe(
      Math.max(0, answer.daily_record_limit - answer.current_day_records_delivered),
    );
    const quiet = answer.history.find((row) => row.searches_created === 0);
    expect(quiet).toMatchObject({ records_delivered: 0, parse_requests: 0 });
    expect((await readSearchUsage(sandbox, "?days=90")).history.slice(60)).toEqual(answer.history);
    expect((await readSearchUsage(sandbox, "?days=1")).history.length).toBe(1);
  });
});
