import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { readGoneRows } from "../../../src/load/due/missing-rows.ts";
import { begin, matchAll, type Responder, runNight } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, validateSpec } from "./people.ts";
import { columnOf, type GetPlace, type Place } from "./place.ts";
import type { LookupSpec } from "../../../src/load/due/lookup-spec.ts";

/** Result of a complete pass. */
async function noteMissing({ warehouse }: Place, spec: LookupSpec) {
  return await warehouse.recordMissingRows(await begin(warehouse, spec, randomUUID()), spec);
}

/** Matches every row except row 4. */
const onlyThree: Responder = (record) =>
  record.rows[0]?.sourceKey === "4" ? null : { pid: `p-${record.rows[0]?.sourceKey}` };

/** Tests of rows that left their input. */
export function describeMissingRows(getPlace: GetPlace): void {
  describe("rows that left their input", () => {
    test("are recorded once, and the record is deleted when they are back", async () => {
      const place = getPlace();
      await makePeople(place, [
        { id: "1", email: "ann@example.com" },
        { id: "2", email: "bob@example.com" },
        { id: "3" },
      ]);
      await runNight(place, enrichSpec(), matchAll);
      expect(await noteMissing(place, enrichSpec())).toEqual({ inputRows: 3, known: 3, missing: 0 });
      await place.sql("DELETE FROM crm.people WHERE id IN ('2', '3')");
      expect(await noteMissing(place, enrichSpec())).toEqual({ inputRows: 1, known: 3, missing: 2 });
      const noted = await place.sql("SELECT * FROM person_data_state.missing_input_row ORDER BY source_key");
      expect(noted).toMatchObject([
        { source: "people", source_key: "2" },
        { source: "people", source_key: "3" },
      ]);
      await place.sql("INSERT INTO crm.people (id, email) VALUES ('3', 'cid@example.com')");
      expect(await noteMissing(place, enrichSpec())).toEqual({ inputRows: 2, known: 3, missing: 1 });
      const since = noted.map((row) => ({
        source_key: row["source_key"],
        missing_since: row["missing_since"],
      }));
      expect(
        await place.sql("SELECT source_key, missing_since FROM person_data_state.missing_input_row"),
      ).toEqual(since.slice(0, 1));
    });

    test("are no longer present once the next run has read the input, and present again when they are back unchanged", async () => {
      const place = getPlace();
      const present = () =>
        columnOf(place, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1");
      const linked = () => columnOf(place, "SELECT source_key FROM person_data.identity_link ORDER BY 1");
      await makePeople(
        place,
        ["1", "2", "3", "4"].map((id) => ({ id, email: `${id}@example.com` })),
      );
      await runNight(place, enrichSpec(), onlyThree);
      expect(await present()).toEqual(["1", "2", "3"]);
      await place.sql("DELETE FROM crm.people WHERE id IN ('2', '3')");
      await runNight(place, enrichSpec());
      expect(await present()).toEqual(["1"]);
      expect(await linked()).toEqual(["1"]);
      await addPeople(place, [
        { id: "2", email: "2@example.com" },
        { id: "3", email: "changed@example.com" },
      ]);
      await runNight(place, enrichSpec());
      expect(await present()).toEqual(["1", "2"]);
      expect(await linked()).toEqual(["1", "2"]);
    });

    test("are no longer present once every shard has read the input", async () => {
      const place = getPlace();
      const ids = ["1", "2", "3", "4", "5", "6"];
      await makePeople(
        place,
        ids.map((id) => ({ id, email: `${id}@example.com` })),
      );
      await runNight(place, enrichSpec(), matchAll);
      await place.sql("DELETE FROM crm.people WHERE id IN ('2', '5')");
      for (const index of [0, 1, 2]) {
        await runNight(place, enrichSpec({ shard: { index, count: 3, by: [["emails"]] } }));
      }
      expect(
        await columnOf(place, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1"),
      ).toEqual(["1", "3", "4", "6"]);
    });

    test("are erased once complete passes of three different runs have missed them", async () => {
      const place = getPlace();
      const { warehouse } = place;
      await makePeople(place, [{ id: "1", email: "ann@example.com" }, { id: "2" }]);
      await runNight(place, enrichSpec(), matchAll);
      await place.sql("DELETE FROM crm.people WHERE id = '2'");
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
      const place = getPlace();
      await makePeople(place, [
        { id: "1", email: "ann@example.com" },
        { id: "2", email: "bob@example.com" },
      ]);
      await runNight(place, validateSpec(), matchAll);
      await place.sql("DELETE FROM crm.people");
      expect(await noteMissing(place, validateSpec())).toEqual({ inputRows: 0, known: 2, missing: 2 });
      expect(
        await columnOf(place, "SELECT source_key FROM person_data_state.missing_input_row ORDER BY 1"),
      ).toEqual(["1", "2"]);
    });
  });
}
