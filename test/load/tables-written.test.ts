import { expect, test } from "vitest";
import { availableJobTypes } from "../../src/config/rules/availability.ts";
import { tablesWrittenBy } from "../../src/load/tables-written.ts";
import { tables } from "../../src/schemas/registry.ts";

test.each(availableJobTypes.map((type) => [type]))(
  "the success of a %s job is that of declared tables",
  (type) => {
    const declared = new Set(tables.map(({ name }) => name));
    expect(tablesWrittenBy(type)).not.toEqual([]);
    expect(tablesWrittenBy(type).filter((name) => !declared.has(name))).toEqual([]);
  },
);

test("every table of results is kept by some job", () => {
  const kept = new Set(availableJobTypes.flatMap((type) => tablesWrittenBy(type)));
  // What runs leave behind beside their results.
  const byTheWay = new Set([
    "reject",
    "lookup_state",
    "person_state",
    "call_in_doubt",
    "missing_input_row",
    "tombstone",
    "sync_gap",
    "usage_reconciliation",
  ]);
  const data = tables.filter(({ room }) => room === "data").map(({ name }) => name);
  expect(data.filter((name) => !kept.has(name) && !byTheWay.has(name))).toEqual([]);
});
