import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople } from "./people.ts";
import { gist, matchAll, runNight } from "./nights.ts";
import { columnOf, type GetPlace } from "./place.ts";

/** Minimal test for slow warehouses: selects, sends and loads once, and then sends nothing. */
export function describeOneNight(getPlace: GetPlace): void {
  describe("a night", () => {
    test("loads the answers, and the next one finds only new records", async () => {
      const place = getPlace();
      await makePeople(place, [{ id: "1", first_name: "Ann", email: "ann@example.com" }]);
      const first = await runNight(place, enrichSpec(), matchAll);
      expect(gist(first.counts)).toEqual({ read: 1, due: 1, dueReasons: { never_answered: 1 }, toSend: 1 });
      await addPeople(place, [{ id: "2", first_name: "Bob" }]);
      const second = await runNight(place, enrichSpec(), matchAll);
      expect(gist(second.counts)).toEqual({
        read: 2,
        due: 1,
        unchanged: 1,
        dueReasons: { never_answered: 1 },
        toSend: 1,
      });
      expect(
        await columnOf(place, "SELECT source_key FROM person_data.enrichment WHERE is_match ORDER BY 1"),
      ).toEqual(["1", "2"]);
      // Some seconds on an idle machine.
    }, 300_000);
  });
}
