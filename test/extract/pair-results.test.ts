import { expect, it } from "vitest";
import { pairResults } from "../../src/extract/take-answer.ts";
import * as fc from "../support/fast-check.ts";

/** Positions of the results of these records; `null` is a result without a key, `-` one that is no object. */
function pair(pairing: Parameters<typeof pairResults>[0], sent: string, results: string): string {
  const keyed = results
    .split(" ")
    .map((key) => (key === "-" ? undefined : { key: key === "null" ? null : key }));
  return pairResults(pairing, sent.split(" "), keyed)
    .map((index) => index ?? "?")
    .join(" ");
}

it.each([
  ["the first of equal IDs counts, and unknown ones are ignored", "a b", "x b b a", "3 1"],
  ["results go by position where none has an ID and none is missing", "a b", "null null", "0 1"],
  ["but not if there are too few", "a b", "null", "? ?"],
  ["or too many", "a b", "null null null", "? ?"],
  ["or beside IDs", "a b c", "a null c", "0 ? 2"],
  ["or beside foreign ones", "a b", "x null", "? ?"],
  ["results of another request belong to no record", "a b", "x y", "? ?"],
  ["results that aren't objects are ignored", "a b", "- b", "? 1"],
])("by record_id, %s", (_title, sent, results, expected) => {
  expect(pair("record_id", sent, results)).toBe(expected);
});

it.each([
  ["results are in the order of the request", "a@x A@x", "a@x A@x", "0 1"],
  ["also if the service normalizes them", "Ann@X ann@x", "ann@x ann@x", "0 1"],
  ["also without an address", "a@x b@x", "a@x null", "0 1"],
  ["shuffled results are found by address", "a@x b@x", "b@x a@x", "1 0"],
  ["without case only where no exact address is left", "b@x Ann@X ann@x", "ann@x ANN@X", "? 1 0"],
  ["no address gets the result of another", "a@x", "b@x", "?"],
])("by address, %s", (_title, sent, results, expected) => {
  expect(pair("position_and_address", sent, results)).toBe(expected);
});

it("a record gets its own result or none, in any order, with any repetition and gaps", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string({ minLength: 1 }), { maxLength: 30 }),
      fc.infiniteStream(fc.nat()),
      (ids, rolls) => {
        const roll = () => rolls.next().value ?? 0;
        const results = ids
          .flatMap((key) => Array.from({ length: roll() % 3 }, () => ({ key })))
          .toSorted(() => (roll() % 2) - 0.5);
        const found = pairResults("record_id", ids, results).map((index) => results[index ?? -1]?.key);
        expect(found).toEqual(ids.map((id) => (results.some(({ key }) => key === id) ? id : undefined)));
      },
    ),
  );
});
