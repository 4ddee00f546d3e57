import { describe, expect, it } from "vitest";
import { type CallOutcome, decideRetry, type Decision, isPossiblyBilled } from "../../src/extract/retry.ts";
import * as fc from "../support/fast-check.ts";

const first = { refusals: 0, possiblyBilled: 0, random: 0.5 };
const status = (code: number, retryAfterMs: number | null = null): CallOutcome => ({
  kind: "status",
  status: code,
  retryAfterMs,
});

const table: readonly [string, CallOutcome, boolean, Decision, Decision][] = [
  // Response, possibly billed, decision after the first attempt, decision after the second.
  ["an answer", { kind: "answer" }, false, { action: "accept" }, { action: "accept" }],
  [
    "no connection",
    { kind: "not_sent" },
    false,
    { action: "retry", afterMs: 500 },
    { action: "retry", afterMs: 1000 },
  ],
  ["a lost reply", { kind: "lost" }, true, { action: "retry", afterMs: 2500 }, { action: "set_aside" }],
  [
    "301",
    status(301),
    false,
    { action: "stop_run", code: "redirected" },
    { action: "stop_run", code: "redirected" },
  ],
  ["400", status(400), false, { action: "isolate" }, { action: "isolate" }],
  ["401", status(401), false, { action: "renew_key" }, { action: "renew_key" }],
  ["402", status(402), false, { action: "use_capacity" }, { action: "use_capacity" }],
  [
    "403",
    status(403),
    false,
    { action: "stop_job", code: "forbidden" },
    { action: "stop_job", code: "forbidden" },
  ],
  [
    "404",
    status(404),
    false,
    { action: "stop_job", code: "not_found" },
    { action: "stop_job", code: "not_found" },
  ],
  [
    "405",
    status(405),
    false,
    { action: "stop_job", code: "method_not_allowed" },
    { action: "stop_job", code: "method_not_allowed" },
  ],
  ["408", status(408), true, { action: "set_aside" }, { action: "set_aside" }],
  [
    "409",
    status(409),
    false,
    { action: "stop_job", code: "unexpected_status" },
    { action: "stop_job", code: "unexpected_status" },
  ],
  ["413", status(413), false, { action: "halve" }, { action: "halve" }],
  ["422", status(422), false, { action: "isolate" }, { action: "isolate" }],
  ["429", status(429), false, { action: "retry", afterMs: 500 }, { action: "retry", afterMs: 1000 }],
  ["500", status(500), true, { action: "retry", afterMs: 2500 }, { action: "set_aside" }],
  ["502", status(502), true, { action: "retry", afterMs: 2500 }, { action: "set_aside" }],
  ["503", status(503), false, { action: "retry", afterMs: 500 }, { action: "retry", afterMs: 1000 }],
  ["504", status(504), true, { action: "retry", afterMs: 2500 }, { action: "set_aside" }],
  ["599", status(599), true, { action: "retry", afterMs: 2500 }, { action: "set_aside" }],
  ["204", status(204), true, { action: "retry", afterMs: 2500 }, { action: "set_aside" }],
];

describe("the retry decision", () => {
  it.each(table)("on %s", (_name, outcome, possiblyBilled, afterFirst, afterSecond) => {
    expect(isPossiblyBilled(outcome)).toBe(possiblyBilled);
    expect(decideRetry(outcome, first)).toEqual(afterFirst);
    const second = possiblyBilled ? { ...first, possiblyBilled: 1 } : { ...first, refusals: 1 };
    expect(decideRetry(outcome, second)).toEqual(afterSecond);
  });

  it("waits as long as Retry-After asks, but never longer than five minutes", () => {
    expect(decideRetry(status(429, 7000), first)).toEqual({ action: "retry", afterMs: 7000 });
    expect(decideRetry(status(503, 86_400_000), first)).toEqual({ action: "retry", afterMs: 300_000 });
    expect(decideRetry(status(500, 9000), first)).toEqual({ action: "retry", afterMs: 9000 });
  });

  it("waits at most five seconds after a 429 that asks for nothing, so that the end of a storm is noticed soon", () => {
    const storm = { refusals: 20, possiblyBilled: 0, random: 0.999 };
    expect(decideRetry(status(429), storm)).toEqual({ action: "retry", afterMs: 4995 });
    expect(decideRetry(status(503), storm)).toEqual({ action: "retry", afterMs: 59_940 });
  });

  it("sets a batch aside after thirty 503s", () => {
    expect(decideRetry(status(503), { ...first, refusals: 28 })).toEqual({
      action: "retry",
      afterMs: 30_000,
    });
    expect(decideRetry(status(503), { ...first, refusals: 29 })).toEqual({ action: "set_aside" });
  });
});

const anyOutcome: fc.Arbitrary<CallOutcome> = fc.oneof(
  fc.constant<CallOutcome>({ kind: "not_sent" }),
  fc.constant<CallOutcome>({ kind: "lost" }),
  fc.record({
    kind: fc.constant("status" as const),
    status: fc.oneof(fc.integer({ min: 201, max: 599 }), fc.constantFrom(429, 500, 502, 503, 504)),
    retryAfterMs: fc.option(fc.integer({ min: 0, max: 1e12 })),
  }),
);
const anyHistory = fc.record({
  refusals: fc.nat(100_000),
  possiblyBilled: fc.nat(3),
  random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
});

describe("for any response", () => {
  it("no record is sent a third time after two possibly billed tries", () => {
    fc.assert(
      fc.property(anyOutcome, anyHistory, (outcome, history) => {
        if (!isPossiblyBilled(outcome) || history.possiblyBilled < 1) return;
        expect(decideRetry(outcome, history).action).toBe("set_aside");
      }),
    );
  });

  it("no 4xx except 429 is retried unchanged", () => {
    fc.assert(
      fc.property(fc.integer({ min: 400, max: 499 }), anyHistory, (code, history) => {
        expect(decideRetry(status(code), history).action === "retry").toBe(code === 429);
      }),
    );
  });

  it("a wait is a whole number of milliseconds, not negative and at most five minutes", () => {
    fc.assert(
      fc.property(anyOutcome, anyHistory, (outcome, history) => {
        const decision = decideRetry(outcome, history);
        if (decision.action !== "retry") return;
        expect(Number.isInteger(decision.afterMs)).toBe(true);
        expect(decision.afterMs).toBeGreaterThanOrEqual(0);
        expect(decision.afterMs).toBeLessThanOrEqual(300_000);
      }),
    );
  });
});
