import { expect, test } from "vitest";
import { cleanText, DriftLog, fieldName } from "../../src/schemas/convert.ts";
import * as fc from "../support/fast-check.ts";

test("occurrences of one path and kind add up, and the last type is kept", () => {
  const drift = new DriftLog("POST /v2/enrich");
  drift.note("unexpected_type", "phones[].phone_rank", "string");
  drift.note("unexpected_type", "phones[].phone_rank", "boolean");
  drift.note("unknown_field", "phones[].phone_rank", "number");
  drift.note("unknown_field", "a", "object");
  expect(drift.entries().map((e) => [e.endpoint, e.path, e.kind, e.observedType, e.occurrences])).toEqual([
    ["POST /v2/enrich", "a", "unknown_field", "object", 1],
    ["POST /v2/enrich", "phones[].phone_rank", "unexpected_type", "boolean", 2],
    ["POST /v2/enrich", "phones[].phone_rank", "unknown_field", "number", 1],
  ]);
});

test("a path starts at the record, wherever the difference was found", () => {
  const drift = new DriftLog("GET /usage");
  for (const path of ["results[].num_matches", "results.items[].num_matches", "num_matches"])
    drift.note("unexpected_type", path, "nul_character");
  expect(drift.entries()).toMatchObject([{ path: "num_matches", occurrences: 3 }]);
});

test("an answer with endless new fields leaves at most 1,000 entries, and known ones go on counting", () => {
  const drift = new DriftLog("POST /v2/enrich");
  for (let i = 0; i < 5000; i++) drift.note("unknown_field", `field_${i}`, "string");
  drift.note("unknown_field", "field_0", "string");
  expect(drift.entries()).toHaveLength(1000);
  expect(drift.entries()[0]).toMatchObject({ path: "field_0", occurrences: 2 });
});

test("a path too long for an index is cut, never inside a character", () => {
  const drift = new DriftLog("POST /v2/enrich");
  drift.note("unknown_field", `${"x".repeat(399)}😀`, "string");
  drift.note("unknown_field", "y".repeat(100_000), "string");
  const paths = drift.entries().map((entry) => entry.path);
  expect(paths).toEqual([`${"x".repeat(399)}\uFFFD`, "y".repeat(400)]);
});

test.each([
  ["new_field", "new_field"],
  ["creditScore2", "creditScore2"],
  ["_x", "_x"],
  ["alan.turing@example.com", "?"],
  ["p-0abc", "?"],
  ["p12345", "?"],
  ["5551234", "?"],
  ["Alan Turing", "?"],
  ["Alan_Turing_lives_here", "?"],
  ["", "?"],
  ["x".repeat(64), "?"],
])("an unknown field %j is written in a path as %j", (name, shown) => {
  expect(fieldName(name)).toBe(shown);
});

/** Cleaned text, and `path observedType occurrences` of each note. */
function clean(json: string): { value: unknown; notes: string[] } {
  const drift = new DriftLog("POST /v2/enrich");
  const value = cleanText(JSON.parse(json), "", drift);
  const notes = drift.entries().map((e) => `${e.kind} ${e.path} ${e.observedType} ${e.occurrences}`);
  return { value, notes };
}

test.each<[string, string, unknown, readonly string[]]>([
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

test("numbers that a double can't represent, and a field called __proto__, are kept", () => {
  const value = { n: JSON.rawJSON("12345678901234567890"), ["__proto__"]: { s: "\u0000" } };
  expect(JSON.stringify(cleanText(value, "", new DriftLog("")))).toBe(
    '{"n":12345678901234567890,"__proto__":{"s":"\uFFFD"}}',
  );
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

test("no value keeps a NUL or a lone surrogate, and every one is reported; others are unchanged", () => {
  fc.assert(
    fc.property(fc.oneof(anyJson, fc.jsonValue({ stringUnit: "grapheme" })), (value) => {
      const drift = new DriftLog("POST /v2/enrich");
      const cleaned = cleanText(value, "", drift);
      expect(hasBadText(cleaned)).toBe(false);
      expect(drift.entries().length > 0).toBe(hasBadText(value));
      expect(hasBadText(value) || JSON.stringify(cleaned) === JSON.stringify(value)).toBe(true);
    }),
    { numRuns: 1000 },
  );
});
