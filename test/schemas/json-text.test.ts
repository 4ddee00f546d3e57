import { expect, test } from "vitest";
import { jsonText } from "../../src/schemas/convert.ts";

const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

test("an ordinary value is written as JSON.stringify would", () => {
  expect(jsonText({ b: [1, null, "é"], a: { "": true } })).toBe('{"b":[1,null,"é"],"a":{"":true}}');
});

test("numbers that a double can't carry keep every digit", () => {
  expect(jsonText([JSON.rawJSON("0.12345678901234567890"), JSON.rawJSON("-1e308")])).toBe(
    "[0.12345678901234567890,-1e308]",
  );
});

test("a number beyond what warehouses take becomes a string of its digits", () => {
  expect(jsonText({ huge: JSON.rawJSON("1e999999"), next: 1 })).toBe('{"huge":"1e999999","next":1}');
});

test("200 levels of nesting are kept as they are", () => {
  expect(jsonText(nested(200))).toBe(`${"[".repeat(200)}${"]".repeat(200)}`);
});

test("deeper nested values are stored as the text of their JSON, and nothing is lost", () => {
  const text = jsonText({ deep: nested(100_000) });
  expect(text).toBe(
    `{"deep":${"[".repeat(199)}"${"[".repeat(99_801)}${"]".repeat(99_801)}"${"]".repeat(199)}}`,
  );
});

test("objects nested beyond what JSON.stringify takes become null", () => {
  const deep: unknown = JSON.parse(`${'{"7":'.repeat(20_000)}1${"}".repeat(20_000)}`);
  expect(jsonText({ deep, next: [1] })).toBe(
    `{"deep":${'{"7":'.repeat(199)}null${"}".repeat(199)},"next":[1]}`,
  );
});

test("a field called __proto__ is kept", () => {
  expect(jsonText(JSON.parse('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}');
  const deep = JSON.parse(`{"__proto__":${"[".repeat(300)}${"]".repeat(300)}}`);
  expect(jsonText(deep)).toMatch(/^\{"__proto__":\[/);
});
