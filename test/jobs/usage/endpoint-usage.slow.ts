import { describe, expect, test } from "vitest";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import {
  COUNT_COLUMNS,
  differences,
  goTo,
  runAtItsTime,
  sandboxClock,
  statedBuckets,
  storedBuckets,
} from "./usage-truth.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

interface Counting {
  readonly size?: string;
  readonly zone?: string;
  readonly from?: string;
}

const jobs = ({ size = "day", zone = "UTC", from = "2026-01-01" }: Counting) => `
  usage: { type: endpoint_usage, bucketing_size: ${size}, timezone: ${zone}, start_date: ${from} }`;

async function startUsage(counting: Counting, day: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 1000, config: configOf(jobs(counting)) });
  await goTo(world, day);
  return world;
}

const runUsage = (world: World, request = {}) => runAtItsTime(world, "usage", request);
const checkpointOf = (world: World) =>
  world.rows("SELECT stream, cursor::text FROM person_data_ops.checkpoint ORDER BY stream");

interface SentBucket {
  readonly bucket_start: string;
}

/** Changes the buckets of an answer. */
function changeBuckets(
  path: string,
  body: string,
  change: (buckets: readonly SentBucket[]) => readonly SentBucket[],
): string {
  if (!path.includes("start_date")) return body;
  // The sandbox's answer (section 2.10).
  const answer = JSON.parse(body) as { results: { buckets: readonly SentBucket[] }[] };
  const results = answer.results.map((result) => ({ ...result, buckets: change(result.buckets) }));
  return JSON.stringify({ ...answer, results });
}

/** The hour skipped by the clock, as listed by a simple service. */
const skipped = (bucket: object) => ({
  ...bucket,
  bucket_start: "2026-03-08T02:00:00-05:00",
  total_requests: 0,
  num_input_records: 0,
  num_resolvable_records: 0,
  num_matches: 0,
});

