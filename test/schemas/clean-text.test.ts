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

test("NUL becomes U+FFFD and is reported with its path", () => {
  expect(clean('{"full_name":"A\\u0000B\\u0000"}')).toEqual({
    value: { full_name: "A\uFFFDB\uFFFD" },
    notes: ["unexpected_type full_name nul_character 1"],
  });
});

test("a lone surrogate becomes U+FFFD, a pair stays", () => {
  expect(clean('{"first_name":"\\ud83d","last_name":"\\ude00x","full_name":"\\ud83d\\ude00"}')).toEqual({
    value: { first_name: "\uFFFD", last_name: "\uFFFDx", full_name: "😀" },
    notes: ["unexpected_type first_name lone_surrogate 1", "unexpected_type last_name lone_surrogate 1"],
  });
});

test("both in one text are two occurrences at one place", () => {
  expect(clean('{"a":"\\u0000\\ud800"}')).toEqual({
    value: { a: "\uFFFD\uFFFD" },
    notes: ["unexpected_type a lone_surrogate 2"],
  });
});

test("nested places are named from the record on, with [] for lists, and add up", () => {
  const json =
    '{"education_experience":[{"education_majors":["a\\u0000"]},{"education_majors":["ok","\\u0000"]}]}';
  expect(clean(json)).toEqual({
    value: {
      education_experience: [{ education_majors: ["a\uFFFD"] }, { education_majors: ["ok", "\uFFFD"] }],
    },
    notes: ["unexpected_type education_experience[].education_majors[] nul_character 2"],
  });
});

test("keys are cleaned too, and reported under their own path", () => {
  expect(clean('{"relatives":[{"odd\\u0000key":{"in\\udc00ner":1}}]}')).toEqual({
    value: { relatives: [{ "odd\uFFFDkey": { "in\uFFFDner": 1 } }] },
    notes: [
      "unexpected_type relatives[].? nul_character 1",
      "unexpected_type relatives[].?.? lone_surrogate 1",
    ],
  });
  expect(clean('{"\\u0000":1}').notes).toEqual(["unexpected_type ? nul_character 1"]);
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
