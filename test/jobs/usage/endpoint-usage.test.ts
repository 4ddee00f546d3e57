import { describe, expect, test } from "vitest";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import { differences, goTo, runAtItsTime, setCursor, statedBuckets, storedBuckets } from "./usage-truth.ts";
import { configOf, startWorld, type World } from "../world.ts";

// See endpoint-usage.slow.ts for long histories, every size and zone.
const jobs = (from: string, size = "day", zone = "UTC") =>
  configOf(`
  usage: { type: endpoint_usage, bucketing_size: ${size}, timezone: ${zone}, start_date: ${from} }`);

async function startUsage(config: string, day: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 200, config });
  await goTo(world, day);
  return world;
}

const runUsage = (world: World) => runAtItsTime(world, "usage");

/** Differences between stored buckets and those of the service. */
async function untruths(world: World, from: string, to: string, size = "day", zone = "UTC") {
  const stated = await statedBuckets(world, { size, zone, from, to });
  return differences(await storedBuckets(world, size, zone), stated);
}
const finals = (world: World) =>
  world.rows(
    `SELECT is_final, max(bucket_start)::date::text AS last FROM person_data_ops.endpoint_usage_bucket GROUP BY 1 ORDER BY 1`,
  );

describe("buckets of usage", () => {
  test("equal the service's, are final three days after their end, and are read from there next time", async () => {
    const world = await startUsage(jobs("2026-05-01"), "2026-06-10");
    await runUsage(world);
    expect(await untruths(world, "2026-05-01", "2026-06-10")).toEqual([]);
    expect(await finals(world)).toEqual([
      { is_final: "f", last: "2026-06-10" },
      { is_final: "t", last: "2026-06-06" },
    ]);
    expect(await world.value("SELECT cursor::text FROM person_data_ops.checkpoint")).toBe(
      '{"from": "2026-05-01", "next": "2026-05-11"}',
    );
    await goTo(world, "2026-06-13");
    expect(await runUsage(world)).toMatchObject({ requests: 2 });
    expect(await untruths(world, "2026-05-01", "2026-06-13")).toEqual([]);
    // Final counts that were corrected while no job ran.
    await goTo(world, "2026-09-13");
    expect(await runUsage(world)).toMatchObject({ requests: 3 });
    expect(await untruths(world, "2026-05-01", "2026-09-13")).toEqual([]);
  });

  test("start and end with the months of a zone east of UTC", async () => {
    const world = await startUsage(jobs("2026-03-17", "month", "Asia/Kathmandu"), "2026-06-10");
    await runUsage(world);
    expect(await untruths(world, "2026-03-01", "2026-06-10", "month", "Asia/Kathmandu")).toEqual([]);
  });

  test("are resumed where a run stopped", async () => {
    const world = await startUsage(jobs("2026-04-01", "hour"), "2026-06-01");
    await world.control("/faults", { faults: "forbidden@usage#4-" });
    expect(await runUsage(world)).toMatchObject({ status: "failed", requests: 4 });
    await world.control("/faults", { faults: "" });
    // Totals, and the remaining seven weeks.
    expect(await runUsage(world)).toMatchObject({ status: "succeeded", requests: 8 });
    expect(await untruths(world, "2026-04-01", "2026-06-01", "hour")).toEqual([]);
  });

  test("have no gap if start_date moved forward during an unfinished pass, and then back", async () => {
    const world = await startUsage(jobs("2026-01-01", "hour"), "2026-03-20");
    await world.control("/faults", { faults: "forbidden@usage#5-" });
    await runUsage(world);
    await world.control("/faults", { faults: "" });
    world.configure(jobs("2026-03-10", "hour"));
    await runUsage(world);
    world.configure(jobs("2026-01-01", "hour"));
    await runUsage(world);
    expect(await untruths(world, "2026-01-01", "2026-03-20", "hour")).toEqual([]);
  });
});

test("a result whose endpoint is free text isn't stored", async () => {
  const world = await startUsage(jobs("2026-06-01"), "2026-06-10");
  const { url } = await startRecordingProxy(world.sandbox.url, (_path, body) =>
    body.replaceAll(/"endpoint":"[^"]*enrich"/gu, '"endpoint":"alan.turing@example.com"'),
  );
  world.serviceUrl = url;
  expect(await runUsage(world)).toMatchObject({ status: "succeeded" });
  for (const table of ["endpoint_usage", "endpoint_usage_bucket"]) {
    expect(
      await world.value(`SELECT count(*) > 0 AND bool_and(endpoint ~ '^v') FROM person_data_ops.${table}`),
    ).toBe("t");
  }
});

/** Answers with the current state of one endpoint. */
async function answerWith(world: World, buckets: readonly object[]): Promise<{ total_requests: number }> {
  const result = { endpoint: "v2/enrich", total_requests: 0, buckets };
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    path.includes("bucketing_size") ? JSON.stringify({ results: [result] }) : body,
  );
  world.serviceUrl = url;
  return result;
}
const storedCounts = (world: World) =>
  world.rows(
    `SELECT bucket_start::date::text AS day, total_requests, is_final
     FROM person_data_ops.endpoint_usage_bucket ORDER BY bucket_start`,
  );

describe("an answered bucket", () => {
  test("whose start is no start in the zone's calendar is left out, counted and reported", async () => {
    const world = await startUsage(jobs("2026-06-05", "day", "Asia/Kolkata"), "2026-06-08");
    await answerWith(world, [
      { bucket_start: "2026-06-06T00:00:00Z", total_requests: 3 },
      { bucket_start: "2026-06-07T00:00:00+05:30", total_requests: 4 },
      { bucket_start: "soon", total_requests: 1 },
    ]);
    expect(await runUsage(world)).toMatchObject({ status: "succeeded" });
    expect(await storedCounts(world)).toEqual([{ day: "2026-06-06", total_requests: "4", is_final: "f" }]);
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
    const hours = [10, 11, 12, 13, 14];
    await answerWith(
      world,
      hours.map((hour) => ({ bucket_start: `2026-06-08T${hour}:00:00Z`, total_requests: 1 })),
    );
    await runUsage(world);
    expect(
      await world.value("SELECT max(bucket_start)::text FROM person_data_ops.endpoint_usage_bucket"),
    ).toBe("2026-06-08 12:00:00+00");
    expect(world.notes).toEqual([]);
  });

  test("that is omitted is zero if the others add up to the total, and unknown otherwise", async () => {
    const world = await startUsage(jobs("2026-06-06"), "2026-06-08");
    const answer = await answerWith(world, [{ bucket_start: "2026-06-07T00:00:00Z", total_requests: 3 }]);
    answer.total_requests = 4;
    await runUsage(world);
    expect((await storedCounts(world)).map(({ day }) => day)).toEqual(["2026-06-07"]);
    answer.total_requests = 3;
    await runUsage(world);
    expect((await storedCounts(world)).map(({ total_requests: n }) => n)).toEqual(["0", "3", "0"]);
  });
});

test("a checkpoint ahead of our clock is not trusted: everything is read again", async () => {
  const world = await startUsage(jobs("2026-03-01"), "2026-03-10");
  await runUsage(world);
  await setCursor(world, { from: "2026-03-01", next: "2027-06-07" });
  await goTo(world, "2026-06-10");
  await runUsage(world);
  expect(await untruths(world, "2026-03-01", "2026-06-10")).toEqual([]);
  expect(await world.value("SELECT cursor->>'next' FROM person_data_ops.checkpoint")).toBe("2026-05-11");
});