describe("buckets of usage", () => {
  test("of every size are what the service reports in zones of every kind, zeros included and future ones left out", async () => {
    const moments = {
      "2026-11-10": [
        ["hour", "America/New_York", "2026-10-20"],
        ["hour", "Australia/Lord_Howe", "2026-10-01"],
        ["day", "UTC", "2026-01-01"],
        ["day", "Africa/Cairo", "2026-04-01"],
        ["day", "America/Santiago", "2026-08-20"],
        ["week", "Asia/Kathmandu", "2026-01-05"],
        ["month", "Pacific/Kiritimati", "2025-03-01"],
        ["quarter", "Europe/Berlin", "2025-01-01"],
        ["year", "America/St_Johns", "2024-01-01"],
      ],
      "2027-04-10": [
        ["hour", "Australia/Lord_Howe", "2027-04-01"],
        ["hour", "Asia/Kolkata", "2027-04-01"],
      ],
    } as const;
    const world = await startUsage({}, "2026-11-10");
    for (const [day, countings] of Object.entries(moments)) {
      await goTo(world, day);
      await world.rows("DELETE FROM person_data_ops.endpoint_usage_bucket").catch(() => []);
      const texts = countings.map(([size, zone, from], i) =>
        jobs({ size, zone, from }).replace("usage:", `usage_${i}:`),
      );
      world.configure(configOf(texts.join("")));
      expect((await world.run({}, { clock: await sandboxClock(world) })).status).toBe("succeeded");
      for (const [size, zone, from] of countings) {
        // In Kiritimati it is already the next day.
        const to = day.replace(/10$/, "11");
        const stated = await statedBuckets(world, { size, zone, from, to });
        expect(stated.size).toBeGreaterThan(12);
        expect([zone, differences(await storedBuckets(world, size, zone), stated)]).toEqual([zone, []]);
      }
    }
    const unused = await world.rows(
      `SELECT DISTINCT ${COUNT_COLUMNS} FROM person_data_ops.endpoint_usage_bucket
       WHERE endpoint = 'v2/infer_record_country'`,
    );
    expect(unused).toEqual([
      { total_requests: "0", num_input_records: "0", num_resolvable_records: "0", num_matches: "0" },
    ]);
  });

  test("start with the whole natural bucket that contains start_date", async () => {
    const world = await startUsage({ size: "month", from: "2026-09-17" }, "2026-11-10");
    await runUsage(world);
    const stated = await statedBuckets(world, {
      size: "month",
      zone: "UTC",
      from: "2026-09-01",
      to: "2026-11-10",
    });
    expect(differences(await storedBuckets(world, "month", "UTC"), stated)).toEqual([]);
  });

  test("distinguish the two repeated hours, and have days of 23 and 25 hours", async () => {
    const hours = await startUsage(
      { size: "hour", zone: "America/New_York", from: "2026-11-01" },
      "2026-11-02",
    );
    await runUsage(hours);
    expect(
      await hours.rows(
        `SELECT bucket_start::text, bucket_start_local::text, bucket_end::text
         FROM person_data_ops.endpoint_usage_bucket WHERE endpoint = 'v2/enrich' ORDER BY bucket_start LIMIT 3 OFFSET 1`,
      ),
    ).toEqual([
      {
        bucket_start: "2026-11-01 05:00:00+00",
        bucket_start_local: "2026-11-01 01:00:00",
        bucket_end: "2026-11-01 06:00:00+00",
      },
      {
        bucket_start: "2026-11-01 06:00:00+00",
        bucket_start_local: "2026-11-01 01:00:00",
        bucket_end: "2026-11-01 07:00:00+00",
      },
      {
        bucket_start: "2026-11-01 07:00:00+00",
        bucket_start_local: "2026-11-01 02:00:00",
        bucket_end: "2026-11-01 08:00:00+00",
      },
    ]);
    const days = await startUsage({ zone: "America/New_York", from: "2026-03-08" }, "2026-11-10");
    await runUsage(days);
    expect(
      await days.rows(
        `SELECT bucket_start_local::date::text AS day, (bucket_end - bucket_start)::text AS length
         FROM person_data_ops.endpoint_usage_bucket
         WHERE endpoint = 'v2/enrich' AND bucket_end - bucket_start <> interval '24 hours' ORDER BY 1`,
      ),
    ).toEqual([
      { day: "2026-03-08", length: "23:00:00" },
      { day: "2026-11-01", length: "1 day 01:00:00" },
    ]);
  });

  test("are final three days after their end by our clock, and updated until then", async () => {
    const world = await startUsage({ from: "2026-05-01" }, "2026-06-10");
    await runUsage(world);
    const finals = () =>
      world.rows(
        `SELECT is_final, max(bucket_start)::text AS last FROM person_data_ops.endpoint_usage_bucket GROUP BY 1 ORDER BY 1`,
      );
    expect(await finals()).toEqual([
      { is_final: "f", last: "2026-06-10 00:00:00+00" },
      { is_final: "t", last: "2026-06-06 00:00:00+00" },
    ]);
    expect(await checkpointOf(world)).toEqual([
      { stream: "day UTC", cursor: '{"from": "2026-05-01", "next": "2026-05-11"}' },
    ]);
    await goTo(world, "2026-06-13");
    await runUsage(world);
    expect((await finals())[1]).toEqual({ is_final: "t", last: "2026-06-09 00:00:00+00" });
  });

  test("equal the service's on every one of sixty nights, with late counts and corrections of final ones", async () => {
    const world = await startUsage({ from: "2026-05-01" }, "2026-06-01");
    for (let night = 0; night < 60; night += 1 + (night % 4)) {
      const day = new Date(Date.parse("2026-06-01") + night * 86_400_000).toISOString().slice(0, 10);
      await goTo(world, day, "03:10:00");
      const { requests } = await runUsage(world);
      expect(requests).toBe(2);
      const stated = await statedBuckets(world, { size: "day", zone: "UTC", from: "2026-05-01", to: day });
      expect([day, differences(await storedBuckets(world, "day", "UTC"), stated)]).toEqual([day, []]);
    }
  });

  test("stay unchanged if nothing moved", async () => {
    const world = await startUsage({ from: "2026-05-01" }, "2026-06-10");
    const first = await runUsage(world);
    const second = await runUsage(world);
    expect(first.rows_written).toBeGreaterThan(400);
    expect([second.rows_written, second.records_received]).toEqual([0, expect.any(Number)]);
  });

  test("of other sizes, zones and earlier days are stored in addition to the first ones", async () => {
    const world = await startUsage({ from: "2026-06-01" }, "2026-06-10");
    await runUsage(world);
    world.configure(configOf(jobs({ size: "month", zone: "Asia/Kolkata", from: "2026-04-01" })));
    await runUsage(world);
    world.configure(configOf(jobs({ from: "2026-03-01" })));
    await runUsage(world);
    const [days, months] = [
      await statedBuckets(world, { size: "day", zone: "UTC", from: "2026-03-01", to: "2026-06-10" }),
      await statedBuckets(world, {
        size: "month",
        zone: "Asia/Kolkata",
        from: "2026-04-01",
        to: "2026-06-10",
      }),
    ];
    expect(differences(await storedBuckets(world, "day", "UTC"), days)).toEqual([]);
    expect(differences(await storedBuckets(world, "month", "Asia/Kolkata"), months)).toEqual([]);
    expect((await checkpointOf(world)).map(({ stream }) => stream)).toEqual([
      "day UTC",
      "month Asia/Kolkata",
    ]);
  });

  test("are read again from the start with --full-refresh", async () => {
    const world = await startUsage({ from: "2026-01-01" }, "2026-06-10");
    await runUsage(world);
    await world.rows("UPDATE person_data_ops.endpoint_usage_bucket SET num_matches = -1");
    expect(await runUsage(world)).toMatchObject({ requests: 2 });
    expect(
      await world.value(
        "SELECT count(*) > 0 FROM person_data_ops.endpoint_usage_bucket WHERE num_matches = -1",
      ),
    ).toBe("t");
    expect(await runUsage(world, { fullRefresh: true })).toMatchObject({ requests: 3 });
    const stated = await statedBuckets(world, {
      size: "day",
      zone: "UTC",
      from: "2026-01-01",
      to: "2026-06-10",
    });
    expect(differences(await storedBuckets(world, "day", "UTC"), stated)).toEqual([]);
  });

  test("are the same in every form of the service's answers", async () => {
    const countings = [
      { size: "hour", zone: "America/New_York", from: "2026-10-25" },
      { size: "day", zone: "America/Santiago", from: "2026-08-20" },
    ];
    const world = await startUsage({}, "2026-11-04");
    const texts = countings.map((counting, i) => jobs(counting).replace("usage:", `usage_${i}:`));
    world.configure(configOf(texts.join("")));
    await world.run({}, { clock: await sandboxClock(world) });
    for (const faults of [
      "utc_times",
      "zoneless_times",
      "slash_endpoints",
      "sparse_buckets",
      "sparse_buckets,null_lists",
      "exponent_numbers",
      "shuffled",
      "unknown_fields",
      "429=1@usage#1-2,500@usage#3,cut_body@usage#4,truncated_json@usage#5",
    ]) {
      await world.rows("TRUNCATE person_data_ops.endpoint_usage_bucket, person_data_ops.checkpoint");
      await world.control("/faults", { faults });
      const report = await world.run({}, { clock: await sandboxClock(world) });
      expect([faults, report.status]).toEqual([faults, "succeeded"]);
      await world.control("/faults", { faults: "" });
      for (const { size, zone, from } of countings) {
        const stated = await statedBuckets(world, { size, zone, from, to: "2026-11-04" });
        expect([faults, zone, differences(await storedBuckets(world, size, zone), stated)]).toEqual([
          faults,
          zone,
          [],
        ]);
      }
    }
  });

  test.each(["before", "after"])(
    "keep the larger of two counts with one start, with zeros %s it",
    async (place) => {
      const world = await startUsage(
        { size: "hour", zone: "America/New_York", from: "2026-03-07" },
        "2026-03-10",
      );
      const proxy = await startRecordingProxy(world.sandbox.url, (path, body) =>
        changeBuckets(path, body, (buckets) =>
          buckets.flatMap((bucket) => {
            if (bucket.bucket_start !== "2026-03-08T03:00:00-04:00") return [bucket];
            return place === "before" ? [skipped(bucket), bucket] : [bucket, skipped(bucket)];
          }),
        ),
      );
      world.serviceUrl = proxy.url;
      await runUsage(world);
      const stated = await statedBuckets(world, {
        size: "hour",
        zone: "America/New_York",
        from: "2026-03-07",
        to: "2026-03-10",
      });
      expect(differences(await storedBuckets(world, "hour", "America/New_York"), stated)).toEqual([]);
    },
  );

  test("are not treated as empty if the answer has no results", async () => {
    const world = await startUsage({ from: "2026-06-01" }, "2026-06-10");
    let says: object = {};
    const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
      path.includes("start_date") ? JSON.stringify({ api_request_id: "req-1", ...says }) : body,
    );
    world.serviceUrl = url;
    const failing = [{}, { error_message: "Internal error" }, { results: null, error: "Internal error" }];
    for (says of failing) expect((await runUsage(world)).status).toBe("failed");
    expect(await checkpointOf(world)).toEqual([]);
    says = { results: null };
    expect((await runUsage(world)).status).toBe("succeeded");
    expect((await checkpointOf(world)).length).toBe(1);
  });

  test("keep unknown fields in _extra, and record them as drift", async () => {
    const world = await startUsage({ from: "2026-06-01" }, "2026-06-10");
    await world.control("/faults", { faults: "unknown_fields" });
    await runUsage(world);
    expect(
      await world.rows("SELECT endpoint, path, kind FROM person_data_ops.schema_drift ORDER BY path"),
    ).toEqual([
      { endpoint: "GET /usage", path: "buckets[].sandbox_new_field", kind: "unknown_field" },
      { endpoint: "GET /usage", path: "sandbox_new_field", kind: "unknown_field" },
    ]);
    expect(
      await world.value(
        "SELECT bool_or(_extra ? 'sandbox_new_field') FROM person_data_ops.endpoint_usage_bucket",
      ),
    ).toBe("t");
  });
});

