import { describe, expect, it } from "vitest";
import {
  type CallOutcome,
  decideRetry,
  type Decision,
  isPossiblyBilled,
  parseRetryAfter,
  redirected,
} from "../../src/extract/retry.ts";
import { response } from "./drive.ts";
import * as fc from "../support/fast-check.ts";

const first = { refusals: 0, unansweredCalls: 0, random: 0.5 };
const status = (code: number, retryAfterMs: number | null = null): CallOutcome => ({
  kind: "status",
  status: code,
  retryAfterMs,
});

const stop = (code: string): Decision => ({ action: "stop_job", code });
const after = (afterMs: number): Decision => ({ action: "retry", afterMs });
const setAside: Decision = { action: "set_aside" };

/** Decisions after the first and the second attempt; the same one if there is only one. */
const table: readonly [string, CallOutcome, boolean, Decision, Decision?][] = [
  ["an answer", { kind: "answer" }, false, { action: "accept" }],
  ["no connection", { kind: "not_sent" }, false, after(500), after(1000)],
  ["a lost reply", { kind: "lost" }, true, after(2500), setAside],
  ["301", status(301), false, { action: "stop_run", code: "redirected" }],
  ["400", status(400), false, { action: "isolate" }],
  ["401", status(401), false, { action: "renew_key" }],
  ["402", status(402), false, { action: "use_capacity" }],
  ["403", status(403), false, stop("forbidden")],
  ["404", status(404), false, stop("not_found")],
  ["405", status(405), false, stop("method_not_allowed")],
  ["408", status(408), true, setAside],
  ["409", status(409), false, stop("unexpected_status")],
  ["413", status(413), false, { action: "halve" }],
  ["422", status(422), false, { action: "isolate" }],
  ["429", status(429), false, after(500), after(1000)],
  ["503", status(503), false, after(500), after(1000)],
  ...[500, 502, 504, 599, 204].map((code): [string, CallOutcome, boolean, Decision, Decision] => [
    String(code),
    status(code),
    true,
    after(2500),
    setAside,
  ]),
];

describe("the retry decision", () => {
  it.each(table)("on %s", (_name, outcome, possiblyBilled, afterFirst, afterSecond = afterFirst) => {
    expect(isPossiblyBilled(outcome)).toBe(possiblyBilled);
    expect(decideRetry(outcome, first)).toEqual(afterFirst);
    const second = possiblyBilled ? { ...first, unansweredCalls: 1 } : { ...first, refusals: 1 };
    expect(decideRetry(outcome, second)).toEqual(afterSecond);
  });

  it("waits as long as Retry-After asks, but never longer than five minutes", () => {
    expect(decideRetry(status(429, 7000), first)).toEqual({ action: "retry", afterMs: 7000 });
    expect(decideRetry(status(503, 86_400_000), first)).toEqual({ action: "retry", afterMs: 300_000 });
    expect(decideRetry(status(500, 9000), first)).toEqual({ action: "retry", afterMs: 9000 });
  });

  it("waits at most five seconds after a 429 that asks for nothing, so that the end of a storm is noticed soon", () => {
    const storm = { refusals: 20, unansweredCalls: 0, random: 0.999 };
    expect(decideRetry(status(429), storm)).toEqual({ action: "retry", afterMs: 4995 });
    expect(decideRetry(status(503), storm)).toEqual({ action: "retry", afterMs: 59_940 });
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
  unansweredCalls: fc.nat(3),
  random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
});

describe("for any response", () => {
  it("no record is sent a third time after two possibly billed tries", () => {
    fc.assert(
      fc.property(anyOutcome, anyHistory, (outcome, history) => {
        if (!isPossiblyBilled(outcome) || history.unansweredCalls < 1) return;
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

it.each([
  ["120", 120_000],
  [" 0 ", 0],
  ["1.5", 1500],
  ["Fri, 20 Nov 2026 10:00:30 GMT", 30_000],
  ["Friday, 20-Nov-26 10:00:30 GMT", 30_000],
  ["Fri, 20 Nov 2026 09:00:00 GMT", 0],
  [null, null],
  ["", null],
  ["soon", null],
  ["-5", null],
  ["2026", 2_026_000],
])("Retry-After %j asks for a wait of %j ms", (header, expected) => {
  expect(parseRetryAfter(header, Date.parse("2026-11-20T10:00:00Z"))).toBe(expected);
});

it("a redirect reports no more than where it points to", () => {
  const location = "https://elsewhere.example/First30.Last30/the-api-key?next=secret";
  const error = redirected("POST /v2/enrich", "https://api.example", response(308, {}, location));
  expect(error.message).toMatch(/308 and points to https:\/\/elsewhere\.example\. Redirects .* has moved\.$/);
});
