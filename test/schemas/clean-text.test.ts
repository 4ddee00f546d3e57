import { expect, test } from "vitest";
import { cleanText, DriftLog } from "../../src/schemas/convert.ts";
import * as fc from "../support/fast-check.ts";

/** Cleaned text, and `path observedType occurrences` of each note. */
function clean(json: string): { value: unknown; notes: string[] } {
  const drift = new DriftLog("POST /v2/enrich");
  const value = cleanText(JSON.parse(json), "", drift);
  const notes = drift.entries().map((e) => `${e.kind} ${e.path} ${e.observedType} ${e.occurrences}`);
  return { value, notes };
}

test.each<[string, string, unknown, readonly string[]]>([
  [
    "NUL becomes U+FFFD",
    '{"full_name":"A\\u0000B\\u0000"}',
    { full_name: "A\uFFFDB\uFFFD" },
    ["full_name nul_character 1"],
  ],
  [
    "a lone surrogate becomes U+FFFD, a pair stays",
    '{"first_name":"\\ud83d","last_name":"\\ude00x","full_name":"\\ud83d\\ude00"}',
    { first_name: "\uFFFD", last_name: "\uFFFDx", full_name: "😀" },
    ["first_name lone_surrogate 1", "last_name lone_surrogate 1"],
  ],
  [
    "both in one text are two occurrences",
    '{"a":"\\u0000\\ud800"}',
    { a: "\uFFFD\uFFFD" },
    ["a lone_surrogate 2"],
  ],
  [
    "nested paths have [] for lists, and add up",
    '{"education_experience":[{"education_majors":["a\\u0000"]},{"education_majors":["ok","\\u0000"]}]}',
    { education_experience: [{ education_majors: ["a\uFFFD"] }, { education_majors: ["ok", "\uFFFD"] }] },
    ["education_experience[].education_majors[] nul_character 2"],
  ],
  [
    "keys are cleaned too, and reported under their own path",
    '{"relatives":[{"odd\\u0000key":{"in\\udc00ner":1}}],"\\u0000":1}',
    { relatives: [{ "odd\uFFFDkey": { "in\uFFFDner": 1 } }], "\uFFFD": 1 },
    ["? nul_character 1", "relatives[].? nul_character 1", "relatives[].?.? lone_surrogate 1"],
  ],
])("%s", (_, json, value, notes) => {
  expect(clean(json)).toEqual({ value, notes: notes.map((note) => `unexpected_type ${note}`) });
});

test("numbers that a double can't carry come through", () => {
  const drift = new DriftLog("POST /v2/enrich");
  const cleaned = cleanText({ n: JSON.rawJSON("12345678901234567890"), s: "\u0000" }, "", drift);
  expect(JSON.stringify(cleaned)).toBe('{"n":12345678901234567890,"s":"\uFFFD"}');
});

test("a field called __proto__ stays a field", () => {
  const { value } = clean('{"__proto__":{"polluted":"\\u0000"}}');
  expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":"\uFFFD"}}');
});

test("a value nested 100,000 levels deep neither throws nor keeps a NUL", () => {
  const { value } = clean(`${"[".repeat(100_000)}"\\u0000"${"]".repeat(100_000)}`);
  expect(hasBadText(value)).toBe(false);
});

function hasBadText(value: unknown): boolean {
  if (typeof value === "string") return value.includes("\u0000") || !value.isWellFormed();
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, inner]) => hasBadText(key) || hasBadText(inner));
}

const halfSurrogates = fc.constantFrom("\u0000", "\ud800", "\udfff", "\ud83d\ude00", "a", "é");
const badText = fc.string({ unit: halfSurrogates, maxLength: 6 });
const anyJson = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    badText,
    fc.integer(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(badText, tie("value"), { maxKeys: 3 }),
  ),
})).value;

test("no value keeps a NUL or a lone surrogate, and every one is reported", () => {
  fc.assert(
    fc.property(anyJson, (value) => {
      const drift = new DriftLog("POST /v2/enrich");
      expect(hasBadText(cleanText(value, "", drift))).toBe(false);
      expect(drift.entries().length > 0).toBe(hasBadText(value));
    }),
    { numRuns: 1000 },
  );
});

test("a value without them is unchanged, and nothing is reported", () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: "grapheme" }), (value) => {
      fc.pre(!hasBadText(value));
      const drift = new DriftLog("POST /v2/enrich");
      expect(JSON.stringify(cleanText(value, "", drift))).toBe(JSON.stringify(value));
      expect(drift.entries()).toEqual([]);
    }),
  );
});
