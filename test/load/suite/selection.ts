import { describe, expect, test } from "vitest";
import { addPeople, DAY_MS, enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";
import { gist, matchAll, type Responder, runNight } from "./nights.ts";
import { columnOf, type GetContext, valueOf } from "./context.ts";

const LONG_AGO = "2020-01-01T00:00:00.000000+00:00";
const FAR_AHEAD = "2100-01-01T00:00:00.000000+00:00";

const ann = { id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com", phone: "+1 555 0100" };
const bob = { id: "2", first_name: "Bob", last_name: "Ray", email: "bob@example.com" };

const onlyAnn: Responder = (record) => (record.rows[0]?.sourceKey === "1" ? { pid: "p-1" } : null);

/** Tests of due rows and their reasons. */
export function describeSelection(getContext: GetContext): void {
  describe("what is due", () => {
    test("rows that were never answered are due, and those answered are not due again", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      const first = await runNight(context, enrichSpec(), matchAll);
      expect(first.sent).toEqual({
        1: { emails: ["ann@example.com"], first_name: "Ann", last_name: "Lee", phones: ["+1 555 0100"] },
        2: { emails: ["bob@example.com"], first_name: "Bob", last_name: "Ray" },
      });
      expect(gist(first.counts)).toEqual({ read: 2, due: 2, dueReasons: { never_answered: 2 }, toSend: 2 });

      const second = await runNight(context, enrichSpec(), matchAll);
      expect(gist(second.counts)).toEqual({ read: 2, unchanged: 2 });
      expect(second.counts.states).toEqual({ rows: 2, matched: 2, unmatched: 0, rejected: 0, due: 0 });
    });

    test("an unmatched row keeps its state, so it isn't due again either", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, enrichSpec(), () => null);
      const second = await runNight(context, enrichSpec());
      expect(gist(second.counts)).toEqual({ read: 1, unchanged: 1 });
      expect(second.counts.states).toEqual({ rows: 1, matched: 0, unmatched: 1, rejected: 0, due: 0 });
    });

    test("a new row is due, old ones are not", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, enrichSpec(), matchAll);
      await addPeople(context, [bob]);
      const second = await runNight(context, enrichSpec(), matchAll);
      expect(Object.keys(second.sent)).toEqual(["2"]);
      expect(gist(second.counts)).toEqual({
        read: 2,
        unchanged: 1,
        due: 1,
        dueReasons: { never_answered: 1 },
        toSend: 1,
      });
    });

    test.each([
      ["another value", "email = 'ann@example.org'", { emails: ["ann@example.org"] }],
      ["another case", "email = 'Ann@example.com'", { emails: ["Ann@example.com"] }],
      ["a trailing blank", "email = 'ann@example.com '", { emails: ["ann@example.com "] }],
      ["NULL", "email = NULL", {}],
      ["another form of the same letters", "first_name = U&'A\\006E\\006E\\0301'", {}],
    ])("a mapped value changed to %s makes the row due, and is sent unchanged", async (_, set, sent) => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql(`UPDATE crm.people SET ${set}`);
      const second = await runNight(context, enrichSpec(), matchAll);
      expect(gist(second.counts)).toEqual({ read: 1, due: 1, dueReasons: { content_changed: 1 }, toSend: 1 });
      expect(second.sent).toMatchObject({ 1: sent });
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("a value moved from one column to another is another content", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Lee", email: "a@example.com" }]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("UPDATE crm.people SET last_name = first_name, first_name = NULL");
      const second = await runNight(context, enrichSpec(), matchAll);
      expect(second.sent).toEqual({ 1: { last_name: "Lee", emails: ["a@example.com"] } });
    });

    test("values that would read the same side by side are different contents", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", first_name: "a;last_name=1:b", email: "x@example.com" },
        { id: "5", first_name: "a;last_name=b", email: "x@example.com" },
        { id: "2", first_name: "a", last_name: "b", email: "x@example.com" },
        { id: "3", first_name: "ab", last_name: "", email: "x@example.com" },
        { id: "4", first_name: "ab", email: "x@example.com" },
      ]);
      const { sent } = await runNight(context, enrichSpec(), matchAll);
      expect(Object.keys(sent)).toEqual(["1", "2", "5", "3,4"]);
    });

    test("columns that aren't mapped make no row due", async () => {
      const context = getContext();
      await makePeople(context, [{ ...ann, updated_at: "2026-01-01T00:00:00Z" }]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("UPDATE crm.people SET note = 'called', updated_at = '2026-02-01T00:00:00Z'");
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("a field that this endpoint doesn't take makes no row due", async () => {
      const context = getContext();
      await makePeople(context, [{ ...ann, note: "Main Street 1" }]);
      const input = { ...people, fields: { ...people.fields, address_line_1: ["note"] } };
      const resolved = await runNight(context, resolveSpec({ input }), matchAll);
      expect(resolved.sent).toEqual({
        1: { emails: ["ann@example.com"], first_name: "Ann", last_name: "Lee", phones: ["+1 555 0100"] },
      });
      await context.sql("UPDATE crm.people SET note = 'Main Street 2'");
      expect(gist((await runNight(context, resolveSpec({ input }))).counts)).toEqual({
        read: 1,
        unchanged: 1,
      });
    });

    test("two jobs on one input don't share answers", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, enrichSpec(), matchAll);
      const other = await runNight(context, enrichSpec({ job: "enrich_people_again" }), matchAll);
      expect(gist(other.counts)).toMatchObject({ dueReasons: { never_answered: 1 } });
    });

    test("a row that left the input and came back unchanged is not due", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql("DELETE FROM crm.people WHERE id = '2'");
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
      await addPeople(context, [bob]);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 2, unchanged: 2 });
    });

    test("an empty input has nothing to send", async () => {
      const context = getContext();
      await makePeople(context, []);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({});
      expect(gist((await runNight(context, validateSpec())).counts)).toEqual({});
    });

    test("a resend under a cap sends every row once, then another one starts", async () => {
      const context = getContext();
      const rows = Array.from({ length: 5 }, (_, i) => ({ id: String(i), first_name: `n${i}` }));
      await makePeople(context, rows);
      await runNight(context, enrichSpec(), matchAll);
      const spec = enrichSpec({ resend: true, maxRecords: 2 });
      const nights = [];
      for (let night = 0; night < 4; night++) nights.push(await runNight(context, spec, matchAll));
      const sent = nights.map((night) => Object.keys(night.sent));
      expect(sent.map((keys) => keys.length)).toEqual([2, 2, 1, 2]);
      expect(sent.slice(0, 3).flat().toSorted()).toEqual(["0", "1", "2", "3", "4"]);
    });

    test("a resend that a run left unfinished waits for a further --resend", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      await runNight(context, enrichSpec(), matchAll);
      await runNight(context, enrichSpec({ resend: true, maxRecords: 1 }), matchAll);
      expect((await runNight(context, enrichSpec(), matchAll)).counts.toSend).toBe(0);
      expect((await runNight(context, enrichSpec({ resend: true }), matchAll)).counts.toSend).toBe(1);
    });

    test("resend sends every answered row again, and rejected ones not", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob, { id: "3", first_name: "Eve", email: "eve@example.com" }]);
      await runNight(context, enrichSpec(), (record) =>
        record.rows[0]?.sourceKey === "3" ? { code: "unprocessable_entity" } : matchAll(record),
      );
      const again = await runNight(context, enrichSpec({ resend: true }), matchAll);
      expect(gist(again.counts)).toEqual({
        read: 3,
        unchanged: 1,
        due: 2,
        dueReasons: { resend: 2 },
        toSend: 2,
      });
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 3, unchanged: 3 });
    });
  });

  describe("the sample for estimates", () => {
    const rows = Array.from({ length: 6 }, (_, i) => ({ id: String(i), email: `${i}@example.com` }));
    const capped = enrichSpec({ maxRecords: 2 });
    const sampleOf = async (context: ReturnType<GetContext>, spec = capped) =>
      (await context.warehouse.previewLookup(spec, 0)).counts.strata.sample;

    test("is what capped runs sent, counted in records", async () => {
      const context = getContext();
      await makePeople(context, rows);
      expect(await sampleOf(context)).toBe(null);
      await runNight(context, capped, matchAll);
      expect(await sampleOf(context)).toEqual({ strata: { new: { records: 2, matched: 2 } }, rowsAdded: 0 });
      await context.sql("INSERT INTO crm.people SELECT * FROM crm.people");
      await context.sql("UPDATE crm.people SET id = id || ctid::text");
      await runNight(context, { ...capped, maxRecords: 1 }, () => null);
      expect(await sampleOf(context)).toEqual({ strata: { new: { records: 3, matched: 2 } }, rowsAdded: 6 });
    });

    test("is none under order_by, and once a run has sent everything", async () => {
      const context = getContext();
      await makePeople(context, rows);
      await runNight(context, capped, matchAll);
      expect(await sampleOf(context, { ...capped, input: { ...people, orderBy: "id" } })).toBe(null);
      await runNight(context, enrichSpec(), matchAll);
      await addPeople(context, [{ id: "new", email: "new@example.com" }]);
      expect(await sampleOf(context)).toBe(null);
    });
  });

  describe("answers that expire", () => {
    const refreshed = enrichSpec({ refreshAfterMs: 100 * DAY_MS });

    test("a match expires after refresh_after", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, refreshed, matchAll, { at: LONG_AGO });
      const second = await runNight(context, refreshed, matchAll, { at: FAR_AHEAD });
      expect(gist(second.counts)).toEqual({ read: 1, due: 1, dueReasons: { expired: 1 }, toSend: 1 });
      expect(gist((await runNight(context, refreshed)).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("without refresh_after no answer expires", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, enrichSpec(), matchAll, { at: LONG_AGO });
      expect(await columnOf(context, "SELECT due_at FROM person_data_state.lookup_state")).toEqual([null]);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test("a non-match expires after refresh_unmatched_after, a match does not", async () => {
      const context = getContext();
      const spec = enrichSpec({ refreshUnmatchedAfterMs: 10 * DAY_MS });
      await makePeople(context, [ann, bob]);
      await runNight(context, spec, onlyAnn, { at: LONG_AGO });
      const second = await runNight(context, spec, onlyAnn, { at: FAR_AHEAD });
      expect(Object.keys(second.sent)).toEqual(["2"]);
      expect(gist(second.counts)).toMatchObject({ unchanged: 1, dueReasons: { expired: 1 } });
    });

    test("a non-match falls back to refresh_after", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, refreshed, () => null, { at: LONG_AGO });
      expect(gist((await runNight(context, refreshed)).counts)).toMatchObject({ dueReasons: { expired: 1 } });
    });

    test("first answers expire up to a fifth early, each by its own share; later ones exactly on time", async () => {
      const context = getContext();
      const rows = Array.from({ length: 40 }, (_, i) => ({ id: String(i), email: `${i}@example.com` }));
      await makePeople(context, rows);
      await runNight(context, refreshed, matchAll, { at: LONG_AGO });
      const days = (
        await columnOf(
          context,
          `SELECT (extract(epoch FROM due_at) - extract(epoch FROM answered_at)) / 86400 FROM person_data_state.lookup_state`,
        )
      ).map(Number);
      expect(days).toHaveLength(40);
      expect(Math.min(...days)).toBeGreaterThanOrEqual(80);
      expect(Math.max(...days)).toBeLessThanOrEqual(100);
      expect(Math.max(...days) - Math.min(...days)).toBeGreaterThan(10);
      expect(new Set(days).size).toBe(40);

      await runNight(context, refreshed, matchAll, { at: FAR_AHEAD });
      expect(
        await columnOf(context, "SELECT DISTINCT due_at - answered_at FROM person_data_state.lookup_state"),
      ).toEqual(["100 days"]);
    });

    test.each([400, -31, -400])(
      "a service whose clock is %d days off for a night sells nothing twice, and its answers expire by our clock",
      async (days) => {
        const context = getContext();
        const spec = enrichSpec({ refreshAfterMs: 30 * DAY_MS });
        await makePeople(context, [ann, bob]);
        const reservedAt = new Date().toISOString();
        const off = new Date(Date.now() + days * DAY_MS).toISOString();
        expect((await runNight(context, spec, matchAll, { at: off, reservedAt })).counts.toSend).toBe(2);
        expect((await runNight(context, spec, matchAll)).counts.toSend).toBe(0);
        await context.sql("UPDATE crm.people SET last_name = 'Changed' WHERE id = '1'");
        const right = { at: reservedAt, reservedAt };
        expect((await runNight(context, spec, () => ({ pid: "p-new" }), right)).counts.toSend).toBe(1);
        expect((await runNight(context, spec, matchAll)).counts.toSend).toBe(0);
        expect(
          await columnOf(context, "SELECT service_pid FROM person_data.enrichment WHERE source_key = '1'"),
        ).toEqual(["p-new"]);
        expect(
          await columnOf(
            context,
            "SELECT due_at BETWEEN now() + interval '23 days' AND now() + interval '31 days' FROM person_data_state.lookup_state",
          ),
        ).toEqual(["true", "true"]);
      },
    );

    test("addresses expire like rows", async () => {
      const context = getContext();
      const spec = validateSpec({ refreshAfterMs: 30 * DAY_MS });
      await makePeople(context, [ann]);
      await runNight(context, spec, matchAll, { at: LONG_AGO });
      expect(gist((await runNight(context, spec, matchAll, { at: FAR_AHEAD })).counts)).toEqual({
        read: 1,
        due: 1,
        dueReasons: { expired: 1 },
        toSend: 1,
      });
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
    });

    test.each([
      ["shorter", 10 * DAY_MS, { due: 1, dueReasons: { expired: 1 }, toSend: 1 }],
      ["longer", 100_000 * DAY_MS, { unchanged: 1 }],
      ["none", null, { unchanged: 1 }],
    ])(
      "a changed refresh_after (%s) holds for answers that are there",
      async (_, refreshAfterMs, expected) => {
        const context = getContext();
        await makePeople(context, [ann]);
        const before = refreshAfterMs === 10 * DAY_MS ? 100_000 * DAY_MS : 10 * DAY_MS;
        await runNight(context, enrichSpec({ refreshAfterMs: before }), matchAll, { at: LONG_AGO });
        const second = await runNight(context, enrichSpec({ refreshAfterMs }), matchAll);
        expect(gist(second.counts)).toEqual({ read: 1, ...expected });
      },
    );

    test("a changed refresh_after keeps the spread of first answers, to the second", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      const due =
        "SELECT date_trunc('second', due_at) FROM person_data_state.lookup_state ORDER BY source_key";
      await runNight(context, enrichSpec({ refreshAfterMs: 200 * DAY_MS }), matchAll, { at: FAR_AHEAD });
      const bought = await columnOf(context, due);
      await runNight(context, enrichSpec({ refreshAfterMs: 50 * DAY_MS }));
      expect(await columnOf(context, due)).not.toEqual(bought);
      await runNight(context, enrichSpec({ refreshAfterMs: 200 * DAY_MS }));
      expect(await columnOf(context, due)).toEqual(bought);
    });

    test("a rejected row doesn't expire", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, refreshed, () => ({ code: "unprocessable_entity" }), { at: LONG_AGO });
      expect(await valueOf(context, "SELECT due_at FROM person_data_state.lookup_state")).toBe(null);
      expect(gist((await runNight(context, refreshed)).counts)).toEqual({ read: 1, unchanged: 1 });
    });
  });
}
