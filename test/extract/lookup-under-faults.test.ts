import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import type { Clock } from "../../src/clock.ts";
import { codeOf } from "../../src/errors.ts";
import { runLookup, someItems } from "./run-lookup.ts";
import {
  answerAll,
  envelope,
  resultOf,
  type ScriptedService,
  type SeenRequest,
  send,
  startService,
} from "./scripted-service.ts";
import * as fc from "../support/fast-check.ts";

type Fault =
  | "none"
  | "429"
  | "429 at once"
  | "503"
  | "500"
  | "502"
  | "cut"
  | "truncated"
  | "shuffled"
  | "doubled"
  | "some missing"
  | "no ids"
  | "422 unnamed"
  | "413"
  | "empty";

const anyFault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 8, arbitrary: fc.constant<Fault>("none") },
  {
    weight: 10,
    arbitrary: fc.constantFrom<Fault>(
      "429",
      "429 at once",
      "503",
      "500",
      "502",
      "cut",
      "truncated",
      "shuffled",
      "doubled",
      "some missing",
      "no ids",
      "422 unnamed",
      "413",
      "empty",
    ),
  },
);

/** Attempts of a record that may have been billed: only these must not be repeated more than once. */
const AMBIGUOUS: ReadonlySet<Fault> = new Set(["500", "502", "cut", "truncated"]);

function play(fault: Fault, request: SeenRequest, response: Parameters<typeof answerAll>[1]): void {
  const results = request.records.map(resultOf);
  switch (fault) {
    case "none":
      answerAll(request, response);
      break;
    case "429":
      send(response, 429, { code: "rate_limit_reached" }, { "retry-after": "3" });
      break;
    case "429 at once":
      send(response, 429, {}, { "retry-after": "0" });
      break;
    case "503":
    case "500":
    case "502":
      send(response, Number(fault), "<html></html>");
      break;
    case "cut":
      response.writeHead(200, { "content-length": "1000" });
      response.write("{", () => response.destroy());
      break;
    case "truncated":
      send(response, 200, JSON.stringify(envelope(results)).slice(0, -3));
      break;
    case "shuffled":
      send(response, 200, envelope(results.toReversed()));
      break;
    case "doubled":
      send(response, 200, envelope([...results, ...results]));
      break;
    case "some missing":
      send(response, 200, envelope(results.filter((_, i) => i % 2 === 1)));
      break;
    case "no ids":
      send(response, 200, envelope(results.map((result) => ({ ...result, record_id: undefined }))));
      break;
    case "422 unnamed":
      send(response, 422, { code: "unprocessable_entity", message: "no" });
      break;
    case "413":
      send(response, 413, { code: "payload_too_large" });
      break;
    case "empty":
      send(response, 200, envelope([]));
      break;
  }
}

/** Faults of the calls that carried each record. */
function faultsByRecord(service: ScriptedService, faults: readonly Fault[]): Map<string, Fault[]> {
  const found = new Map<string, Fault[]>();
  for (const { index, records } of service.requests) {
    for (const { record_id } of records) {
      const id = String(record_id);
      found.set(id, [...(found.get(id) ?? []), faults[index] ?? "none"]);
    }
  }
  return found;
}

/**
 * A clock that advances only by waits, at a five-thousandth of their length: a busy machine doesn't make a
 * service look as if it had failed for minutes.
 */
function sleepersClock(): Clock {
  let nowMs = Date.now();
  return {
    now: () => nowMs,
    async sleep(milliseconds, signal) {
      const endMs = nowMs + milliseconds;
      await delay(milliseconds / 5000, undefined, signal ? { signal } : {});
      nowMs = Math.max(nowMs, endMs);
    },
  };
}

it("under any faults every record comes out once, and none is retried after two ambiguous calls", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyFault, { maxLength: 40 }),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 4 }),
      async (faults, count, batchSize, concurrency) => {
        const service = await startService((request, response) => {
          play(faults[request.index] ?? "none", request, response);
        });
        try {
          const items = someItems(count);
          const run = await runLookup(service.url, items, {
            batchSize,
            concurrency,
            clock: sleepersClock(),
          });
          const came = [...run.answered, ...run.rejected, ...run.setAside];
          expect(new Set(came).size).toBe(came.length);
          for (const outcome of run.answers) {
            expect(outcome.results.map((result) => result?.["city"])).toEqual(
              outcome.items.map((item) => `c${item.recordId.slice(1)}`),
            );
          }
          const ambiguousCalls = [...faultsByRecord(service, faults).values()].map(
            (met) => met.filter((fault) => AMBIGUOUS.has(fault)).length,
          );
          expect(Math.max(0, ...ambiguousCalls)).toBeLessThanOrEqual(2);
          expect(run.attempts).toHaveLength(service.requests.length);
          expect(run.sent).toEqual([...new Set(run.sent)]);
          // Every outcome belongs to a sent record; a stopped job may have sent more.
          expect(run.sent).toEqual(expect.arrayContaining(came));
          const lost = items.map((item) => item.recordId).filter((id) => !came.includes(id));
          expect(run.error === null ? lost : []).toEqual([]);
          expect([undefined, "similar_failures", "service_failing"]).toContain(
            codeOf(run.error) ?? undefined,
          );
        } finally {
          await service.close();
        }
      },
    ),
    { numRuns: 150 },
  );
});
