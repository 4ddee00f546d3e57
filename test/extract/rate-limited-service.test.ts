import { expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { call, sandboxFor } from "../../packages/sandbox/test/support.ts";
import { addressItems, runLookup } from "./run-lookup.ts";

it.each([null, 1])(
  "80 calls to a service that takes 20 per second need four seconds (Retry-After: %s)",
  async (retryAfter) => {
    const sandbox = await sandboxFor({ latencyMs: 100 });
    await call(sandbox, "/_sandbox/rate", { requests_per_second: 20, retry_after: retryAfter });
    const addresses = Array.from({ length: 320 }, (_, n) => `nobody${n}@elsewhere.example`);
    const began = performance.now();
    const run = await runLookup(sandbox.url, addressItems(addresses), {
      clock: systemClock,
      concurrency: 16,
      batchSize: 4,
    });
    const seconds = (performance.now() - began) / 1000;
    expect(run.error).toBeNull();
    expect(run.answered).toHaveLength(320);
    // The first 20 calls are a burst; a busy machine takes longer.
    expect(seconds).toBeGreaterThan(2.9);
    expect(seconds).toBeLessThan(7);
    expect(run.attempts.filter(({ httpStatus }) => httpStatus === 429).length).toBeLessThan(40);
  },
);
