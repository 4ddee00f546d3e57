import { expect, test } from "vitest";
import { createScanner, cutBody, endScan, scan, type ScannedResult } from "../../src/extract/answer-body.ts";
import * as fc from "../support/fast-check.ts";
import { sized } from "../support/test-size.ts";

/** Bodies with one or two lists of results, with keys before, after and around them. */
const lists = fc.array(
  fc.oneof(
    fc.jsonValue(),
    fc.record({ record_id: fc.string({ unit: "binary" }), s: fc.constantFrom('},{"', "]}", "\\", "[") }),
  ),
  { maxLength: 12 },
);
const others = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 3 });
const bodies = fc
  .tuple(others, lists, others, fc.constantFrom(0, 1), fc.boolean())
  .map(([before, results, after, indent, isTwice]) => {
    const text = JSON.stringify({ ...before, results, ...after }, null, indent);
    return isTwice ? `{"results" :\t[{"a":1}, 2],${text.slice(1)}` : text;
  });
const damage = fc.tuple(
  fc.nat(),
  fc.nat(4),
  fc.string({ unit: fc.constantFrom(...Array.from('{}[],:"\\e1 ')) }),
);

const copyOf = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
/** A value whose numbers are doubles, however exact they were; the second copy treats infinity and the sign of zero alike. */
const withDoubles = (value: object): unknown => copyOf(copyOf(value));

/** Content of a body by its scan, in chunks of these sizes in turn; null if it is no JSON. */
function contentOf(body: Buffer, sizes: readonly number[]): unknown {
  const scanner = createScanner();
  const found: ScannedResult[] = [];
  for (let at = 0, n = 0; at < body.length; n++) {
    const end = at + (sizes[n % sizes.length] ?? body.length);
    found.push(...scan(scanner, body.subarray(at, end)));
    at = end;
  }
  const envelope = endScan(scanner);
  if (envelope === null) return null;
  try {
    const results = found.map(({ bytes }): unknown => JSON.parse(bytes.toString("utf8")));
    const { keys, first } = envelope;
    return first === null ? "no_results" : withDoubles({ ...keys, results: results.slice(first) });
  } catch {
    return null;
  }
}

function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text.startsWith("\uFEFF") ? text.slice(1) : text);
    const hasResults =
      typeof value === "object" && value !== null && "results" in value && Array.isArray(value.results);
    return hasResults ? withDoubles(value) : "no_results";
  } catch {
    return null;
  }
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });

test("an answer has the results that a parser finds, whatever the chunks it comes in", () => {
  fc.assert(
    fc.property(bodies, sizes, fc.boolean(), (text, chunks, hasMark) => {
      const body = hasMark ? `\uFEFF${text}` : text;
      expect(contentOf(Buffer.from(body), chunks)).toEqual(parsed(text));
    }),
    { numRuns: sized(400, 1000) },
  );
});

/** Lists that are no JSON. */
const damaged = ["[1,,2]", "[,1]", "[1,]", "[1}", "[{]}"];

test("a damaged answer is what a parser finds it to be", () => {
  fc.assert(
    fc.property(bodies, sizes, damage, (body, chunks, [at, cut, put]) => {
      const position = at % (body.length + 1);
      const text = body.slice(0, position) + put + body.slice(position + cut);
      const bytes = Buffer.from(text);
      expect(contentOf(bytes, chunks)).toEqual(parsed(bytes.toString("utf8")));
    }),
    {
      numRuns: sized(1500, 5000),
      examples: damaged.map((list) => [`{"results":${list},"a":1}`, [3], [0, 0, ""]]),
    },
  );
});

test("of a result above 32 MB only the beginning is kept, and the others are found", () => {
  const long = `{"record_id":"b","x":"${"x".repeat(33 * 1024 * 1024)}"}`;
  const body = Buffer.from(`{"results":[{"record_id":"a"},${long},{"record_id":"c"}]}`);
  const scanner = createScanner();
  const found: ScannedResult[] = [];
  for (let at = 0; at < body.length; at += 100_000)
    found.push(...scan(scanner, body.subarray(at, at + 100_000)));
  expect(found.map(({ bytes, isCut }) => [isCut, bytes.length])).toEqual([
    [false, 17],
    [true, 64 * 1024],
    [false, 17],
  ]);
  expect(endScan(scanner)).toEqual({ keys: {}, first: 0 });
});

test.each([0, 2])("a long answer with an indent of %s is cut to pieces that hold its results", (indent) => {
  const results = Array.from({ length: 500 }, (_, i) => ({ record_id: `r${i}`, x: "x".repeat(1000) }));
  const body = Buffer.from(JSON.stringify({ id: 1, results, end: 2 }, null, indent));
  const cut = cutBody(body, 48 * 1024);
  expect(cut?.pieces.length).toBeGreaterThanOrEqual(9);
  const whole = cut && `${String(cut.head)}${cut.pieces.join(",")},${String(cut.tail)}`;
  expect(JSON.parse(whole ?? "null")).toEqual({ id: 1, results, end: 2 });
});
