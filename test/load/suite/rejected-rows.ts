import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";
import { gist, matchAll, runNight } from "./nights.ts";
import { columnOf, type GetContext, type Context } from "./context.ts";

const rejects = (context: Context) =>
  context.sql(`SELECT source_key, stage, code, resolved_at IS NOT NULL AS is_resolved FROM person_data.reject
    ORDER BY code, source_key, resolved_at NULLS LAST`);

/** Tests of rows that are never sent, and of refused records. */
export function describeRejectedRows(getContext: GetContext): void {
  describe("rejected rows", () => {
    test("a row without any value is rejected once, and counts as unchanged the next night", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: " ", email: "\u00A0\t\u3000\n" }, { id: "2" }]);
      const first = await runNight(context, enrichSpec());
      expect(gist(first.counts)).toEqual({ read: 2, rejectedBeforeSending: 2 });
      expect(first.counts.states).toEqual({ rows: 2, matched: 0, unmatched: 0, rejected: 2, due: 0 });
      const open = { stage: "input", code: "no_identifier", is_resolved: "false" };
      expect(await rejects(context)).toEqual([
        { source_key: "1", ...open },
        { source_key: "2", ...open },
      ]);
      const second = await runNight(context, enrichSpec());
      expect(gist(second.counts)).toEqual({ read: 2, unchanged: 2 });
      expect(second.counts.states).toEqual({ rows: 2, matched: 0, unmatched: 0, rejected: 2, due: 0 });
      expect(await rejects(context)).toHaveLength(2);
    });

    test("a rejected row that gets a value is sent, and its reject is resolved once it is answered", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1" }]);
      await runNight(context, enrichSpec());
      await context.sql("UPDATE crm.people SET email = 'ann@example.com'");
      const second = await runNight(context, enrichSpec(), matchAll);
      expect(gist(second.counts)).toEqual({ read: 1, due: 1, dueReasons: { content_changed: 1 }, toSend: 1 });
      expect(await rejects(context)).toEqual([
        { source_key: "1", stage: "input", code: "no_identifier", is_resolved: "true" },
      ]);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test.each([
      ["a name alone", { first_name: "Ann", last_name: "Lee" }],
      ["an address alone", { email: "ann@example.com" }],
      ["a first name and an address", { first_name: "Ann", email: "ann@example.com" }],
      ["a blank last name", { first_name: "Ann", last_name: "  ", email: "ann@example.com" }],
    ])("resolve rejects %s, which enrich sends", async (_, values) => {
      const context = getContext();
      await makePeople(context, [{ id: "1", ...values }]);
      expect(gist((await runNight(context, resolveSpec())).counts)).toEqual({
        read: 1,
        rejectedBeforeSending: 1,
      });
      expect(await rejects(context)).toEqual([
        { source_key: "1", stage: "input", code: "not_resolvable", is_resolved: "false" },
      ]);
      expect(gist((await runNight(context, resolveSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
      expect(gist((await runNight(context, enrichSpec())).counts)).toMatchObject({ toSend: 1 });
    });

    test("resolve sends a name with an address, a name with a phone, and a full name with either", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" },
        { id: "2", first_name: "Ann", last_name: "Lee", phone: "5550100" },
        { id: "3", note: "Ann Lee", phone: "5550100" },
      ]);
      const input = { ...people, fields: { ...people.fields, full_name: ["note"] } };
      const { sent } = await runNight(context, resolveSpec({ input }), matchAll);
      expect(sent).toEqual({
        1: { emails: ["ann@example.com"], first_name: "Ann", last_name: "Lee" },
        2: { phones: ["5550100"], first_name: "Ann", last_name: "Lee" },
        3: { phones: ["5550100"], full_name: "Ann Lee" },
      });
    });

    test("of rows with the same key one is used, the others are rejected", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: "c@example.com" },
        { id: "1", email: "a@example.com" },
        { id: "1", email: "b@example.com" },
        { id: "2", email: "d@example.com" },
      ]);
      const first = await runNight(context, enrichSpec(), matchAll);
      expect(first.sent).toEqual({ 1: { emails: ["a@example.com"] }, 2: { emails: ["d@example.com"] } });
      expect(gist(first.counts)).toEqual({
        read: 4,
        due: 2,
        dueReasons: { never_answered: 2 },
        rejectedBeforeSending: 2,
        toSend: 2,
      });
      const second = await runNight(context, enrichSpec());
      expect(gist(second.counts)).toEqual({ read: 4, unchanged: 2, rejectedBeforeSending: 2 });
    });

    test("rows that can have no state stay one open reject each, the same every night", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: null, email: "a@example.com" },
        { id: null, email: "b@example.com" },
        { id: "1", email: "c@example.com" },
        { id: "1", email: "d@example.com" },
      ]);
      await runNight(context, enrichSpec(), matchAll);
      const noted = await context.sql("SELECT * FROM person_data.reject ORDER BY reject_id");
      expect(await rejects(context)).toEqual([
        { source_key: "1", stage: "input", code: "duplicate_key", is_resolved: "false" },
        { source_key: null, stage: "input", code: "missing_key", is_resolved: "false" },
        { source_key: null, stage: "input", code: "missing_key", is_resolved: "false" },
      ]);
      const second = await runNight(context, enrichSpec());
      expect(gist(second.counts)).toEqual({ read: 4, unchanged: 1, rejectedBeforeSending: 3 });
      expect(second.counts.unusableKeys).toBe(3);
      expect((await runNight(context, validateSpec())).counts.unusableKeys).toBe(3);
      expect(await context.sql("SELECT * FROM person_data.reject ORDER BY reject_id")).toEqual(noted);
    });

    test("the reject of a row that can have no state is resolved when the row is fixed", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: null, email: "a@example.com" },
        { id: null, email: "b@example.com" },
      ]);
      await runNight(context, enrichSpec());
      await context.sql("UPDATE crm.people SET id = '1' WHERE email = 'a@example.com'");
      await runNight(context, enrichSpec(), matchAll);
      expect(await rejects(context)).toEqual([
        { source_key: null, stage: "input", code: "missing_key", is_resolved: "true" },
        { source_key: null, stage: "input", code: "missing_key", is_resolved: "false" },
      ]);
    });

    test("a key of 2,001 bytes is rejected, one of 2,000 is not", async () => {
      const context = getContext();
      // Incompressible, because an index would compress it.
      const text = Array.from({ length: 400 }, (_, i) =>
        Math.sin(i + 1)
          .toString(36)
          .slice(3, 13),
      ).join("");
      const fits = text.slice(0, 2000);
      await makePeople(context, [
        { id: `${fits}x`, email: "a@example.com" },
        { id: text, email: "b@example.com" },
        { id: fits, email: "c@example.com" },
      ]);
      const first = await runNight(context, enrichSpec(), matchAll);
      expect(Object.keys(first.sent)).toEqual([fits]);
      expect(gist(first.counts)).toMatchObject({ read: 3, rejectedBeforeSending: 2, toSend: 1 });
      expect(await columnOf(context, "SELECT DISTINCT code FROM person_data.reject")).toEqual([
        "key_too_long",
      ]);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({
        read: 3,
        unchanged: 1,
        rejectedBeforeSending: 2,
      });
    });

    test("an address that is too long to be a key is rejected, its neighbours are validated", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: `${"long".repeat(600)}@example.com` },
        { id: "2", email: "b@example.com" },
      ]);
      const { counts } = await runNight(context, validateSpec(), matchAll);
      expect(gist(counts)).toMatchObject({ read: 2, rejectedBeforeSending: 1, toSend: 1 });
      expect(await columnOf(context, "SELECT code FROM person_data.reject")).toEqual(["key_too_long"]);
    });

    test("a record that the service refuses is rejected once, until its content changes", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "poison" }]);
      const first = await runNight(context, enrichSpec(), () => ({ code: "unprocessable_entity" }));
      expect(gist(first.counts)).toMatchObject({ toSend: 1 });
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });

      await context.sql("UPDATE crm.people SET email = 'poison again'");
      await runNight(context, enrichSpec(), () => ({ code: "unprocessable_entity" }));
      const refused = { source_key: "1", stage: "send", code: "unprocessable_entity" };
      expect(await rejects(context)).toEqual([
        { ...refused, is_resolved: "true" },
        { ...refused, is_resolved: "false" },
      ]);

      await context.sql("UPDATE crm.people SET email = 'ann@example.com'");
      const last = await runNight(context, enrichSpec(), matchAll);
      expect(gist(last.counts)).toMatchObject({ dueReasons: { content_changed: 1 } });
      expect(await columnOf(context, "SELECT resolved_at IS NOT NULL FROM person_data.reject")).toEqual([
        "true",
        "true",
      ]);
    });

    test("an address that the service refuses is rejected once", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "poison" }]);
      await runNight(context, validateSpec(), () => ({ code: "unprocessable_entity" }));
      expect(gist((await runNight(context, validateSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("a reject's code, place and request id are kept, without values", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "poison" }]);
      const { run } = await runNight(context, enrichSpec(), () => ({ code: "unprocessable_entity" }));
      expect(
        await context.sql(`SELECT run_id, job, source, source_key, stage, code, message, details, api_request_id
          FROM person_data.reject`),
      ).toEqual([
        {
          run_id: run.runId,
          job: "enrich_people",
          source: "people",
          source_key: "1",
          stage: "send",
          code: "unprocessable_entity",
          message: "The service refuses the record.",
          details: null,
          api_request_id: null,
        },
      ]);
    });

    test("a row that was answered and lost all its values is rejected; its answer stays", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "ann@example.com" }]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("UPDATE crm.people SET email = ''");
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({
        read: 1,
        rejectedBeforeSending: 1,
      });
      expect(await columnOf(context, "SELECT service_pid FROM person_data.enrichment")).toEqual(["p-1"]);
      await context.sql("UPDATE crm.people SET email = 'ann@example.com'");
      expect(gist((await runNight(context, enrichSpec(), matchAll)).counts)).toMatchObject({
        dueReasons: { content_changed: 1 },
      });
    });

    test("rejects of one job leave those of another alone", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1" }]);
      await runNight(context, enrichSpec());
      await runNight(context, enrichSpec({ job: "enrich_people_again" }));
      await addPeople(context, [{ id: null, email: "a@example.com" }]);
      await context.sql("UPDATE crm.people SET email = 'ann@example.com' WHERE id = '1'");
      await runNight(context, enrichSpec(), matchAll);
      expect(
        await context.sql(`SELECT job, code FROM person_data.reject WHERE resolved_at IS NULL ORDER BY 1, 2`),
      ).toEqual([
        { job: "enrich_people", code: "missing_key" },
        { job: "enrich_people_again", code: "no_identifier" },
      ]);
    });
  });
}
