import { describe, expect, test } from "vitest";
import { DAY_MS, enrichSpec, makePeople, people, validateSpec } from "./people.ts";
import { gist, matchAll, type Responder, runNight } from "./nights.ts";
import { columnOf, type GetContext } from "./context.ts";

const twoColumns = { ...people, fields: { first_name: ["first_name"], emails: ["email", "note"] } };
const enrich = enrichSpec({ input: twoColumns, dropsInvalidEmails: true });
const validate = validateSpec({ input: { ...people, fields: { emails: ["email", "note"] } } });

const statuses: Readonly<Record<string, string>> = {
  "bad@example.com": "invalid",
  "good@example.com": "valid",
  "odd@example.com": "unknown",
};
const byStatus: Responder = ({ address = "" }) =>
  statuses[address] === undefined ? null : { pid: "", status: statuses[address] };

/** Tests of `valid_emails_from`: only invalid addresses are left out. */
export function describeValidEmails(getContext: GetContext): void {
  describe("valid_emails_from", () => {
    test("leaves out addresses found invalid, but no unknown, unmatched or unvalidated ones", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "Ann", email: "bad@example.com", note: "good@example.com" },
        { id: "2", first_name: "Bob", email: "odd@example.com", note: "unmatched@example.com" },
        { id: "3", first_name: "Eve", email: "bad@example.com" },
      ]);
      await runNight(context, validate, byStatus);
      await context.sql("UPDATE crm.people SET email = 'new@example.com' WHERE id = '2'");
      const { sent } = await runNight(context, enrich, matchAll);
      expect(sent).toEqual({
        1: { first_name: "Ann", emails: ["good@example.com"] },
        2: { first_name: "Bob", emails: ["new@example.com", "unmatched@example.com"] },
        3: { first_name: "Eve" },
      });
    });

    test("without it every address is sent", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "bad@example.com" }]);
      await runNight(context, validate, byStatus);
      const { sent } = await runNight(context, enrichSpec({ input: twoColumns }), matchAll);
      expect(sent).toEqual({ 1: { emails: ["bad@example.com"] } });
    });

    test("a row with nothing but invalid addresses is rejected before it costs a call", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "bad@example.com" }]);
      await runNight(context, validate, byStatus);
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 1, rejectedBeforeSending: 1 });
      expect(await columnOf(context, "SELECT code FROM person_data.reject")).toEqual(["no_identifier"]);
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("an answered row whose only address is found invalid later stays answered", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "bad@example.com" }]);
      await runNight(context, enrich, matchAll);
      await runNight(context, validate, byStatus);
      const second = await runNight(context, enrich);
      expect(gist(second.counts)).toEqual({ read: 1, unchanged: 1 });
      expect(second.counts.states).toEqual({ rows: 1, matched: 1, unmatched: 0, rejected: 0, due: 0 });
    });

    test("an address that became invalid makes no row due, and is left out once the row is", async () => {
      const context = getContext();
      const spec = { ...enrich, refreshAfterMs: 30 * DAY_MS };
      await makePeople(context, [{ id: "1", first_name: "Ann", email: "bad@example.com" }]);
      await runNight(context, spec, matchAll, { at: "2100-01-01T00:00:00+00:00" });
      await runNight(context, validate, byStatus);
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
      await context.sql(
        "UPDATE person_data_state.lookup_state SET due_at = '2020-01-01' WHERE job = 'enrich_people'",
      );
      const { sent, counts } = await runNight(context, spec, matchAll, { at: "2100-01-02T00:00:00+00:00" });
      expect(sent).toEqual({ 1: { first_name: "Ann" } });
      expect(gist(counts)).toMatchObject({ dueReasons: { expired: 1 } });
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("rows that differ only in an invalid address are sent once", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "Ann", email: "good@example.com", note: "bad@example.com" },
        { id: "2", first_name: "Ann", email: "good@example.com" },
      ]);
      await runNight(context, validate, byStatus);
      const { sent, counts } = await runNight(context, enrich, matchAll);
      expect(Object.keys(sent)).toEqual(["1,2"]);
      expect(gist(counts)).toMatchObject({ toSend: 1, duplicate: 1 });
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 2, unchanged: 2 });
    });
  });
}
