import { describe, expect, test } from "vitest";
import { useContext, openPostgresContext } from "./postgres-context.ts";
import { gist, matchAll, runNight } from "./suite/nights.ts";
import { enrichSpec, makePeople, people } from "./suite/people.ts";
import { columnOf } from "./suite/context.ts";

const context = useContext(() =>
  openPostgresContext({
    prepare: `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = crm, public', current_database()); END $$`,
  }),
);

describe("the search path", () => {
  test("lets no function of others take the place of a built-in one", async () => {
    // A better match than the built-in one for an integer constant.
    await context.sql(`CREATE FUNCTION public.hashtextextended(text, integer) RETURNS bigint LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'called'; END $$`);
    await makePeople(context, [{ id: "1", email: "ann@example.com" }]);
    const shown = await runNight(context, enrichSpec(), matchAll);
    expect(Object.keys(shown.sent)).toEqual(["1"]);
    await context.sql("DROP FUNCTION public.hashtextextended(text, integer)");
  });

  test.each([
    [
      "a table without a schema, in a condition a function",
      { relation: { table: ["people"] as const }, where: "is_wanted(id)" },
    ],
    [
      "a query with a function of the role",
      { relation: { sql: "SELECT * FROM people WHERE is_wanted(id)" } },
    ],
  ])("finds %s where the role of the connection finds it", async (_, changes) => {
    await makePeople(context, [
      { id: "1", email: "ann@example.com" },
      { id: "2", email: "bob@example.com" },
    ]);
    // The body is resolved at each call, with the current search path.
    await context.sql(`CREATE FUNCTION crm.is_wanted(given text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
      BEGIN RETURN EXISTS (SELECT FROM people WHERE id = given); END $$`);
    const spec = enrichSpec({ input: { ...people, ...changes } });
    expect(await context.warehouse.checkInput(spec.input)).toEqual([]);
    const { counts } = await runNight(context, spec, matchAll);
    expect(gist(counts)).toMatchObject({ read: 2, due: 2, toSend: 2 });
    expect(await columnOf(context, "SELECT source_key FROM person_data.enrichment ORDER BY 1")).toEqual([
      "1",
      "2",
    ]);
  });
});
