import { describe, expect, test } from "vitest";
import { addPeople, DAY_MS, enrichSpec, makePeople, people } from "./people.ts";
import { FixConfigurationError } from "../../../src/errors.ts";
import { gist, matchAll, runNight, runOf } from "./nights.ts";
import { columnOf, type GetContext, type Context } from "./context.ts";
import type { LookupSpec } from "../../../src/load/due/lookup-spec.ts";

const HOUR_MS = 60 * 60 * 1000;
const withCursor = { ...people, cursor: { column: "updated_at", overlapMs: HOUR_MS } };
const spec = enrichSpec({ input: withCursor });

const ann = { id: "1", first_name: "Ann", updated_at: "2026-11-01T00:00:00Z" };
const bob = { id: "2", first_name: "Bob", updated_at: "2026-11-10T00:00:00.5Z" };

async function firstNight(context: Context, first: LookupSpec = spec): Promise<void> {
  await makePeople(context, [ann, bob]);
  await runNight(context, first, matchAll);
}

const cursors = (context: Context) =>
  columnOf(context, `SELECT "cursor"->>'value' FROM person_data_ops.checkpoint`);

/** Tests of `cursor`, which only narrows the search for changes. */
export function describeCursor(getContext: GetContext): void {
  describe("a cursor", () => {
    test("that moved without a change of the content makes nothing due", async () => {
      const context = getContext();
      await firstNight(context);
      expect(await cursors(context)).toEqual(["2026-11-10 00:00:00.5+00"]);
      await context.sql("UPDATE crm.people SET updated_at = '2026-11-20T00:00:00Z'");
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 2, unchanged: 2 });
      expect(await cursors(context)).toEqual(["2026-11-20 00:00:00+00"]);
    });

    test("finds changes since the checkpoint, new rows wherever they stand, and nulls", async () => {
      const context = getContext();
      await firstNight(context);
      await context.sql(
        "UPDATE crm.people SET first_name = 'Anne', updated_at = '2026-11-11T00:00:00Z' WHERE id = '1'",
      );
      await addPeople(context, [{ id: "3", first_name: "Eve", updated_at: "2020-01-01T00:00:00Z" }]);
      const second = await runNight(context, spec, matchAll);
      expect(gist(second.counts).dueReasons).toEqual({ content_changed: 1, never_answered: 1 });
      await context.sql("UPDATE crm.people SET first_name = 'Bobby', updated_at = NULL WHERE id = '2'");
      expect(gist((await runNight(context, spec, matchAll)).counts).dueReasons).toEqual({
        content_changed: 1,
      });
    });

    test("finds a change that committed late, within the overlap, its lower bound included", async () => {
      const context = getContext();
      await firstNight(context);
      const change = (name: string, at: string) =>
        context.sql("UPDATE crm.people SET first_name = $1, updated_at = $2 WHERE id = '1'", [name, at]);
      await change("A", "2026-11-09T23:00:00.499999Z");
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 2, unchanged: 2 });
      await change("B", "2026-11-09T23:00:00.5Z");
      expect(gist((await runNight(context, spec, matchAll)).counts).dueReasons).toEqual({
        content_changed: 1,
      });
    });

    test("that its writer forgot to move hides a change until every row is compared, after 30 days", async () => {
      const context = getContext();
      await firstNight(context);
      await context.sql("UPDATE crm.people SET first_name = 'Anne' WHERE id = '1'");
      const age = (days: number) =>
        context.sql(`UPDATE person_data_ops.checkpoint
          SET "cursor" = jsonb_set("cursor", '{full_at}', to_jsonb(now() - interval '${days} days'))`);
      await age(29);
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 2, unchanged: 2 });
      await age(31);
      expect(gist((await runNight(context, spec, matchAll)).counts).dueReasons).toEqual({
        content_changed: 1,
      });
      expect(
        await columnOf(
          context,
          `SELECT now() - ("cursor"->>'full_at')::timestamptz < interval '1 minute' FROM person_data_ops.checkpoint`,
        ),
      ).toEqual(["true"]);
    });

    test("narrows nothing when the mapping changed", async () => {
      const context = getContext();
      await firstNight(context);
      const fields = { first_name: ["note"] };
      const other = enrichSpec({ input: { ...withCursor, fields }, parametersHash: "bought with those" });
      await runNight(context, { ...other, acceptParameters: "keep" });
      await context.sql(
        "UPDATE crm.people SET note = 'Anne', updated_at = '2026-11-11T00:00:00Z' WHERE id = '1'",
      );
      const { sent } = await runNight(context, other, matchAll);
      expect(sent).toEqual({ 1: { first_name: "Anne" } });
    });

    test.each([
      ["another table", { relation: { table: ["crm", "others"] } }],
      ["a query", { relation: { sql: "SELECT * FROM crm.others" } }],
      ["another where", { relation: { sql: "SELECT * FROM crm.others WHERE true" } }],
    ])("narrows nothing when the rows come from %s", async (_, change) => {
      const context = getContext();
      await firstNight(context);
      await context.sql("CREATE TABLE crm.others AS SELECT * FROM crm.people");
      await context.sql("UPDATE crm.others SET first_name = 'Anne' WHERE id = '1'");
      const { sent } = await runNight(context, enrichSpec({ input: { ...withCursor, ...change } }), matchAll);
      expect(sent).toEqual({ 1: { first_name: "Anne" } });
    });

    test.each([
      ["timestamptz", "2099-01-01T00:00:00Z"],
      ["timestamptz", "infinity"],
      ["timestamp", "2099-01-01T00:00:00"],
      ["timestamp", "infinity"],
      ["date", "2099-01-01"],
      ["date", "infinity"],
    ])(
      "of type %s that is %s is left out of the checkpoint and reported, and hides no change",
      async (type, value) => {
        const context = getContext();
        const dated = [1, 2, 3].map((id) => ({ id: String(id), first_name: `n${id}` }));
        await makePeople(context, dated);
        await context.sql(`ALTER TABLE crm.people ADD COLUMN moved ${type}`);
        await context.sql(`UPDATE crm.people SET moved = '2026-11-01'`);
        await context.sql(`UPDATE crm.people SET moved = '${value}' WHERE id = '3'`);
        const own = enrichSpec({ input: { ...people, cursor: { column: "moved", overlapMs: HOUR_MS } } });
        await runNight(context, own, matchAll);
        expect((await cursors(context)).map((text) => text?.slice(0, 10))).toEqual(["2026-11-01"]);
        await context.sql(
          `UPDATE crm.people SET first_name = 'changed', moved = '2026-11-20' WHERE id = '1'`,
        );
        expect(gist((await runNight(context, own, matchAll)).counts).dueReasons).toEqual({
          content_changed: 1,
        });
        const run = runOf(own);
        await context.warehouse.beginRun(run);
        const selection = await context.warehouse.selectLookup(own, run);
        expect(selection.cursorAhead).toBe(1);
        await selection.close();
      },
    );

    test.each(["bigint", "text", "double precision"])("of type %s is refused", async (type) => {
      const context = getContext();
      await makePeople(context, [ann]);
      await context.sql(`ALTER TABLE crm.people ADD COLUMN version ${type}`);
      const input = { ...people, cursor: { column: "version", overlapMs: HOUR_MS } };
      expect(await context.warehouse.checkInput(input)).toEqual([
        {
          path: "inputs.people.cursor",
          // Type names differ between databases.
          message: expect.stringMatching(/^version is of type .+, but a cursor must be a date or a time$/),
          hint: "Remove `cursor`: then every row is compared.",
        },
      ]);
      await expect(context.warehouse.previewLookup(enrichSpec({ input }), 0)).rejects.toThrow(
        FixConfigurationError,
      );
    });

    test("stays where it is when a cap left rows over", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      await runNight(context, { ...spec, maxRecords: 1 }, matchAll);
      expect(await cursors(context)).toEqual([]);
      await runNight(context, spec, matchAll);
      expect(await cursors(context)).toEqual(["2026-11-10 00:00:00.5+00"]);
    });

    test("that hides a change never mixes up what is sent for equal rows", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "Ann", updated_at: "2026-11-01T00:00:00Z" },
        { id: "2", first_name: "Ann", updated_at: "2026-11-01T00:00:00Z" },
        { id: "3", first_name: "Bob", updated_at: "2026-11-10T00:00:00Z" },
      ]);
      const aged = { ...spec, refreshAfterMs: 30 * DAY_MS };
      await runNight(context, aged, matchAll, { at: "2020-01-01T00:00:00+00:00" });
      await context.sql("UPDATE crm.people SET first_name = 'Aaron' WHERE id = '2'");
      const { sent } = await runNight(context, aged, matchAll, { at: "2100-01-01T00:00:00+00:00" });
      expect(sent).toEqual({
        1: { first_name: "Ann" },
        2: { first_name: "Aaron" },
        3: { first_name: "Bob" },
      });
      expect(gist((await runNight(context, aged)).counts)).toEqual({ read: 3, unchanged: 3 });
      const compared = { ...aged, input: people };
      expect(gist((await runNight(context, compared)).counts)).toEqual({ read: 3, unchanged: 3 });
    });

    test.each([
      ["date", "date", "2026-11-01", "2026-11-05"],
      ["timestamp", "timestamp", "2026-11-01", "2026-11-05"],
    ])("can be an %s column", async (_, type, before, after) => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await context.sql(`ALTER TABLE crm.people ADD COLUMN version ${type}`);
      await context.sql(`UPDATE crm.people SET version = '${before}'`);
      const input = { ...people, cursor: { column: "version", overlapMs: HOUR_MS } };
      await runNight(context, enrichSpec({ input }), matchAll);
      expect(gist((await runNight(context, enrichSpec({ input }))).counts)).toEqual({
        read: 1,
        unchanged: 1,
      });
      await context.sql(`UPDATE crm.people SET first_name = 'Anne', version = '${after}'`);
      expect(gist((await runNight(context, enrichSpec({ input }), matchAll)).counts).dueReasons).toEqual({
        content_changed: 1,
      });
    });
  });
}
