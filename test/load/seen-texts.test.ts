import { expect, test } from "vitest";
import { createSeenTexts } from "../../src/load/bigquery/seen-texts.ts";

test("a text is told from all others, however many there are, and known from its second time on", () => {
  const note = createSeenTexts();
  const texts = Array.from({ length: 20_000 }, (_, i) => `person-${i}`);
  expect(texts.filter((text) => note(text))).toEqual([]);
  expect(texts.filter((text) => !note(text))).toEqual([]);
  expect(note("")).toBe(false);
  expect(note("")).toBe(true);
});
