import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople } from "./people.ts";
import { gist, matchAll, runNight } from "./nights.ts";
import { columnOf, type GetContext } from "./context.ts";

/** Minimal test for slow warehouses: selects, sends and loads once, and then sends nothing. */
export function describeOneNight(getContext: GetContext): void {
  describe("a night", () => {
    test("loads the answers, and the next one finds only new records", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann", email: "ann@example.com" }]);
      const first = await runNight(context, enrichSpec(), matchAll);
      expect(gist(first.counts)).toEqual({ read: 1, due: 1, dueReasons: { never_answered: 1 }, toSend: 1 });
      await addPeople(context, [{ id: "2", first_name: "Bob" }]);
      const second = await runNight(context, enrichSpec(), matchAll);
      expect(gist(second.counts)).toEqual({
        read: 2,
        due: 1,
        unchanged: 1,
        dueReasons: { never_answered: 1 },
        toSend: 1,
      });
      expect(
        await columnOf(context, "SELECT source_key FROM person_data.enrichment WHERE is_match ORDER BY 1"),
      ).toEqual(["1", "2"]);
      // Some seconds on an idle machine.
    }, 300_000);
  });
}
