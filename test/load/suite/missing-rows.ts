import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { readGoneRows } from "../../../src/load/due/missing-rows.ts";
import { begin, matchAll, type Responder, runNight } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, validateSpec } from "./people.ts";
import { columnOf, type GetContext, type Context } from "./context.ts";
import type { LookupSpec } from "../../../src/load/due/lookup-spec.ts";

/** Result of a complete pass. */
async function noteMissing({ warehouse }: Context, spec: LookupSpec) {
  return await warehouse.recordMissingRows(await begin(warehouse, spec, randomUUID()), spec);
}

/** Matches every row except row 4. */
const onlyThree: Responder = (record) =>
  record.rows[0]?.sourceKey === "4" ? null : { pid: `p-${record.rows[0]?.sourceKey}` };

/** Tests of rows that left their input. */
export function describeMissingRows(getContext: GetContext): void {
  describe("rows that left their input", () => {
    test("are recorded once, and the record is deleted when they are back", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: "ann@example.com" },
        { id: "2", email: "bob@example.com" },
        { id: "3" },
      ]);
      await runNight(context, enrichSpec(), matchAll);
      expect(await noteMissing(context, enrichSpec())).toEqual({ inputRows: 3, known: 3, missing: 0 });
      await context.sql("DELETE FROM crm.people WHERE id IN ('2', '3')");
      expect(await noteMissing(context, enrichSpec())).toEqual({ inputRows: 1, known: 3, missing: 2 });
      const noted = await context.sql(
        "SELECT * FROM person_data_state.missing_input_row ORDER BY source_key",
      );
      expect(noted).toMatchObject([
        { source: "people", source_key: "2" },
        { source: "people", source_key: "3" },
      ]);
      await context.sql("INSERT INTO crm.people (id, email) VALUES ('3', 'cid@example.com')");
      expect(await noteMissing(context, enrichSpec())).toEqual({ inputRows: 2, known: 3, missing: 1 });
      const since = noted.map((row) => ({
        source_key: row["source_key"],
        missing_since: row["missing_since"],
      }));
      expect(
        await context.sql("SELECT source_key, missing_since FROM person_data_state.missing_input_row"),
      ).toEqual(since.slice(0, 1));
    });

    test("are no longer present once the next run has read the input, and present again when they are back unchanged", async () => {
      const context = getContext();
      const present = () =>
        columnOf(context, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1");
      const linked = () => columnOf(context, "SELECT source_key FROM person_data.identity_link ORDER BY 1");
      await makePeople(
        context,
        ["1", "2", "3", "4"].map((id) => ({ id, email: `${id}@example.com` })),
      );
      await runNight(context, enrichSpec(), onlyThree);
      expect(await present()).toEqual(["1", "2", "3"]);
      await context.sql("DELETE FROM crm.people WHERE id IN ('2', '3')");
      await runNight(context, enrichSpec());
      expect(await present()).toEqual(["1"]);
      expect(await linked()).toEqual(["1"]);
      await addPeople(context, [
        { id: "2", email: "2@example.com" },
        { id: "3", email: "changed@example.com" },
      ]);
      await runNight(context, enrichSpec());
      expect(await present()).toEqual(["1", "2"]);
      expect(await linked()).toEqual(["1", "2"]);
    });

    test("are no longer present once every shard has read the input", async () => {
      const context = getContext();
      const ids = ["1", "2", "3", "4", "5", "6"];
      await makePeople(
        context,
        ids.map((id) => ({ id, email: `${id}@example.com` })),
      );
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("DELETE FROM crm.people WHERE id IN ('2', '5')");
      for (const index of [0, 1, 2]) {
        await runNight(context, enrichSpec({ shard: { index, count: 3, by: [["emails"]] } }));
      }
      expect(
        await columnOf(context, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1"),
      ).toEqual(["1", "3", "4", "6"]);
    });

    test("are erased once complete passes of three different runs have missed them", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, [{ id: "1", email: "ann@example.com" }, { id: "2" }]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("DELETE FROM crm.people WHERE id = '2'");
      const gone: (readonly string[])[] = [];
      for (let night = 1; night <= 3; night++) {
        const run = await begin(warehouse, enrichSpec(), randomUUID());
        await warehouse.recordMissingRows(run, enrichSpec());
        // Other jobs of the same night count once.
        await warehouse.recordMissingRows(run, enrichSpec());
        gone.push(await readGoneRows(warehouse.db, run, "people", 10));
      }
      expect(gone).toEqual([[], [], ["2"]]);
    });

    test("are known to a job that validates addresses by the rows that had them", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: "ann@example.com" },
        { id: "2", email: "bob@example.com" },
      ]);
      await runNight(context, validateSpec(), matchAll);
      await context.sql("DELETE FROM crm.people");
      expect(await noteMissing(context, validateSpec())).toEqual({ inputRows: 0, known: 2, missing: 2 });
      expect(
        await columnOf(context, "SELECT source_key FROM person_data_state.missing_input_row ORDER BY 1"),
      ).toEqual(["1", "2"]);
    });
  });
}
