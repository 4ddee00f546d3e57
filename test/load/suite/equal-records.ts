import { describe, expect, test } from "vitest";
import { addPeople, DAY_MS, enrichSpec, makePeople, resolveSpec, validateSpec } from "./people.ts";
import { gist, matchAll, runNight } from "./nights.ts";
import { columnOf, type GetContext } from "./context.ts";

const LONG_AGO = "2020-01-01T00:00:00.000000+00:00";
const FAR_AHEAD = "2100-01-01T00:00:00.000000+00:00";

const ann = { first_name: "Ann", last_name: "Lee", email: "ann@example.com" };

/** Tests of rows with equal content: one record, one answer. */
export function describeEqualRecords(getContext: GetContext): void {
  describe("equal records", () => {
    test("are sent once, and the answer goes to every row", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", ...ann },
        { id: "2", ...ann },
        { id: "3", email: "bob@example.com" },
        { id: "4", ...ann },
      ]);
      const { counts, sent } = await runNight(context, resolveSpec({ job: "resolve_people" }), () => ({
        pid: "p-9",
      }));
      expect(Object.keys(sent)).toEqual(["1,2,4"]);
      expect(gist(counts)).toMatchObject({
        read: 4,
        due: 3,
        toSend: 1,
        duplicate: 2,
        rejectedBeforeSending: 1,
      });
      expect(
        await context.sql("SELECT source_key, service_pid FROM person_data.resolution ORDER BY source_key"),
      ).toEqual([
        { source_key: "1", service_pid: "p-9" },
        { source_key: "2", service_pid: "p-9" },
        { source_key: "4", service_pid: "p-9" },
      ]);
      expect(gist((await runNight(context, resolveSpec())).counts)).toEqual({ read: 4, unchanged: 4 });
    });

    test("refused once are refused for every row", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", ...ann },
        { id: "2", ...ann },
      ]);
      await runNight(context, enrichSpec(), () => ({ code: "unprocessable_entity" }));
      expect(await columnOf(context, "SELECT source_key FROM person_data.reject ORDER BY 1")).toEqual([
        "1",
        "2",
      ]);
      expect(gist((await runNight(context, enrichSpec())).counts)).toEqual({ read: 2, unchanged: 2 });
    });

    test("a new row takes the fresh answer of an equal one, with its times and request id, unsent", async () => {
      const context = getContext();
      const spec = resolveSpec({ refreshAfterMs: 100 * DAY_MS });
      await makePeople(context, [{ id: "1", ...ann }]);
      await runNight(context, spec, () => ({ pid: "p-9", score: "88.5" }), { at: FAR_AHEAD });
      await addPeople(context, [
        { id: "2", ...ann },
        { id: "3", ...ann },
      ]);
      const second = await runNight(context, spec);
      expect(gist(second.counts)).toEqual({
        read: 3,
        unchanged: 1,
        due: 2,
        dueReasons: { never_answered: 2 },
        duplicate: 2,
        reused: 2,
      });
      expect(second.counts.states).toEqual({ rows: 3, matched: 3, unmatched: 0, rejected: 0, due: 0 });
      const answer = {
        is_match: "true",
        service_pid: "p-9",
        match_score: "88.5",
        is_resolvable_record: "true",
        api_request_id: "request-1",
        request_completed_at: "2100-01-01 00:00:00+00",
        first_matched_at: "2100-01-01 00:00:00+00",
        last_matched_at: "2100-01-01 00:00:00+00",
        last_matched_service_pid: "p-9",
      };
      expect(
        await context.sql(
          `SELECT source_key, ${Object.keys(answer).join(", ")} FROM person_data.resolution ORDER BY 1`,
        ),
      ).toEqual([
        { source_key: "1", ...answer },
        { source_key: "2", ...answer },
        { source_key: "3", ...answer },
      ]);
      expect(
        await context.sql(
          "SELECT source_key, valid_from, valid_to, service_pid FROM person_data.match_history ORDER BY 1",
        ),
      ).toEqual(
        ["1", "2", "3"].map((source_key) => ({
          source_key,
          valid_from: "2100-01-01 00:00:00+00",
          valid_to: null,
          service_pid: "p-9",
        })),
      );
      expect(
        await columnOf(context, "SELECT DISTINCT due_at FROM person_data_state.lookup_state"),
      ).toHaveLength(1);
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 3, unchanged: 3 });
    });

    test("a row answered by a later call takes the answer of an equal one for good", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", ...ann }]);
      await runNight(context, resolveSpec(), () => ({ pid: "p-9" }));
      await addPeople(context, [
        { id: "2", email: "bea@example.com", first_name: "Bea", last_name: "Smith" },
      ]);
      await runNight(context, resolveSpec(), () => ({ pid: "p-2" }));
      await context.sql(
        "UPDATE crm.people AS t SET first_name = o.first_name, last_name = o.last_name, email = o.email FROM crm.people AS o WHERE t.id = '2' AND o.id = '1'",
      );
      expect(gist((await runNight(context, resolveSpec())).counts)).toMatchObject({ reused: 1 });
      expect(gist((await runNight(context, resolveSpec())).counts)).toEqual({ read: 2, unchanged: 2 });
      expect(
        await context.sql("SELECT source_key, service_pid FROM person_data.resolution ORDER BY source_key"),
      ).toEqual([
        { source_key: "1", service_pid: "p-9" },
        { source_key: "2", service_pid: "p-9" },
      ]);
    });

    test("rows that take a fresh answer don't change other rows to be sent", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", ...ann }]);
      await runNight(context, resolveSpec(), matchAll);
      await addPeople(context, [
        { id: "2", ...ann },
        { id: "3", first_name: "Bea", last_name: "Smith", email: "bea@example.com" },
        { id: "4", first_name: "Bea", last_name: "Smith", email: "bea@example.com" },
      ]);
      const { counts } = await runNight(context, resolveSpec(), matchAll);
      expect(gist(counts)).toEqual({
        read: 4,
        unchanged: 1,
        due: 3,
        dueReasons: { never_answered: 3 },
        duplicate: 2,
        reused: 1,
        toSend: 1,
      });
      expect(counts.states.due).toBe(2);
    });

    test("an expired answer is not reused", async () => {
      const context = getContext();
      const spec = enrichSpec({ refreshAfterMs: 100 * DAY_MS });
      await makePeople(context, [{ id: "1", ...ann }]);
      await runNight(context, spec, matchAll, { at: LONG_AGO });
      await addPeople(context, [{ id: "2", ...ann }]);
      const second = await runNight(context, spec, matchAll, { at: FAR_AHEAD });
      expect(gist(second.counts)).toEqual({
        read: 2,
        due: 2,
        dueReasons: { expired: 1, never_answered: 1 },
        toSend: 1,
        duplicate: 1,
      });
    });

    test("an answer that was bought with other parameters, or a refusal, is not reused", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", ...ann },
        { id: "2", email: "poison" },
      ]);
      await runNight(context, enrichSpec(), (record) =>
        record.rows[0]?.sourceKey === "2" ? { code: "unprocessable_entity" } : { pid: "p-1" },
      );
      await addPeople(context, [
        { id: "3", ...ann },
        { id: "4", email: "poison" },
      ]);
      const spec = enrichSpec({ parametersHash: "bought with those", acceptParameters: "resend" });
      const { counts, sent } = await runNight(context, spec, matchAll);
      expect(Object.keys(sent).toSorted()).toEqual(["1,3", "4"]);
      expect(counts.reused).toBe(0);
    });

    test("a resend reuses nothing", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", ...ann }]);
      await runNight(context, enrichSpec(), matchAll);
      await addPeople(context, [{ id: "2", ...ann }]);
      const { counts, sent } = await runNight(context, enrichSpec({ resend: true }), matchAll);
      expect(Object.keys(sent)).toEqual(["1,2"]);
      expect(counts.reused).toBe(0);
    });

    test("a row that becomes equal to another takes its answer; its former match stays in the history", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", ...ann }]);
      await runNight(context, resolveSpec(), () => ({ pid: "p-ann" }), { at: "2026-11-01T00:00:00+00:00" });
      await addPeople(context, [{ id: "2", first_name: "Bob", last_name: "Ray", email: "bob@example.com" }]);
      await runNight(context, resolveSpec(), () => ({ pid: "p-bob" }), { at: "2026-11-02T00:00:00.5+00:00" });
      await context.sql(
        "UPDATE crm.people SET first_name = 'Ann', last_name = 'Lee', email = 'ann@example.com' WHERE id = '2'",
      );
      const third = await runNight(context, resolveSpec());
      expect(gist(third.counts)).toMatchObject({ dueReasons: { content_changed: 1 }, reused: 1 });
      expect(
        await context.sql(`SELECT service_pid, first_matched_at, last_matched_at, last_matched_service_pid
          FROM person_data.resolution WHERE source_key = '2'`),
      ).toEqual([
        {
          service_pid: "p-ann",
          first_matched_at: "2026-11-02 00:00:00.5+00",
          last_matched_at: "2026-11-01 00:00:00+00",
          last_matched_service_pid: "p-ann",
        },
      ]);
      expect(
        await context.sql(`SELECT service_pid, valid_from, valid_to FROM person_data.match_history
          WHERE source_key = '2' ORDER BY valid_from`),
      ).toEqual([
        {
          service_pid: "p-bob",
          valid_from: "2026-11-02 00:00:00.5+00",
          valid_to: "2026-11-02 00:00:00.500001+00",
        },
        { service_pid: "p-ann", valid_from: "2026-11-02 00:00:00.500001+00", valid_to: null },
      ]);
    });

    test("a reused non-match brings no earlier match of the other row with it", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Bob", last_name: "Ray", email: "bob@example.com" }]);
      await runNight(context, resolveSpec(), () => ({ pid: "p-bob" }), { at: "2026-11-01T00:00:00+00:00" });
      await context.sql("UPDATE crm.people SET email = 'unknown@example.com'");
      await runNight(context, resolveSpec(), () => null, { at: "2026-11-02T00:00:00+00:00" });
      await addPeople(context, [
        { id: "2", first_name: "Bob", last_name: "Ray", email: "unknown@example.com" },
      ]);
      expect((await runNight(context, resolveSpec())).counts.reused).toBe(1);
      expect(
        await context.sql(`SELECT is_match, service_pid, first_matched_at, last_matched_at, last_matched_service_pid
          FROM person_data.resolution WHERE source_key = '2'`),
      ).toEqual([
        {
          is_match: "false",
          service_pid: null,
          first_matched_at: null,
          last_matched_at: null,
          last_matched_service_pid: null,
        },
      ]);
    });

    test("a rejected row that becomes equal to an answered one takes its answer, and its reject is resolved", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", ...ann }, { id: "2" }]);
      await runNight(context, enrichSpec(), matchAll);
      await context.sql(
        "UPDATE crm.people SET first_name = 'Ann', last_name = 'Lee', email = 'ann@example.com' WHERE id = '2'",
      );
      const second = await runNight(context, enrichSpec());
      expect(gist(second.counts)).toMatchObject({ reused: 1 });
      expect(second.counts.states).toEqual({ rows: 2, matched: 2, unmatched: 0, rejected: 0, due: 0 });
      expect(await columnOf(context, "SELECT resolved_at IS NOT NULL FROM person_data.reject")).toEqual([
        "true",
      ]);
    });

    test("an address is validated once, however often it occurs, and counts as often", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1", email: "ann@example.com" },
        { id: "2", email: "ann@example.com" },
        { id: "3", email: "bob@example.com" },
        { id: "4" },
      ]);
      const { counts, sent } = await runNight(context, validateSpec(), matchAll);
      expect(sent).toEqual({ "ann@example.com": "ann@example.com", "bob@example.com": "bob@example.com" });
      expect(gist(counts)).toEqual({
        read: 3,
        due: 3,
        dueReasons: { never_answered: 3 },
        duplicate: 1,
        toSend: 2,
      });
      expect(gist((await runNight(context, validateSpec())).counts)).toEqual({ read: 3, unchanged: 3 });
    });

    test("a record is ordered by its content, so that equal ones of every night meet in one place", async () => {
      const context = getContext();
      await makePeople(
        context,
        Array.from({ length: 20 }, (_, i) => ({ id: String(i), email: `${i}@example.com` })),
      );
      const { records } = await runNight(context, enrichSpec(), matchAll);
      const hashes = records.map((record) => record.sentHash);
      expect(hashes).toEqual(hashes.toSorted());
      expect(new Set(records.map((record) => record.recordId)).size).toBe(20);
    });
  });
}
