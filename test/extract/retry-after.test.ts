import { expect, it } from "vitest";
import { parseRetryAfter } from "../../src/extract/retry.ts";

const now = Date.parse("2026-11-20T10:00:00Z");

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
  expect(parseRetryAfter(header, now)).toBe(expected);
});
