import { recordsOf } from "../../support/keyed-records.ts";
import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople, people, validateSpec } from "./people.ts";
import { commitOf, gist, matchAll, runNight, runOf, seizeShard } from "./nights.ts";
import { columnOf, type GetContext } from "./context.ts";
import type { InputSource } from "../../../src/load/inputs/input-source.ts";

const over = (changes: Partial<InputSource>) => enrichSpec({ input: { ...people, ...changes } });

/** Tests of inputs and mappings. */
export function describeInputs(getContext: GetContext): void {
  describe("what is sent", () => {
    test("is every value unchanged, to the code point", async () => {
      const context = getContext();
      const values = [
        "é", // composed
        "e\u0301", // decomposed
        `"double" and 'single' quotes`,
        "back\\slash \\n \\u0041 \\",
        "two\nlines\r\n\tand a tab",
        "👩‍👩‍👧 𝒜 \u{10FFFF}",
        "\u0001\u001F\u007F\u2028\u2029\uFEFFx",
        " leading and trailing ",
        "$1 %s {} ; -- /* */",
        "ﬁ ß İ ı",
      ];
      await makePeople(
        context,
        values.map((first_name, i) => ({ id: String(i), first_name })),
      );
      const { sent } = await runNight(context, enrichSpec(), matchAll);
      expect(sent).toEqual(Object.fromEntries(values.map((first_name, i) => [String(i), { first_name }])));
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 10, unchanged: 10 });
    });

    test("leaves out NULL, empty and blank values, whatever the blank", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "", last_name: " \t\r\n\v\f", email: "\u00A0\u3000\u2003", phone: "5550100" },
        { id: "2", first_name: "\u1680\u202F\u205F\u2028\u2029\u0085\uFEFF\u200B", phone: "5550101" },
      ]);
      const { sent } = await runNight(context, enrichSpec(), matchAll);
      expect(sent).toEqual({ 1: { phones: ["5550100"] }, 2: { phones: ["5550101"] } });
    });

    test("a blank that becomes NULL is no change", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: " ", phone: "5550100" }]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("UPDATE crm.people SET first_name = NULL");
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("is a list of all columns mapped to it, in their order, repeated values included", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: "b@example.com", note: "a@example.com" },
        { id: "2", note: "a@example.com" },
        { id: "3", email: "a@example.com", note: "a@example.com" },
      ]);
      const spec = over({ fields: { emails: ["email", "note"] } });
      const { sent } = await runNight(context, spec, matchAll);
      expect(sent).toEqual({
        1: { emails: ["b@example.com", "a@example.com"] },
        2: { emails: ["a@example.com"] },
        3: { emails: ["a@example.com", "a@example.com"] },
      });
    });

    test("stores the addresses of each row, and removes those that are gone", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: "b@example.com", note: "a@example.com" },
        { id: "2", note: "a@example.com" },
      ]);
      const spec = validateSpec({ input: { ...people, fields: { emails: ["email", "note"] } } });
      await runNight(context, spec, matchAll);
      const addresses =
        "SELECT source, source_key, position, email_address FROM person_data.input_email ORDER BY 2, 3";
      expect(await context.sql(addresses)).toEqual([
        { source: "people", source_key: "1", position: "0", email_address: "b@example.com" },
        { source: "people", source_key: "1", position: "1", email_address: "a@example.com" },
        { source: "people", source_key: "2", position: "0", email_address: "a@example.com" },
      ]);
      const untouched = await context.sql("SELECT * FROM person_data.input_email WHERE source_key = '2'");
      await context.sql("UPDATE crm.people SET email = NULL WHERE id = '1'");
      await runNight(context, spec, matchAll);
      expect(await context.sql(addresses)).toEqual([
        { source: "people", source_key: "1", position: "0", email_address: "a@example.com" },
        { source: "people", source_key: "2", position: "0", email_address: "a@example.com" },
      ]);
      expect(await context.sql("SELECT * FROM person_data.input_email WHERE source_key = '2'")).toEqual(
        untouched,
      );
    });
  });

  describe("a selection", () => {
    test("is frozen: what happens to the input afterwards changes nothing of it", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, [
        { id: "1", first_name: "Ann" },
        { id: "2", first_name: "Bob" },
      ]);
      const run = runOf(enrichSpec());
      await warehouse.beginRun(run);
      const selection = await warehouse.selectLookup(enrichSpec(), run);
      await context.sql("UPDATE crm.people SET first_name = 'Zoe'; DELETE FROM crm.people WHERE id = '2'");
      const records = await recordsOf(warehouse.db, enrichSpec(), selection);
      expect(records.map((record) => record.json).toSorted()).toEqual([
        '{"first_name":"Ann"}',
        '{"first_name":"Bob"}',
      ]);
      expect(await recordsOf(warehouse.db, enrichSpec(), selection)).toEqual(records);
      await selection.close();
      await selection.close();
      await warehouse.commitLookup(
        commitOf(
          warehouse,
          enrichSpec(),
          run,
          records.map((record) => [record, null] as const),
        ),
      );
      const { counts } = await runNight(context, enrichSpec());
      expect(gist(counts)).toMatchObject({ read: 1, dueReasons: { content_changed: 1 } });
    });

    test("comes in pages, every record once", async () => {
      const context = getContext();
      const { warehouse } = context;
      await context.sql(
        "CREATE TABLE crm.people (id int, first_name text, last_name text, email text, phone text)",
      );
      await context.sql("INSERT INTO crm.people SELECT i, 'n' || i FROM generate_series(1, 9001) AS i");
      const run = runOf(enrichSpec());
      await warehouse.beginRun(run);
      const selection = await warehouse.selectLookup(enrichSpec(), run);
      const pages = [];
      for await (const page of selection.records()) pages.push(page);
      expect(pages.length).toBeGreaterThan(1);
      expect(new Set(pages.flat().map((record) => record.recordId)).size).toBe(9001);
      const records = await recordsOf(warehouse.db, enrichSpec(), selection);
      expect(new Set(records.map((record) => record.keys[0])).size).toBe(9001);
      await selection.close();
    });

    test("writes nothing that a plan would have to undo", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }, { id: "2" }, { id: null }]);
      await context.warehouse.previewLookup(enrichSpec(), 0);
      await context.warehouse.previewLookup(validateSpec(), 0);
      expect(await columnOf(context, "SELECT code FROM person_data.reject")).toEqual([]);
      for (const table of ["lookup_row", "lookup_due", "lookup_job"]) {
        expect(await context.sql(`SELECT FROM person_data_state.${table}`)).toEqual([]);
      }
    });
  });

  describe("an input", () => {
    test.each([
      ["a semicolon", "SELECT * FROM crm.people;"],
      ["a comment", "SELECT * FROM crm.people -- all of them"],
      ["a semicolon and a comment", "SELECT * FROM crm.people; -- all of them\n"],
      ["a semicolon inside a comment", "SELECT * FROM crm.people /* a; b */ ; ; /* c */"],
      [
        "a text that looks like a comment",
        "SELECT *, '; -- x' AS y FROM crm.people WHERE note IS DISTINCT FROM '--;'",
      ],
      ["its own WITH", "WITH p AS (SELECT * FROM crm.people) SELECT * FROM p"],
    ])("can be a query that ends with %s", async (_, sql) => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      const spec = over({ relation: { sql } });
      expect(await context.warehouse.checkInput(spec.input)).toEqual([]);
      expect((await runNight(context, spec, matchAll)).sent).toEqual({ 1: { first_name: "Ann" } });
    });

    test("that can't be read is reported by its settings", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      const hintsOf = async (changes: Partial<InputSource>) =>
        (await context.warehouse.checkInput(over(changes).input)).map(({ hint }) => hint);
      expect(await hintsOf({ relation: { table: ["crm", "peopel"] } })).toEqual([
        expect.stringContaining("correct `table:`"),
      ]);
      expect(await hintsOf({ relation: { sql: "SELECT * FROM crm.peopel" } })).toEqual([
        expect.stringContaining("correct `sql:`"),
      ]);
      expect(await hintsOf({ where: "nonsense = 1" })).toEqual([
        "Check `where` and the types of the mapped columns.",
      ]);
    });

    test("can be a view, and narrowed by where", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "Ann", note: "active" },
        { id: "2", first_name: "Bob", note: "lost" },
      ]);
      await context.sql("CREATE VIEW crm.everybody AS SELECT * FROM crm.people");
      const spec = over({
        relation: { table: ["crm", "everybody"] },
        where: "note = 'active' OR note = 'new' -- or",
      });
      const { sent, counts } = await runNight(context, spec, matchAll);
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
      expect(gist(counts)).toMatchObject({ read: 1 });
    });

    test("loses a row, which is present again when it is back", async () => {
      const context = getContext();
      const [ann, bob] = [
        { id: "1", first_name: "Ann" },
        { id: "2", first_name: "Bob" },
      ];
      const present = () =>
        columnOf(context, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1");
      await makePeople(context, [ann, bob]);
      await runNight(context, enrichSpec(), matchAll);
      expect(await present()).toEqual(["1", "2"]);
      await context.sql("DELETE FROM crm.people WHERE id = '2'");
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
      expect(await present()).toEqual(["1"]);
      await addPeople(context, [bob]);
      expect((await runNight(context, enrichSpec())).counts).toMatchObject({ read: 2, toSend: 0 });
      expect(await present()).toEqual(["1", "2"]);
    });

    test("can be selected again by a run that resumes under the same id", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      const run = runOf(enrichSpec(), "nightly-7");
      await warehouse.beginRun(run);
      await warehouse.selectLookup(enrichSpec(), run);
      await seizeShard(warehouse, run);
      const { sent } = await runNight(context, enrichSpec(), matchAll, { runId: "nightly-7" });
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
    });
  });
}
