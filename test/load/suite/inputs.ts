import { describe, expect, test } from "vitest";
import type { InputSource } from "../../../src/load/inputs/input.ts";
import { recordsOf } from "../../support/keyed-records.ts";
import { columnOf, type Context } from "./context.ts";
import { erase } from "./erased-couple.ts";
import { commitOf, gist, matchAll, type Responder, runNight, runOf } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";

const over = (changes: Partial<InputSource>) => enrichSpec({ input: { ...people, ...changes } });

/** Tests of inputs, which hold for every engine. */
export function describeInputs(context: Context): void {
  describe("what is sent", () => {
    test("is every value unchanged, to the code point", async () => {
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
      await makePeople(context, [
        { id: "1", first_name: "", last_name: " \t\r\n\v\f", email: "\u00A0\u3000\u2003", phone: "5550100" },
        { id: "2", first_name: "\u1680\u202F\u205F\u2028\u2029\u0085\uFEFF\u200B", phone: "5550101" },
      ]);
      const { sent } = await runNight(context, enrichSpec(), matchAll);
      expect(sent).toEqual({ 1: { phones: ["5550100"] }, 2: { phones: ["5550101"] } });
    });

    test("stores the addresses of each row, and removes those that are gone", async () => {
      await makePeople(context, [
        { id: "1", email: "b@example.com", note: "a@example.com" },
        { id: "2", note: "a@example.com" },
      ]);
      const spec = validateSpec({ input: { ...people, fields: { emails: ["email", "note"] } } });
      const addresses = () =>
        columnOf(
          context,
          "SELECT concat_ws(' ', source_key, position, email_address, _run_id) FROM person_data.input_email ORDER BY 1",
        );
      const first = await runNight(context, spec, matchAll);
      const untouched = `2 0 a@example.com ${first.run.runId}`;
      expect((await addresses()).length).toBe(3);
      await context.sql("UPDATE crm.people SET email = NULL WHERE id = '1'");
      const { run } = await runNight(context, spec, matchAll);
      expect(await addresses()).toEqual([`1 0 a@example.com ${run.runId}`, untouched]);
    });
  });

  describe("an input", () => {
    test("is frozen when it is selected: what happens to it afterwards changes nothing", async () => {
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

    test.each([
      ["a semicolon", "WITH p AS (SELECT * FROM crm.people) SELECT * FROM p ; ;\n"],
      ["a comment", "SELECT *, '; -- x' AS y FROM crm.people WHERE note IS DISTINCT FROM '--;' -- all;"],
    ])("can be a query that ends with %s", async (_, sql) => {
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      const spec = over({ relation: { sql } });
      expect(await context.warehouse.checkInput(spec.input)).toEqual([]);
      expect((await runNight(context, spec, matchAll)).sent).toEqual({ 1: { first_name: "Ann" } });
    });
  });
}

const invalid: Responder = () => ({ pid: "", status: "invalid" });

/** Tests of `normalize`, which hold for every engine. */
export function describeNormalize(context: Context): void {
  const input = { ...people, normalize: true };
  const enrich = enrichSpec({ input });
  const validate = validateSpec({ input: { ...input, fields: { emails: ["email"] } } });
  describe("normalize", () => {
    test("trims values, lowercases addresses, and leaves out what is no value", async () => {
      await makePeople(context, [
        {
          id: "1",
          first_name: " Ann\t",
          last_name: "McLEE",
          email: "\u00A0Ann.LEE@Example.COM ",
          phone: " 212-555-0142 ",
        },
        { id: "2", first_name: "N/A", last_name: "Null", email: "bob.example.com", phone: "000-000-0000" },
        { id: "3", first_name: "Unknown", last_name: "-", email: "Test@test.com", phone: "2125550143" },
        { id: "4", first_name: "Eve", email: "none", phone: "call me" },
      ]);
      const { sent } = await runNight(context, enrich, matchAll);
      expect(sent).toEqual({
        1: {
          first_name: "Ann",
          last_name: "McLEE",
          emails: ["ann.lee@example.com"],
          phones: ["212-555-0142"],
        },
        2: { last_name: "Null" },
        3: { phones: ["2125550143"] },
        4: { first_name: "Eve" },
      });
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 4, unchanged: 4 });
    });

    test("applies to each value of a list", async () => {
      await context.sql("CREATE TABLE crm.people (id text, mails text[], numbers text[])");
      await context.sql("INSERT INTO crm.people VALUES ('1', $1, $2)", [
        ["none", " B@example.com", "a@example.com"],
        ["n/a", "+1 212 555 0142", "12"],
      ]);
      const fields = { emails: ["mails"], phones: ["numbers"] };
      const { sent } = await runNight(context, enrichSpec({ input: { ...input, fields } }), matchAll);
      expect(sent).toEqual({
        1: { emails: ["b@example.com", "a@example.com"], phones: ["+1 212 555 0142"] },
      });
    });

    test("leaves out an address found invalid, however the row writes it", async () => {
      await makePeople(context, [{ id: "1", first_name: "Ann", email: "BAD@example.com" }]);
      await runNight(context, validate, invalid);
      const { sent } = await runNight(context, { ...enrich, dropsInvalidEmails: true }, matchAll);
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
    });

    test("rejects a row without a value that is left, or that can't be resolved without its placeholders", async () => {
      await makePeople(context, [
        { id: "1", first_name: "n/a", email: "none", phone: "0" },
        { id: "2", first_name: "Ann", last_name: "Lee", email: "no@none.com" },
      ]);
      await runNight(context, resolveSpec({ input }));
      const codes = "SELECT code FROM person_data.reject ORDER BY source_key";
      expect(await columnOf(context, codes)).toEqual(["no_identifier", "not_resolvable"]);
    });

    test("rows of an erased address are left out, and found by it, however they write it", async () => {
      await makePeople(context, [
        { id: "1", first_name: "Ann", email: " ANN@example.com" },
        { id: "2", first_name: "Bob", email: "none" },
        { id: "3", first_name: "Eve", email: "none" },
      ]);
      await runNight(context, validate, matchAll);
      await erase(context, { emails: ["ann@example.com"] }, [input]);
      await addPeople(context, [{ id: "4", first_name: "Anne", email: "Ann@Example.com" }]);
      const { counts, sent } = await runNight(context, enrich, matchAll);
      expect(sent).toEqual({ 2: { first_name: "Bob" }, 3: { first_name: "Eve" } });
      expect(gist(counts)).toMatchObject({ read: 4, suppressed: 2, toSend: 2 });
      expect(await columnOf(context, "SELECT email_address FROM person_data.input_email")).toEqual([]);
      expect(await columnOf(context, "SELECT email_address FROM person_data.email_validation")).toEqual([]);
    });
  });
}
