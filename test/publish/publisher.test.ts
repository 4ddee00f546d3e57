import { afterAll, beforeAll, expect, test } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { JobLockedError, LimitReachedError, StopRunError } from "../../src/errors.ts";
import {
  createPublisher,
  publishExitCode,
  type PublishResult,
  type ScheduledPublication,
} from "../../src/jobs/publish/publisher.ts";
import { silentLog } from "../../src/log.ts";
import { catalogOf } from "../../src/publish/destination.ts";
import { createMemoryDestination } from "./memory-destination.ts";
import { openSourceContext, type SourceContext } from "./publication-context.ts";

let source: SourceContext;
beforeAll(async () => {
  source = await openSourceContext();
});
afterAll(() => source.close());

function failing(
  name: string,
  error: Error,
  everyMs: number | null = null,
  calls: string[] = [],
): ScheduledPublication {
  const destination = createMemoryDestination(name);
  const migrate = () => {
    calls.push(name);
    return Promise.reject(error);
  };
  return {
    db: source.db,
    destination: { ...destination, migrate },
    catalog: catalogOf(null),
    folder: `/tmp/person-etl-never-${name}`,
    log: silentLog,
    everyMs,
  };
}

const statuses = (results: readonly PublishResult[]) =>
  results.map(({ destination, status }) => [destination, status]);

test("a failing destination doesn't block the others", async () => {
  const publisher = createPublisher([
    failing("a", new StopRunError("destination_failed", "down")),
    failing("b", new LimitReachedError("publication_refused", "refused")),
    failing("c", new JobLockedError("held")),
  ]);
  const results = await publisher.publish();
  expect(statuses(results)).toEqual([
    ["a", "failed"],
    ["b", "refused"],
    ["c", "locked"],
  ]);
  expect(results[0]?.error).toEqual({ code: "destination_failed", message: "down" });
  expect(statuses(await publisher.publish(["b"]))).toEqual([["b", "refused"]]);
  await publisher.close();
});

test("an unknown error is reported without its message, which may quote a value", async () => {
  const error = Object.assign(new Error('Could not parse "ann@example.com" as INT64'), {
    code: "invalidQuery",
  });
  const publisher = createPublisher([failing("a", error)]);
  const [found] = await publisher.publish();
  await publisher.close();
  expect(found).toMatchObject({
    status: "failed",
    error: {
      code: "invalidQuery",
      message:
        "Unexpected error while publishing to a (Error: invalidQuery). Completed work is kept. Run again with --log-level debug to see where it happened; docs/operating.md says what else to look at.",
    },
  });
});

const result = (status: PublishResult["status"]): PublishResult => ({
  destination: "d",
  status,
  batches: 0,
  rows: 0,
  tables_differing: null,
  seconds: 0,
});

test("a failure outranks a lock, and a lock a refusal", () => {
  expect(publishExitCode([result("published")])).toBe(0);
  expect(publishExitCode([result("published"), result("refused")])).toBe(3);
  expect(publishExitCode([result("locked"), result("refused")])).toBe(4);
  expect(publishExitCode([result("refused"), result("failed"), result("locked")])).toBe(1);
});

test("destinations with an interval are published repeatedly until the publisher is closed", async () => {
  const calls: string[] = [];
  const publisher = createPublisher([
    failing("often", new Error("down"), 60_000, calls),
    failing("never", new Error("down"), null, calls),
  ]);
  const sleeps: number[] = [];
  const clock: Clock = {
    now: () => 0,
    sleep(milliseconds, signal) {
      sleeps.push(milliseconds);
      if (sleeps.length <= 2) return Promise.resolve();
      return new Promise((_, reject) =>
        signal?.addEventListener("abort", () => reject(new Error("aborted"))),
      );
    },
  };
  publisher.startIntervals(clock);
  await expect.poll(() => sleeps.length).toBe(3);
  await publisher.close();
  expect([calls, sleeps]).toEqual([
    ["often", "often"],
    [60_000, 60_000, 60_000],
  ]);
});
