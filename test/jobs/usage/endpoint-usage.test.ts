import { describe, expect, test } from "vitest";
import { recordAnswers } from "../lookup/recording-proxy.ts";
import { differences, goTo, runAtItsTime, statedBuckets, storedBuckets } from "./usage-truth.ts";
import { configOf, startWorld, type World } from "../world.ts";

// See endpoint-usage.slow.ts for every size and zone, and test/feeds for long histories.
const jobs = (from: string, size = "day", zone = "UTC") =>
  configOf(`
  usage: { type: endpoint_usage, bucketing_size: ${size}, timezone: ${zone}, start_date: ${from} }`);

async function startUsage(config: string, day: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 200, config });
  await goTo(world, day);
  return world;
}

const runUsage = (world: World, request = {}) => runAtItsTime(world, "usage", request);

/** Differences between stored buckets and those of the service. */
async function untruths(world: World, from: string, to: string, size = "day") {
  const stated = await statedBuckets(world, { size, zone: "UTC", from, to });
  return differences(await storedBuckets(world, size, "UTC"), stated);
}
const BUCKETS = "person_data_ops.endpoint_usage_bucket";

describe("buckets of usage", () => {
  test("equal the service's, are final three days after their end, and are read from there next time", async () => {
    const world = await startUsage(jobs("2026-05-01"), "2026-06-10");
    await runUsage(world);
    expect(await untruths(world, "2026-05-01", "2026-06-10")).toEqual([]);
    const finals = `SELECT is_final, max(bucket_start)::date::text AS last FROM ${BUCKETS} GROUP BY 1 ORDER BY 1`;
    expect(await world.rows(finals)).toEqual([
      { is_final: "f", last: "2026-06-10" },
      { is_final: "t", last: "2026-06-06" },
    ]);
    expect(await world.value("SELECT cursor::text FROM person_data_ops.checkpoint")).toBe(
      '{"from": "2026-05-01", "next": "2026-05-11"}',
    );
    await goTo(world, "2026-06-13");
    expect(await runUsage(world)).toMatchObject({ requests: 2 });
    expect(await runUsage(world)).toMatchObject({ requests: 2, rows_written: 0 });
    expect(await untruths(world, "2026-05-01", "2026-06-13")).toEqual([]);
    // Final counts that were corrected while no job ran.
    await goTo(world, "2026-09-13");
    expect(await runUsage(world)).toMatchObject({ requests: 3 });
    expect(await untruths(world, "2026-05-01", "2026-09-13")).toEqual([]);
    await world.rows(`UPDATE ${BUCKETS} SET num_matches = -1`);
    await runUsage(world, { fullRefresh: true });
    expect(await untruths(world, "2026-05-01", "2026-09-13")).toEqual([]);
  });

  test("are resumed where a run stopped, and have no gap if start_date moves meanwhile", async () => {
    const world = await startUsage(jobs("2026-01-01", "hour"), "2026-03-20");
    await world.control("/faults", { faults: "forbidden@usage#6-" });
    expect(await runUsage(world)).toMatchObject({ status: "failed", requests: 5 });
    await world.control("/faults", { faults: "" });
    world.configure(jobs("2026-03-10", "hour"));
    // Totals, and two weeks.
    expect(await runUsage(world)).toMatchObject({ requests: 3 });
    world.configure(jobs("2026-01-01", "hour"));
    await runUsage(world);
    expect(await untruths(world, "2026-01-01", "2026-03-20", "hour")).toEqual([]);
  });
});

test("totals are stored by endpoint and day, unused ones with zeros, unknown fields as drift, and no free text", async () => {
  const world = await startUsage(jobs("2026-06-01"), "2026-06-10");
  await world.control("/faults", { faults: "unknown_fields" });
  await recordAnswers(world, (_path, body) =>
    body.replaceAll(/"endpoint":"[^"]*enrich"/gu, '"endpoint":"alan.turing@example.com"'),
  );
  expect(await runUsage(world)).toMatchObject({ status: "succeeded" });
  for (const table of ["endpoint_usage", "endpoint_usage_bucket"]) {
    expect(await world.value(`SELECT bool_and(endpoint ~ '^v') FROM person_data_ops.${table}`)).toBe("t");
  }
  expect(await world.value(`SELECT bool_or(_extra ? 'sandbox_new_field') FROM ${BUCKETS}`)).toBe("t");
  expect(
    await world.rows(
      `SELECT observed_date::text, total_requests, overall_match_rate, last_requested_at
       FROM person_data_ops.endpoint_usage WHERE endpoint = 'v1/get_li_contact_info'`,
    ),
  ).toEqual([
    { observed_date: "2026-06-10", total_requests: "0", overall_match_rate: "0", last_requested_at: null },
  ]);
  const drift =
    "SELECT DISTINCT path FROM person_data_ops.schema_drift WHERE kind = 'unknown_field' ORDER BY 1";
  expect(await world.rows(drift)).toEqual([
    { path: "buckets[].sandbox_new_field" },
    { path: "sandbox_new_field" },
  ]);
});

