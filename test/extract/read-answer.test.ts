import { describe, expect, it } from "vitest";
import { cutAnswer } from "../../src/extract/answer-body.ts";
import { readAnswer } from "../../src/extract/read-answer.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { JsonObject } from "../../src/schemas/flatten.ts";
import * as fc from "../support/fast-check.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");

/** Reads a body and keeps its results unchanged. */
async function readPlainly(body: Buffer, pieceBytes?: number) {
  return await readAnswer<JsonObject>(body, {
    endpoint: "POST /v2/enrich",
    keyField: "record_id",
    isMatch: enrichEndpoint.isMatch,
    read: (result) => result,
    receivedAt: "2026-11-21T01:00:01.500+00:00",
    ...(pieceBytes === undefined ? {} : { pieceBytes }),
  });
}

/** Only the results. */
async function resultsOf(body: string, pieceBytes?: number) {
  const answer = await readPlainly(bytes(body), pieceBytes);
  return answer.kind === "answer" ? answer.results.map((found) => found?.value) : answer.reason;
}

/** A value nested this deeply. */
const nested = (levels: number) => `${"[".repeat(levels)}1${"]".repeat(levels)}`;

/** Fields with different names. */
const fields = (count: number) =>
  Array.from({ length: count }, (_, n) => `"name_of_a_field_${n}":${n}`).join(",");

