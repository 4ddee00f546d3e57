import { describe, expect, test } from "vitest";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import { differences, goTo, setCursor, statedBuckets, storedBuckets } from "./usage-truth.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

// Long histories, every size and zone: endpoint-usage.slow.ts.
const jobs = (from: string, size = "day", zone = "UTC") =>
  configOf(`
  usage: { type: endpoint_usage, bucketing_size: ${size}, timezone: ${zone}, start_date: ${from} }`);

async function startUsage(config: string, day: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 200, config });
  await goTo(world, day);
  return world;
}

const runUsage = async (world: World, request = {}) => jobOf(await world.run(request), "usage");

/** In what stored and stated buckets differ. */
async function untruths(world: World, from: string, to: string, size = "day", zone = "UTC") {
  const stated = await statedBuckets(world, { size, zone, from, to });
  return differences(await storedBuckets(world, size, zone), stated);
}
const finals = (world: World) =>
  world.rows(
    `SELECT is_final, max(bucket_start)::date::text AS last FROM person_data_ops.endpoint_usage_bucket GROUP BY 1 ORDER BY 1`,
  );

describe("buckets of usage", () => {
  test("are what the service reports, final three days after their end, and go on from there", async () => {
    const world = await startUsage(jobs("2026-05-01"), "2026-06-10");
    await runUsage(world);
    expect(await untruths(world, "2026-05-01", "2026-06-10")).toEqual([]);
    expect(await finals(world)).toEqual([
      { is_final: "f", last: "2026-06-10" },
      { is_final: "t", last: "2026-06-06" },
    ]);
    expect(await world.value("SELECT cursor::text FROM person_data_ops.checkpoint")).toBe(
      '{"from": "2026-05-01", "next": "2026-06-07", "resume_at": null}',
    );
    await goTo(world, "2026-06-13");
    expect(await runUsage(world)).toMatchObject({ requests: 2 });
    expect(await untruths(world, "2026-05-01", "2026-06-13")).toEqual([]);
  });

  test("begin and end with the months of a zone east of UTC", async () => {
    const world = await startUsage(jobs("2026-03-17", "month", "Asia/Kathmandu"), "2026-06-10");
    await runUsage(world);
    expect(await untruths(world, "2026-03-01", "2026-06-10", "month", "Asia/Kathmandu")).toEqual([]);
  });

  test("go on where a run was stopped, not from the start", async () => {
    const world = await startUsage(jobs("2026-05-01", "hour"), "2026-06-01");
    await world.control("/faults", { faults: "forbidden@usage#4-" });
    expect(await runUsage(world)).toMatchObject({ status: "failed", requests: 4 });
    await world.control("/faults", { faults: "" });
    // Totals, and the three weeks that are left.
    expect(await runUsage(world)).toMatchObject({ status: "succeeded", requests: 4 });
    expect(await untruths(world, "2026-05-01", "2026-06-01", "hour")).toEqual([]);
  });

  test("have no hole where start_date was moved on while a pass was unfinished, and then back", async () => {
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

test("buckets that could be either of two are told, not left out in silence", async () => {
  const world = await startUsage(jobs("2026-06-05", "hour", "Asia/Kolkata"), "2026-06-08");
  // Half past ten by UTC's hours, or ten by the zone's: nothing in an answer with one bucket tells which.
  const bucket = { bucket_start: "2026-06-06T10:00:00Z", total_requests: 3 };
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    path.includes("bucketing_size")
      ? JSON.stringify({ results: [{ endpoint: "v2/enrich", total_requests: 3, buckets: [bucket] }] })
      : body,
  );
  world.serviceUrl = url;
  expect(await runUsage(world)).toMatchObject({ status: "succeeded" });
  expect(await world.value("SELECT count(*) FROM person_data_ops.endpoint_usage_bucket")).toBe("0");
  expect(world.notes).toEqual([
    expect.stringMatching(
      /^1 bucket from 2026-06-0\d to 2026-06-0\d could be either of two, or begins where none does, and was left out/u,
    ),
  ]);
  expect(world.logged).toContainEqual(
    expect.objectContaining({ level: "warn", event: "usage_buckets_unclear" }),
  );
});

describe("a checkpoint that is ahead of the service's clock", () => {
  const wrongYear = { from: "2026-03-01", next: "2027-06-07", resume_at: null };

  test.each([
    ["its next day", wrongYear],
    ["where an unfinished pass goes on", { ...wrongYear, next: "2026-05-30", resume_at: "2027-06-07" }],
  ])("by %s is put right, with everything read that it hid", async (_, cursor) => {
    const world = await startUsage(jobs("2026-03-01"), "2026-03-10");
    await runUsage(world);
    await setCursor(world, cursor);
    await goTo(world, "2026-06-10");
    await runUsage(world);
    expect(await untruths(world, "2026-03-01", "2026-06-10")).toEqual([]);
    expect(await world.value("SELECT cursor->>'next' FROM person_data_ops.checkpoint")).toBe("2026-06-07");
  });

  test("because that was wrong for one night: what it took for past and final is put right as its time comes", async () => {
    const world = await startUsage(jobs("2026-05-01"), "2026-06-10");
    await runUsage(world);
    await goTo(world, "2027-07-15");
    await runUsage(world);
    await goTo(world, "2026-06-11");
    await runUsage(world);
    expect(await finals(world)).toEqual([
      { is_final: "f", last: "2027-07-15" },
      { is_final: "t", last: "2026-06-07" },
    ]);
    await goTo(world, "2026-08-20");
    await runUsage(world);
    const stated = await statedBuckets(world, {
      size: "day",
      zone: "UTC",
      from: "2026-05-01",
      to: "2026-08-20",
    });
    const stored = await storedBuckets(world, "day", "UTC");
    for (const name of stored.keys())
      if (name.slice(name.indexOf(" ") + 1) > "2026-08-21") stored.delete(name);
    expect(differences(stored, stated)).toEqual([]);
  });
});
