import { jobTypes } from "../../src/jobs/registry.ts";
import { describe, expect, it, test } from "vitest";
import { documentSchemaOf } from "../../src/config/schema/document.ts";
import { keysOf, schemaAt } from "../../src/config/schema/settings.ts";
import { retentionRules, tableNamed } from "../../src/schemas/registry.ts";
import { load, fine } from "../config/support.ts";

const documentSchema = documentSchemaOf(jobTypes);

describe("what is kept for a time", () => {
  it("is what the configuration has a setting for", () => {
    const settings = keysOf(schemaAt(documentSchema, ["retention"], {}));
    expect(settings.toSorted()).toEqual(retentionRules.map(({ table }) => table).toSorted());
  });

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
  const own = { schedule_slot: 90 * day, budget_use: 400 * day };
  expect((await load(fine)).retention).toEqual(own);
  expect((await load(`${fine}retention: { api_call: 400d, reject: 2w }\n`)).retention).toEqual({
    ...own,
    api_call: 400 * day,
    reject: 14 * day,
  });
});