describe("an answer", () => {
  it("gives its results, id and time, whatever else it holds", async () => {
    const body =
      '{"api_request_id":"r1","results":[{"record_id":"a","is_match":"yes"},{"is_match":"no"},7],' +
      '"request_completed_at":"2026-11-20T01:02:03.123456Z","new":2}';
    expect(await readPlainly(bytes(body))).toEqual({
      kind: "answer",
      results: [
        { key: "a", isMatch: true, value: { record_id: "a", is_match: "yes" } },
        { key: null, isMatch: false, value: { is_match: "no" } },
        undefined,
      ],
      apiRequestId: "r1",
      requestCompletedAt: "2026-11-20T01:02:03.123456+00:00",
      answeredAt: "2026-11-20T01:02:03.123456+00:00",
      drift: [],
      plainBytes: body.length,
    });
  });

  it("may lack everything but results, and may hold other types", async () => {
    expect(
      await readPlainly(bytes('{"results":[],"api_request_id":12,"request_completed_at":"later"}')),
    ).toMatchObject({
      kind: "answer",
      apiRequestId: "12",
      requestCompletedAt: null,
      answeredAt: "2026-11-21T01:00:01.500+00:00",
    });
  });

  it("has no ID if that is free text, which could be personal data", async () => {
    expect(
      await readPlainly(bytes('{"results":[],"api_request_id":"Ann Lee, ann@example.com"}')),
    ).toMatchObject({
      apiRequestId: null,
    });
  });

  it.each([
    ["9999-12-31T23:59:59.999999Z", "2026-11-21T01:00:01.500+00:00"],
    ["0001-01-01T00:00:00Z", "2026-11-21T01:00:01.500+00:00"],
    ["2029-01-01T00:00:00.000001Z", "2029-01-01T00:00:00.000001+00:00"],
    ["2024-03-01T00:00:00Z", "2024-03-01T00:00:00+00:00"],
  ])("that says it was completed at %s counts as of %s", async (stated, answeredAt) => {
    expect(await readPlainly(bytes(`{"results":[],"request_completed_at":"${stated}"}`))).toMatchObject({
      answeredAt,
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
  ])("is not %s", async (body, reason) => {
    expect(await readPlainly(bytes(body))).toEqual({ kind: "unreadable", reason });
  });

  it.each([
    ['{"results":[{"a":"a\\u0000b"}]}', "a\uFFFDb", "nul_character"],
    ['{"results":[{"a":"\\ud83d"}]}', "\uFFFD", "lone_surrogate"],
  ])("of %s holds no character that can't be stored", async (body, text, observedType) => {
    expect(await readPlainly(bytes(body))).toMatchObject({
      results: [{ value: { a: text } }],
      drift: [{ path: "a", kind: "unexpected_type", observedType, occurrences: 1 }],
    });
  });

  it("nested thousands of levels deep keeps the digits of its numbers, and what is deeper as text", async () => {
    expect(await resultsOf(`{"results":[{"a":1},{"c":${nested(20_000)}}]}`)).toMatchObject([{ a: 1 }, {}]);
    const [first, second] = await resultsOf(
      `{"results":[{"a":1e400},{"b":12345678901234567890,"c":${nested(20_000)},"d":[2]}]}`,
    );
    expect(JSON.stringify(first)).toBe('{"a":1e400}');
    // The object is the first of 1,000 levels.
    const text = `${"[".repeat(999)}"${nested(20_000 - 999)}"${"]".repeat(999)}`;
    expect(JSON.stringify(second)).toBe(`{"b":12345678901234567890,"c":${text},"d":[2]}`);
  });

  it("of a million lists is read", async () => {
    expect(await resultsOf(`{"results":[${"[],".repeat(1_000_000)}[]]}`)).toHaveLength(1_000_001);
  });

  it("of one text of 16 MB is read", async () => {
    const text = `{"results":[{"a":"${"x".repeat(16 * 1024 * 1024)}"}]}`;
    expect(await resultsOf(text)).toMatchObject([{ a: expect.any(String) }]);
  });

  it("with fields beyond 1,000 in an object of a large result has these as one text", async () => {
    const wide = `{"record_id":"w","more":[{${fields(100_000)}}],"last":"x"}`;
    const [first, second] = await readPlainly(
      bytes(`{"results":[{"record_id":"s","a":{${fields(2000)}}},${wide}]}`),
    ).then((answer) => (answer.kind === "answer" ? answer.results : []));
    expect(Object.keys(Object(first?.value?.["a"]))).toHaveLength(2000);
    const { more, ...others } = second?.value ?? {};
    expect(others).toEqual({ record_id: "w", last: "x" });
    const [kept] = Array.isArray(more) ? more : [];
    const { _rest: rest, ...firstFields } = kept;
    expect(firstFields).toEqual(JSON.parse(`{${fields(1000)}}`));
    expect(JSON.parse(`{${fields(1000)},${rest}}`)).toEqual(JSON.parse(`{${fields(100_000)}}`));
  });

  it.each([
    ["a text of 33 MB", `"x":"${"x".repeat(33 * 1024 * 1024)}"`],
    ["a list of two million objects", `"x":[${"{},".repeat(2_000_000)}{}]`],
    [
      "300,000 different names",
      `"x":[${Array.from({ length: 300_000 }, (_, n) => `{"n${n}":1}`).join(",")}]`,
    ],
  ])("has no value for a result with %s, and all others", async (_, field) => {
    const body = `{"results":[{"record_id":"a"},{"record_id":"b","is_match":true,${field}},{"record_id":"c"}]}`;
    expect(await readPlainly(bytes(body))).toMatchObject({
      results: [
        { key: "a", value: { record_id: "a" } },
        { key: "b", isMatch: true, value: null },
        { key: "c", value: { record_id: "c" } },
      ],
    });
  });

  it("keeps text to the code point", async () => {
    expect(
      await resultsOf('\uFEFF{"results":[{"a":"Zoë 😀 \u2028"},{"a":"\\uD83D\\uDE00 \\u00e9"}]}'),
    ).toEqual([{ a: "Zoë 😀 \u2028" }, { a: "😀 é" }]);
  });
});

/** Bodies with a list of results, with keys before, after and around it. */
const records = fc.array(
  fc.record(
    {
      record_id: fc.oneof(fc.string({ unit: "binary" }), fc.integer(), fc.constant(null)),
      name: fc.string({ unit: "grapheme" }),
      nested: fc.array(fc.record({ record_id: fc.constant("x"), s: fc.constantFrom("},{", '"record_id"') })),
      value: fc.jsonValue(),
    },
    { requiredKeys: ["record_id"] },
  ),
  { maxLength: 30 },
);
const envelopes = fc
  .tuple(records, fc.dictionary(fc.string(), fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue()))
  .map(([results, before, after]) => ({ ...before, results, ...after }));

describe("a long answer", () => {
  it("read in pieces of any size is the same as read at once", async () => {
    await fc.assert(
      fc.asyncProperty(
        envelopes,
        fc.integer({ min: 1, max: 400 }),
        fc.constantFrom(0, 1),
        async (e, n, indent) => {
          const body = bytes(JSON.stringify(e, null, indent));
          expect(await readPlainly(body, n)).toEqual(await readPlainly(body, 1e9));
        },
      ),
      { numRuns: 500 },
    );
  });

  it("read in pieces after any damage is the same as read at once", async () => {
    const damage = fc.tuple(
      fc.nat(),
      fc.nat(8),
      fc.string({ unit: fc.constantFrom(...Array.from('{}[],:"\\ae1')) }),
    );
    await fc.assert(
      fc.asyncProperty(envelopes, fc.integer({ min: 1, max: 200 }), damage, async (e, n, [at, cut, put]) => {
        const text = JSON.stringify(e);
        const position = at % (text.length + 1);
        const body = bytes(text.slice(0, position) + put + text.slice(position + cut));
        expect(await readPlainly(body, n)).toEqual(await readPlainly(body, 1e9));
      }),
      { numRuns: 2000 },
    );
  });

  const long = JSON.stringify({
    results: Array.from({ length: 40 }, (_, n) => ({ record_id: String(n), name: "Zoë" })),
  });

  it("is cut between results", () => {
    const pieces = cutAnswer(bytes(long), 100) ?? [];
    expect(pieces.length).toBeGreaterThan(8);
    expect(bytes(long).toString("utf8", pieces[0]?.start, pieces[0]?.end)).toMatch(/^\{"results":\[\{.*\}$/);
  });

  it("is not cut where another list or a second list of results follows", async () => {
    const other = long.replace('"results"', '"results":[{"record_id":"x"}],"others"');
    expect(await resultsOf(other, 100)).toEqual([{ record_id: "x" }]);
    const second = `${long.slice(0, -1)},"results":[{"record_id":"y"}]}`;
    expect(await resultsOf(second, 100)).toEqual([{ record_id: "y" }]);
  });
});
