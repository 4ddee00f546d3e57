import { describe, expect, it, test, vi } from "vitest";
import { openResults, readAnswer } from "../../src/extract/read-answer.ts";
import { DriftLog } from "../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { JsonObject } from "../../src/schemas/flatten.ts";
import * as fc from "../support/fast-check.ts";
import { sized } from "../support/test-size.ts";

const bytes = (text: string) => Buffer.from(text, "utf8");

/** Reads a body and keeps its results unchanged. */
async function readPlainly(body: Buffer, more: { maxResults?: number; discard?: () => void } = {}) {
  return await readAnswer<JsonObject>(body, {
    endpoint: "POST /v2/enrich",
    keyField: "record_id",
    isMatch: enrichEndpoint.isMatch,
    read: (result) => result,
    discard() {},
    receivedAt: "2026-11-21T01:00:01.500+00:00",
    maxResults: 2_000_000,
    ...more,
  });
}

/** Only the results. */
async function resultsOf(body: string) {
  const answer = await readPlainly(bytes(body));
  return answer.kind === "answer" ? answer.results.map((found) => found?.value) : answer.reason;
}

/** A value nested this deeply. */
const nested = (levels: number) => `${"[".repeat(levels)}1${"]".repeat(levels)}`;

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
      completedAt: "2026-11-20T01:02:03.123456+00:00",
      drift: [
        expect.objectContaining({ path: "response.new", kind: "unknown_field", observedType: "number" }),
      ],
      plainBytes: body.length,
    });
  });

  it.each([
    ["no more than results, and other types", 12, "12"],
    ["free text as its ID, which could be personal data", "Ann Lee, ann@example.com", null],
  ])("may hold %s", async (_, id, apiRequestId) => {
    const body = JSON.stringify({ results: [], api_request_id: id, request_completed_at: "later" });
    expect(await readPlainly(bytes(body))).toMatchObject({
      kind: "answer",
      apiRequestId,
      requestCompletedAt: null,
      completedAt: "2026-11-21T01:00:01.500+00:00",
    });
  });

  it.each([
    ["9999-12-31T23:59:59.999999Z", "2026-11-21T01:00:01.500+00:00"],
    ["0001-01-01T00:00:00Z", "2026-11-21T01:00:01.500+00:00"],
    ["2029-01-01T00:00:00.000001Z", "2029-01-01T00:00:00.000001+00:00"],
    ["2024-03-01T00:00:00Z", "2024-03-01T00:00:00+00:00"],
  ])("that says it was completed at %s counts as of %s", async (stated, completedAt) => {
    expect(await readPlainly(bytes(`{"results":[],"request_completed_at":"${stated}"}`))).toMatchObject({
      completedAt,
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

  it("may be nested thousands of levels deep, but not with numbers of many digits as well", async () => {
    const [first, second, third] = await resultsOf(
      `{"results":[{"a":1e400},{"c":${nested(20_000)}},{"b":12345678901234567890,"c":${nested(20_000)}}]}`,
    );
    expect(JSON.stringify(first)).toBe('{"a":1e400}');
    expect(second).toMatchObject({});
    expect(third).toBeNull();
  });

  it("is read whatever stands beside its results", async () => {
    const body = `{"api_request_id":[1e400,${nested(20_000)}],"results":[{"record_id":"a"}]}`;
    expect(await readPlainly(bytes(body))).toMatchObject({ results: [{ key: "a" }], apiRequestId: null });
  });

  it("of a million lists, of one text of 16 MB, or of an object with thousands of fields is read", async () => {
    expect(await resultsOf(`{"results":[${"[],".repeat(1_000_000)}[]]}`)).toHaveLength(1_000_001);
    const text = "x".repeat(16 * 1024 * 1024);
    expect(await resultsOf(`{"results":[{"a":"${text}"}]}`)).toEqual([{ a: text }]);
    const fields = Array.from({ length: 100_000 }, (_, n) => [`name_of_a_field_${n}`, n] as const);
    const wide = Object.fromEntries(fields);
    expect(await resultsOf(JSON.stringify({ results: [wide] }))).toEqual([wide]);
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

/** Results of 20 KB that hold objects which begin as they do, in lists, in texts, and in lists of the same name. */
const longResults = fc.array(
  fc.record({
    record_id: fc.string({ unit: "binary", maxLength: 3 }),
    pad: fc.constant("x".repeat(20_000)),
    inner: fc.constantFrom<unknown[]>(
      null,
      [{ record_id: 1 }, { record_id: 2 }, [{ record_id: 3 }, { record_id: 4 }]],
      '},{"record_id":"a"}],"results":[{"record_id":"',
      { results: [{ record_id: 5 }, { record_id: 6 }] },
    ),
    rest: fc.jsonValue({ maxDepth: 2 }),
  }),
  { minLength: 3, maxLength: 16 },
);
const others = fc.dictionary(fc.oneof(fc.constantFrom("5", "x"), fc.string()), fc.jsonValue(), {
  maxKeys: 2,
});
const longBodies = fc
  .tuple(others, longResults, others, longResults, fc.constantFrom("", ',"results":', ',"5":'), fc.nat(1))
  .map(([before, results, after, again, key, indent]) => {
    const text = JSON.stringify({ ...before, results, ...after }, null, indent);
    return key === "" ? text : `${text.slice(0, -1)}${key}${JSON.stringify(again)}}`;
  });

test("a long answer has the results that a parser finds, and is no JSON exactly if it finds none", async () => {
  const damage = fc.tuple(
    fc.nat(),
    fc.nat(2),
    fc.string({ unit: fc.constantFrom(...Array.from('{}[],:"\\1 ')) }),
    fc.boolean(),
  );
  await fc.assert(
    fc.asyncProperty(longBodies, damage, async (whole, [at, cut, put, isDamaged]) => {
      // Within 40 bytes of a cut more often than in the 20 KB between.
      const positions = [...whole.matchAll(/"record_id"/gu)].map(({ index }) => index);
      const position = Math.max(0, (positions[at % positions.length] ?? 0) + (at % 80) - 40);
      const text = isDamaged ? whole.slice(0, position) + put + whole.slice(position + cut) : whole;
      const answer = await readPlainly(bytes(text));
      expect(
        answer.kind === "answer" ? answer.results.map((found) => asStored(found?.value)) : answer.reason,
      ).toEqual(expectedOf(bytes(text).toString("utf8")));
    }),
    { numRuns: sized(120, 300) },
  );
});

/** NUL or a lone surrogate as JSON escapes it, after an even number of backslashes. */
const UNSTORABLE = /(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/gu;
/** A value without what an answer replaces and a parser keeps: characters that can't be stored, numbers that no double represents. */
const asStored = (value: unknown): unknown =>
  value === undefined
    ? undefined
    : JSON.parse(JSON.stringify(value).replace(UNSTORABLE, String.raw`$1\ufffd`));

function expectedOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    const results = typeof value === "object" && value !== null && "results" in value ? value.results : null;
    if (!Array.isArray(results)) return "no_results";
    return results.map((r: unknown) =>
      typeof r === "object" && r !== null && !Array.isArray(r) ? asStored(r) : undefined,
    );
  } catch {
    return "no_json";
  }
}

/** Results of more than 48 KB, so that an answer of several is read in pieces. */
const long = (more: string) => `{"a":"${"x".repeat(50_000)}"${more}}`;

test("pieces are discarded if a later one is none, and then all results are read", async () => {
  const discard = vi.fn<() => void>();
  const trap = `,"b":[{"a":1},${long("")},{"a":2}]`;
  const body = `{"results":[${[long(""), long(trap), long(""), long("")].join(",")}]}`;
  const answer = await readPlainly(bytes(body), { discard });
  expect(discard).toHaveBeenCalledTimes(1);
  expect(answer).toMatchObject({ results: [{}, { value: { b: [{}, {}, {}] } }, {}, {}] });
});

test.each([
  ["a vertical tab", "\v", "no_json"],
  ["a no-break space", "\u00a0", "no_json"],
  ["a tab", "\t", "answer"],
])("%s between pieces is what a parser takes it for", async (_, blank, expected) => {
  const answer = await readPlainly(
    bytes(`{"results":[${[long(""), long(""), long("")].join(`,${blank}`)}]}`),
  );
  expect(answer.kind === "answer" ? "answer" : answer.reason).toBe(expected);
});

test.each([",1", ',{"a":"\\u0000"}'])("a result is read alike beside %s", async (neighbor) => {
  const deep = `{"a":${nested(250)}}`;
  const [result] = await resultsOf(`{"results":[${deep}${neighbor},${long("")},${long("")},${long("")}]}`);
  expect(JSON.stringify(result)).toBe(deep);
});

test("after long results, too, no more results are kept than may be read", async () => {
  const body = `{"results":[${long("")},${long("")}${",1".repeat(3_000_000)}]}`;
  const before = process.memoryUsage().heapUsed;
  expect(await readPlainly(bytes(body), { maxResults: 100 })).toEqual({
    kind: "unreadable",
    reason: "body_too_large",
  });
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 * 1024 * 1024);
});

test.each([
  ['{"results":[{"a":1},{"a":"\\u0000"}]}', [{ a: 1 }, { a: "\uFFFD" }]],
  ['{"results":[],"code":"ok"}', []],
  ['{"results":null}', []],
  ['{"results":[],"error":"no"}', null],
  ['{"results":null,"error":"no"}', null],
  ['{"results":[{"a":1},]}', null],
  ['{"results":{}}', null],
  ["{}", null],
  ["[]", null],
])("%s can be read several times, or is no answer", (body, expected) => {
  const opened = openResults(bytes(body));
  for (let time = 0; time < 2; time++) {
    const drift = new DriftLog("");
    expect(opened && [...opened.results(drift)]).toEqual(expected);
    const around = body.includes('"code"') ? ["response.code"] : [];
    expect(drift.entries().flatMap(({ path }) => (path.startsWith("response.") ? [path] : []))).toEqual(
      around,
    );
  }
});
