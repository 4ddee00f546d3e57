import { expect, test } from "vitest";
import { DriftLog, fieldName } from "../../src/schemas/convert.ts";

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