test("an answer without results isn't empty, one with null is", async () => {
  const world = await startUsage(jobs("2026-06-01"), "2026-06-10");
  let says: object = {};
  await recordAnswers(world, (path, body) =>
    path.includes("start_date") ? JSON.stringify({ api_request_id: "req-1", ...says }) : body,
  );
  const checkpoints = "SELECT count(*) FROM person_data_ops.checkpoint";
  const failing = [{}, { error_message: "Internal error" }, { results: null, error: "Internal error" }];
  for (says of failing) expect((await runUsage(world)).status).toBe("failed");
  expect(await world.value(checkpoints)).toBe("0");
  says = { results: null };
  expect((await runUsage(world)).status).toBe("succeeded");
  expect(await world.value(checkpoints)).toBe("1");
});

describe("an answered bucket", () => {
  type Sent = readonly (readonly [start: string, requests: number])[];

  /** Answers about one endpoint with these buckets. The function runs the job with a total, and returns the stored buckets. */
  async function answerWith(world: World, sent: Sent) {
    const buckets = sent.map(([start, requests]) => ({ bucket_start: start, total_requests: requests }));
    const result = { endpoint: "v2/enrich", total_requests: 0, buckets };
    await recordAnswers(world, (path, body) =>
      path.includes("bucketing_size") ? JSON.stringify({ results: [result] }) : body,
    );
    return async (total = 0) => {
      result.total_requests = total;
      expect(await runUsage(world)).toMatchObject({ status: "succeeded" });
      const rows = await world.rows(
        `SELECT concat_ws(' ', to_char(bucket_start AT TIME ZONE 'UTC', 'MM-DD HH24'), total_requests, is_final) AS line
         FROM ${BUCKETS} ORDER BY bucket_start`,
      );
      return rows.map(({ line }) => line);
    };
  }
  const runWith = async (world: World, sent: Sent) => (await answerWith(world, sent))();

  test("whose start is no start in the zone's calendar is left out, counted and reported", async () => {
    const world = await startUsage(jobs("2026-06-05", "day", "Asia/Kolkata"), "2026-06-08");
    const stored = await runWith(world, [
      ["2026-06-06T00:00:00Z", 3],
      ["2026-06-07T00:00:00+05:30", 4],
      ["soon", 1],
    ]);
    expect(stored).toEqual(["06-06 18 4 f"]);
    expect(world.notes).toEqual([
      "Skipped 2 buckets between 2026-06-05 and 2026-06-08: no day of Asia/Kolkata starts at the time in the response.",
    ]);
    expect(world.logged.filter(({ level }) => level === "warn")).toEqual([
      {
        level: "warn",
        event: "usage_buckets_left_out",
        fields: { job: "usage", buckets: 2, from: "2026-06-05", to: "2026-06-08", timezone: "Asia/Kolkata" },
      },
    ]);
  });

  test("of the future by our clock is left out without a report", async () => {
    const world = await startUsage(jobs("2026-06-08", "hour"), "2026-06-08");
    const hours = [10, 11, 12, 13, 14].map((hour) => [`2026-06-08T${hour}:00:00Z`, 1] as const);
    expect(await runWith(world, hours)).toEqual(["06-08 10 1 f", "06-08 11 1 f", "06-08 12 1 f"]);
    expect(world.notes).toEqual([]);
  });

  test("that is omitted is zero if the others add up to the total, and unknown otherwise", async () => {
    const world = await startUsage(jobs("2026-06-06"), "2026-06-08");
    const runAgain = await answerWith(world, [["2026-06-07T00:00:00Z", 3]]);
    expect(await runAgain(4)).toEqual(["06-07 00 3 f"]);
    expect(await runAgain(3)).toEqual(["06-06 00 0 f", "06-07 00 3 f", "06-08 00 0 f"]);
  });

  test.each([["before"], ["after"]])(
    "keeps the larger of two counts with one start, with the zeros of the skipped hour %s it",
    async (place) => {
      const world = await startUsage(jobs("2026-03-08", "hour", "America/New_York"), "2026-03-09");
      const [zeros, counts] = [
        ["2026-03-08T02:00:00-05:00", 0],
        ["2026-03-08T03:00:00-04:00", 5],
      ] as const;
      expect(await runWith(world, place === "before" ? [zeros, counts] : [counts, zeros])).toEqual([
        "03-08 07 5 f",
      ]);
    },
  );
});
