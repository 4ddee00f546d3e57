import { expect, test } from "vitest";
import { INCOMES, WEALTH } from "../../packages/sandbox/src/population/person-fields.ts";
import { readMoneyRange } from "../../src/schemas/person.ts";
import * as fc from "../support/fast-check.ts";

test.each([
  ["<$25,000", null, "25000"],
  ["$25,000-$49,999", "25000", "49999"],
  ["$25,000 - $49,999", "25000", "49999"],
  ["$25,000–$49,999", "25000", "49999"],
  ["$25,000 to $49,999", "25000", "49999"],
  ["25000-49999", "25000", "49999"],
  ["$250,000+", "250000", null],
  ["> $250,000", "250000", null],
  ["$1M or more", "1000000", null],
  ["Over $1,000,000", "1000000", null],
  ["Under $50K", null, "50000"],
  ["less than $50k", null, "50000"],
  ["$500K-$1M", "500000", "1000000"],
  ["$0-$10,000", "0", "10000"],
  ["-$20,000--$5,000", "-20000", "-5000"],
  ["$5-$5", "5", "5"],
])("%s is from %s to %s dollars", (text, min, max) => {
  expect(readMoneyRange(text)).toEqual([min, max]);
});

test.each([
  "",
  " ",
  "$25,000",
  "Unknown",
  "A",
  "$50-99K",
  "$49,999-$25,000",
  "$2,5000-$49,999",
  "€25,000-€49,999",
  "$25,000-",
  "-",
  "+",
  "<",
  "$1.5M-$2M",
  "$1,000,000,000B+",
  "9".repeat(1000),
])("%s is not understood", (text) => {
  expect(readMoneyRange(text)).toEqual([null, null]);
});

test("every range of the sandbox has a bound, and they ascend", () => {
  for (const ranges of [INCOMES, WEALTH]) {
    const bounds = ranges.map((range) =>
      readMoneyRange(range).map((cell) => (cell === null ? null : Number(cell))),
    );
    expect(bounds.at(0)?.[0]).toBeNull();
    expect(bounds.at(-1)?.[1]).toBeNull();
    const middle = bounds.slice(1, -1).flat();
    expect(middle).not.toContain(null);
    expect(middle).toEqual(middle.toSorted((a, b) => Number(a) - Number(b)));
  }
});

test("no text throws; bounds have at most 18 digits and are in order", () => {
  const like = fc.stringMatching(/^[<>]?\$?[\d,]{0,25}[kKmMbB+]?(?: ?(?:-|to) ?\$?[\d,]{0,25}[kKmMbB]?)?$/);
  fc.assert(
    fc.property(fc.oneof(fc.string(), like), (text) => {
      const bounds = readMoneyRange(text).filter((bound) => bound !== null);
      expect(bounds.every((bound) => /^-?\d{1,18}$/.test(bound))).toBe(true);
      expect(BigInt(bounds[0] ?? 0) <= BigInt(bounds.at(-1) ?? 0)).toBe(true);
    }),
    { numRuns: 1000 },
  );
});
