import { describe, expect, it, test } from "vitest";
import { retentionRules, tableNamed } from "../../src/schemas/registry.ts";
import { load, fine } from "../config/support.ts";

describe("what is kept for a time", () => {
  it.each(retentionRules.map((rule) => [rule.table, rule] as const))(
    "%s is selected by columns that it has",
    (name, rule) => {
      const columns = tableNamed(name).columns;
      expect(columns.find((column) => column.name === rule.age)?.type).toBe("timestamptz");
      const kept: readonly string[] = "keepNewestOf" in rule ? rule.keepNewestOf : [];
      expect(columns.map((column) => column.name)).toEqual(expect.arrayContaining([...kept]));
    },
  );
});

test("nothing but our own bookkeeping is removed unless the configuration says so", async () => {
  const day = 86_400_000;
  expect((await load(fine)).retention).toEqual({ historyMs: null, operationsMs: null, rejectsMs: null });
  expect((await load(`${fine}retention: { operations: 400d, rejects: 2w }\n`)).retention).toEqual({
    historyMs: null,
    operationsMs: 400 * day,
    rejectsMs: 14 * day,
  });
  const fixed = retentionRules.filter(({ keep }) => typeof keep === "number").map(({ table }) => table);
  expect(fixed).toEqual(["schedule_slot", "budget_use"]);
});
