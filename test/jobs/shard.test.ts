import { describe, expect, test } from "vitest";
import {
  readShard,
  type Shard,
  shardText,
  shareLimits,
  shareOf,
  wholeInput,
} from "../../src/jobs/services.ts";
import { load } from "../config/support.ts";
import { configOf } from "./world.ts";
import * as fc from "../support/fast-check.ts";

const shardsOf = (count: number): readonly Shard[] =>
  Array.from({ length: count }, (_, index) => ({ index, count }));

describe("a shard", () => {
  test.each(["0/1", "0/2", "1/2", "31/32", "999/1000"])("%s is read, and written again alike", (text) => {
    const shard = readShard(text);
    expect(shard && shardText(shard)).toBe(text);
  });

  test.each([
    "",
    "1",
    "1/1",
    "2/2",
    "0/0",
    "-1/2",
    "1/-2",
    "0.5/2",
    "1/2/3",
    " 1/2",
    "1/2 ",
    "a/b",
    "0/9007199254740993",
  ])("%j is none", (text) => {
    expect(readShard(text)).toBe(null);
  });
});

describe("a limit that shards share", () => {
  test("is parted without a remainder, and as evenly as can be", () => {
    expect(shardsOf(3).map((shard) => shareOf(8, shard))).toEqual([3, 3, 2]);
    expect(shardsOf(4).map((shard) => shareOf(2, shard))).toEqual([1, 1, 0, 0]);
    expect(shareOf(100_000, wholeInput)).toBe(100_000);
    fc.assert(
      fc.property(fc.nat(1_000_000), fc.integer({ min: 1, max: 50 }), (limit, count) => {
        const shares = shardsOf(count).map((shard) => shareOf(limit, shard));
        expect(shares.reduce((sum, share) => sum + share, 0)).toBe(limit);
        expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test("applies to calls in flight, calls per second, records per run, and records above which the user is asked", async () => {
    const text = configOf(
      `
  resolve_customers: { type: resolve, input: customers }
  enrich_customers: { type: enrich, input: customers }`,
      "confirm_above: { records: 10000, ratio: 0.2 }",
    ).replace(
      "concurrency: 4",
      "concurrency: 6\n  requests_per_second: 10\n  limits: { /v2/enrich: { requests_per_second: 2 } }",
    );
    const env = {
      SERVICE_URL: "https://service.example",
      SERVICE_KEY: "k",
      WAREHOUSE_URL: "postgresql://h/d",
    };
    const config = await load(text, { env });
    const shares = shardsOf(4).map((shard) => shareLimits(config, shard));
    expect(shares.map((share) => share.service.concurrency)).toEqual([2, 2, 1, 1]);
    expect(shares.map((share) => share.service.requestsPerSecond)).toEqual([2.5, 2.5, 2.5, 2.5]);
    expect(shares[3]?.service.limits).toEqual({ "/v2/enrich": { requestsPerSecond: 0.5 } });
    expect(shares[0]?.confirmAbove).toEqual({ records: 2500, ratio: 0.2 });
    expect(shareLimits(config, { index: 7, count: 8 }).service.concurrency).toBe(1);
    expect(shareLimits(config, wholeInput)).toEqual(config);
  });
});
