import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople, people, resolveSpec } from "./people.ts";
import { gist, matchAll, runNight } from "./nights.ts";
import type { GetContext, Context } from "./context.ts";

const ann = { id: "1", first_name: "Ann", email: "ann@example.com" };
const bob = { id: "2", first_name: "Bob", email: "bob@example.com" };
const eve = { id: "3", first_name: "Eve", email: "eve@example.com" };

/** Mapping without last names and phones, with a different hash. */
const changed = enrichSpec({
  parametersHash: "bought with those",
  input: { ...people, fields: { first_name: ["first_name"], emails: ["note"] } },
});

async function answerThree(context: Context): Promise<void> {
  await makePeople(context, [ann, bob, eve]);
  await runNight(context, enrichSpec(), matchAll);
}

/** Tests of changed mappings and request parameters. */
export function describeParameters(getContext: GetContext): void {
  describe("changed parameters", () => {
    test("stop the run with the number of rows that would be bought again", async () => {
      const context = getContext();
      await answerThree(context);
      const { counts, records } = await runNight(
        context,
        enrichSpec({ parametersHash: "bought with those" }),
      );
      expect(counts).toMatchObject({ read: 3, parametersChanged: 3, dueReasons: { parameters_changed: 3 } });
      expect(records).toEqual([]);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 3, unchanged: 3 });
    });

    test("stop the run although rows are due for other reasons too, and nothing is frozen", async () => {
      const context = getContext();
      await answerThree(context);
      await addPeople(context, [
        { id: "4", email: "new@example.com" },
        { id: "5", email: " " },
      ]);
      const spec = enrichSpec({ parametersHash: "bought with those" });
      expect((await runNight(context, spec)).counts).toMatchObject({ read: 5, parametersChanged: 3, due: 4 });
      expect(await context.sql("SELECT * FROM person_data.reject")).toEqual([]);
    });

    test("with resend are bought again, once", async () => {
      const context = getContext();
      await answerThree(context);
      const spec = enrichSpec({ parametersHash: "bought with those" });
      const resent = await runNight(context, { ...spec, acceptParameters: "resend" }, matchAll);
      expect(gist(resent.counts)).toEqual({
        read: 3,
        due: 3,
        dueReasons: { parameters_changed: 3 },
        toSend: 3,
      });
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 3, unchanged: 3 });
    });

    test("a resend that a cap stopped resumes without asking again", async () => {
      const context = getContext();
      await answerThree(context);
      const spec = enrichSpec({ parametersHash: "bought with those" });
      const capped = await runNight(
        context,
        { ...spec, acceptParameters: "resend", maxRecords: 1 },
        matchAll,
      );
      expect(gist(capped.counts)).toMatchObject({ toSend: 1, remaining: 2 });
      const rest = await runNight(context, spec, matchAll);
      expect(gist(rest.counts)).toEqual({
        read: 3,
        unchanged: 1,
        due: 2,
        dueReasons: { parameters_changed: 2 },
        toSend: 2,
      });
    });

    test("with keep buy nothing, and changes of the content are seen from then on", async () => {
      const context = getContext();
      await answerThree(context);
      const kept = await runNight(context, { ...changed, acceptParameters: "keep" });
      expect(gist(kept.counts)).toEqual({ read: 3, unchanged: 3 });
      expect(gist((await runNight(context, changed)).counts)).toEqual({ read: 3, unchanged: 3 });
      await context.sql("UPDATE crm.people SET email = 'no longer mapped' WHERE id = '1'");
      await context.sql("UPDATE crm.people SET note = 'bob@example.org' WHERE id = '2'");
      const later = await runNight(context, changed, matchAll);
      expect(later.sent).toEqual({ 2: { first_name: "Bob", emails: ["bob@example.org"] } });
    });

    test("with keep and a duplicate key keep the row that is used", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "A", email: "a@example.com" },
        ...Array.from({ length: 9 }, (_, i) => ({
          id: "1",
          first_name: `B${i}`,
          email: `b${i}@example.com`,
        })),
      ]);
      await runNight(context, enrichSpec(), matchAll);
      const kept = await runNight(context, { ...changed, acceptParameters: "keep" });
      expect(gist(kept.counts)).toEqual({ read: 10, unchanged: 1, rejectedBeforeSending: 9 });
      expect(gist((await runNight(context, changed)).counts)).toMatchObject({ unchanged: 1 });
    });

    test("with keep, a pid_from that was added makes no answered row due", async () => {
      const context = getContext();
      await makePeople(context, [{ ...ann, last_name: "Lee" }]);
      await runNight(context, enrichSpec(), matchAll);
      await runNight(context, resolveSpec(), matchAll);
      const spec = enrichSpec({ pidFrom: "resolve_people", parametersHash: "bought with those" });
      const kept = await runNight(context, { ...spec, acceptParameters: "keep" });
      expect(gist(kept.counts)).toEqual({ read: 1, unchanged: 1 });
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("don't ask when nothing was bought with the old ones", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1" }]);
      await runNight(context, enrichSpec());
      await addPeople(context, [bob]);
      const spec = enrichSpec({ parametersHash: "bought with those" });
      const { counts } = await runNight(context, spec, matchAll);
      expect(gist(counts)).toMatchObject({ due: 1, toSend: 1 });
      expect(counts.parametersChanged).toBe(0);
    });

    test("changed back before anything was bought ask for nothing", async () => {
      const context = getContext();
      await answerThree(context);
      await runNight(context, enrichSpec({ parametersHash: "bought with those" }));
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 3, unchanged: 3 });
    });
  });
}
