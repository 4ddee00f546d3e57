import { gzipSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decompress, parseExact, readEnvelope } from "../../src/extract/answer-body.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");

describe("numbers", () => {
  it.each([
    "9007199254740993",
    "12345678901234567890",
    "0.1234567890123456789",
    "123456789012345678.25",
    "1e400",
    "1e-400",
    "-9007199254740993",
    "1234567890123456.10",
  ])("%s keeps its digits", (source) => {
    const parsed = parseExact(`{"results":[{"a":${source}}]}`);
    expect(JSON.stringify(parsed)).toBe(`{"results":[{"a":${source}}]}`);
  });

  it.each([
    ["1.25e5", 125_000],
    ["87.35000000000001", 87.35000000000001],
    ["9007199254740992", 9_007_199_254_740_992],
    ["0.30", 0.3],
    ["-12", -12],
    ["1e-007", 1e-7],
    ["0.000000000000000000", 0],
  ])("%s is a plain number", (source, expected) => {
    expect(parseExact(`[${source}]`)).toEqual([expected]);
  });

  it("keep all else readable beside nesting of any depth", () => {
    const deep = `${"[".repeat(10_000)}1${"]".repeat(10_000)}`;
    expect(readEnvelope(bytes(`{"results":[{"a":1},{"b":1e400,"c":${deep}}]}`))).toMatchObject({
      kind: "envelope",
      results: [{ a: 1 }, {}],
    });
  });

  it("digits inside text are text", () => {
    expect(parseExact('["x:12345678901234567890,12345678901234567890"]')).toEqual([
      "x:12345678901234567890,12345678901234567890",
    ]);
  });

  it("of any length and magnitude equal what was sent", () => {
    const decimals = fc
      .tuple(fc.boolean(), fc.bigInt({ min: 0n, max: 10n ** 30n }), fc.integer({ min: 0, max: 25 }))
      .map(([isNegative, digits, scale]) => {
        const padded = digits.toString().padStart(scale + 1, "0");
        const whole = padded.slice(0, padded.length - scale);
        const fraction = scale === 0 ? "" : `.${padded.slice(-scale)}`;
        return {
          text: `${isNegative ? "-" : ""}${whole}${fraction}`,
          digits: isNegative ? -digits : digits,
          scale,
        };
      });
    fc.assert(
      fc.property(decimals, ({ text, digits, scale }) => {
        const parsed = JSON.stringify(parseExact(`{"a": ${text}}`)).slice(5, -1);
        const [mantissa = "", exponent = "0"] = parsed.split("e");
        const [whole = "", fraction = ""] = mantissa.split(".");
        const shift = scale - fraction.length + Number(exponent);
        const unscaled = BigInt(whole.replace("-", "") + fraction) * (whole.startsWith("-") ? -1n : 1n);
        expect(shift >= 0 ? unscaled * 10n ** BigInt(shift) : unscaled).toBe(
          shift >= 0 ? digits : digits * 10n ** BigInt(-shift),
        );
      }),
    );
  });
});

describe("an envelope", () => {
  it("gives its results, id, time and what else it holds", () => {
    const body =
      '{"api_request_id":"r1","results":[{"a":1}],"request_completed_at":"2026-11-20T01:02:03.123456Z","new":2}';
    expect(readEnvelope(bytes(body))).toEqual({
      kind: "envelope",
      results: [{ a: 1 }],
      apiRequestId: "r1",
      requestCompletedAt: "2026-11-20T01:02:03.123456+00:00",
      unknownFields: { new: 2 },
      hasControlText: false,
      plainBytes: body.length,
    });
  });

  it("may lack everything but results, and may hold other types", () => {
    expect(
      readEnvelope(bytes('{"results":[],"api_request_id":12,"request_completed_at":"later"}')),
    ).toMatchObject({
      kind: "envelope",
      apiRequestId: "12",
      requestCompletedAt: null,
    });
  });

  it.each([
    ['{"results":[{"a":1}', "no_json"],
    ["<html>502</html>", "no_json"],
    ["", "no_json"],
    ["[]", "no_results"],
    ["null", "no_results"],
    ["{}", "no_results"],
    ['{"results":null}', "no_results"],
    ['{"results":{}}', "no_results"],
  ])("is not %s", (body, reason) => {
    expect(readEnvelope(bytes(body))).toEqual({ kind: "unreadable", reason });
  });

  it.each([
    ['{"results":["a\\u0000b"]}', true],
    ['{"results":["\\ud83d"]}', true],
    ['{"results":["\\uD83D\\uDE00"]}', true],
    ['{"results":["\\u00e9 \\n 😀"]}', false],
  ])("of %s tells whether its text needs a closer look: %s", (body, expected) => {
    expect(readEnvelope(bytes(body))).toMatchObject({ hasControlText: expected });
  });

  it("keeps text to the code point", () => {
    expect(readEnvelope(bytes('\uFEFF{"results":["Zoë 😀 \u2028"]}'))).toMatchObject({
      results: ["Zoë 😀 \u2028"],
    });
  });
});

describe("compression", () => {
  it("is undone", async () => {
    expect(await decompress(gzipSync("hello"), "gzip")).toEqual({ kind: "plain", bytes: bytes("hello") });
    expect(await decompress(bytes("hello"), null)).toEqual({ kind: "plain", bytes: bytes("hello") });
  });

  it("that is cut, unknown or a bomb makes a body unreadable", async () => {
    const whole = gzipSync("hello ".repeat(1000));
    expect(await decompress(whole.subarray(0, 20), "gzip")).toEqual({
      kind: "unreadable",
      reason: "broken_compression",
    });
    expect(await decompress(whole, "br")).toEqual({ kind: "unreadable", reason: "unknown_encoding" });
    expect(await decompress(gzipSync(Buffer.alloc(1_000_000)), "gzip", 100_000)).toEqual({
      kind: "unreadable",
      reason: "body_too_large",
    });
  });
});