describe("totals", () => {
  test("are stored by endpoint and day of observation, unused ones with zeros", async () => {
    const world = await startUsage({ from: "2026-06-01" }, "2026-06-10");
    await runUsage(world);
    await goTo(world, "2026-06-11");
    await runUsage(world);
    expect(
      await world.rows(
        `SELECT observed_date::text, total_requests, overall_match_rate, last_requested_at
         FROM person_data_ops.endpoint_usage WHERE endpoint = 'v1/get_li_contact_info' ORDER BY 1`,
      ),
    ).toEqual([
      { observed_date: "2026-06-10", total_requests: "0", overall_match_rate: "0", last_requested_at: null },
      { observed_date: "2026-06-11", total_requests: "0", overall_match_rate: "0", last_requested_at: null },
    ]);
    const [used] = await world.rows(
      `SELECT count(*) AS endpoints, bool_and(num_matches <= num_input_records) AS plausible,
         min(last_requested_at)::text > '2026-05' AS recent
       FROM person_data_ops.endpoint_usage WHERE total_requests > 0 AND observed_date = '2026-06-11'`,
    );
    expect(used).toEqual({ endpoints: "10", plausible: "t", recent: "t" });
  });
});

describe("usage_reconciliation", () => {
  test("compares our ledger with the service's report, per endpoint and UTC day", async () => {
    const world = await startWorld({
      rows: 700,
      people: 1000,
      config: configOf(`
  resolve_customers: { type: resolve, input: customers }
  usage: { type: endpoint_usage, start_date: 2026-06-01, after: resolve_customers }`),
    });
    await goTo(world, "2026-06-10");
    const before = await statedBuckets(world, {
      size: "day",
      zone: "UTC",
      from: "2026-06-10",
      to: "2026-06-10",
    });
    const [others = ""] = before.get("v1/resolve 2026-06-10 00:00:00+00") ?? [];
    const report = await world.run({}, { clock: await sandboxClock(world) });
    expect(jobOf(report, "resolve_customers").requests).toBe(1);
    const rows = await world.rows(
      "SELECT endpoint, ours, reported, not_ours FROM person_data_ops.usage_reconciliation WHERE day = '2026-06-10'",
    );
    expect(rows.find(({ endpoint }) => endpoint === "v1/resolve")).toEqual({
      endpoint: "v1/resolve",
      ours: "1",
      reported: String(Number(others) + 1),
      not_ours: others,
    });
    // Calls that the service doesn't count can't be compared.
    expect(rows.find(({ endpoint }) => endpoint === "usage")).toEqual({
      endpoint: "usage",
      ours: "2",
      reported: null,
      not_ours: null,
    });
    expect(
      await world.value(
        "SELECT count(*) FROM person_data_ops.usage_reconciliation WHERE day = '2026-06-09' AND ours = 0",
      ),
    ).toBe("12");
  });
});
