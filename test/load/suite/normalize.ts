import { describe, expect, test } from "vitest";
import { columnOf, type GetContext } from "./context.ts";
import { erase } from "./erased-couple.ts";
import { gist, matchAll, type Responder, runNight } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";

const input = { ...people, normalize: true };
const enrich = enrichSpec({ input });
const resolve = resolveSpec({ input });
const validate = validateSpec({ input: { ...input, fields: { emails: ["email"] } } });

const invalid: Responder = () => ({ pid: "", status: "invalid" });

/** Tests of `normalize`. */
export function describeNormalize(getContext: GetContext): void {
  describe("normalize", () => {
    test("trims values, lower-cases addresses, and leaves out what is no value", async () => {
      const context = getContext();
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

    test("off, sends values as they are", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: " n/a", email: "Test@Test" }]);
      const { sent } = await runNight(context, enrichSpec(), matchAll);
      expect(sent).toEqual({ 1: { first_name: " n/a", emails: ["Test@Test"] } });
    });

    test("applies to each value of a list", async () => {
      const context = getContext();
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
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann", email: "BAD@example.com" }]);
      await runNight(context, validate, invalid);
      const { sent } = await runNight(context, { ...enrich, dropsInvalidEmails: true }, matchAll);
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
    });

    test("rejects a row without a value that is left", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "n/a", email: "none", phone: "0" }]);
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 1, rejectedBeforeSending: 1 });
      expect(await columnOf(context, "SELECT code FROM person_data.reject")).toEqual(["no_identifier"]);
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("rejects a row that can't be resolved without its placeholders", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "no@none.com" }]);
      await runNight(context, resolve);
      expect(await columnOf(context, "SELECT code FROM person_data.reject")).toEqual(["not_resolvable"]);
    });

    test("a row that was resolved waits for nothing when only its writing changes", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" }]);
      await runNight(context, resolve, matchAll);
      await context.sql("UPDATE crm.people SET email = 'ANN@example.com '");
      const { sent } = await runNight(context, { ...enrich, pidFrom: "resolve_people" }, matchAll);
      expect(sent).toEqual({
        1: { service_pid: "p-1", first_name: "Ann", last_name: "Lee", emails: ["ann@example.com"] },
      });
    });

    test("rows of an erased address are left out, and found by it, however they write it", async () => {
      const context = getContext();
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
