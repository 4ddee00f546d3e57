import { expect, test } from "vitest";
import { jobTypes } from "../../src/jobs/registry.ts";
import { tables } from "../../src/schemas/registry.ts";

test.each(jobTypes.map(({ type, writes }) => [type, writes] as const))(
  "the success of a %s job is that of declared tables",
  (_type, writes) => {
    const declared = new Set(tables.map(({ name }) => name));
    expect(writes).not.toEqual([]);
    expect(writes.filter((name) => !declared.has(name))).toEqual([]);
  },
);

test("every table of results is kept by some job", () => {
  const kept = new Set(jobTypes.flatMap(({ writes }) => writes));
  // Tables of the runs themselves.
  const byTheWay = new Set(["reject", "person_state", "tombstone", "sync_gap", "usage_reconciliation"]);
  const data = tables.filter(({ schema }) => schema === "data").map(({ name }) => name);
  expect(data.filter((name) => !kept.has(name) && !byTheWay.has(name))).toEqual([]);
});
