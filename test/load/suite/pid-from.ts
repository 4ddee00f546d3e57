import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople, people, resolveSpec } from "./people.ts";
import { gist, matchAll, type Responder, runNight } from "./nights.ts";
import { columnOf, type GetContext } from "./context.ts";

const ann = { id: "1", first_name: "Ann", last_name: "Lee", email: "ann@example.com" };
const bob = { id: "2", first_name: "Bob", last_name: "Ray", email: "bob@example.com" };

const enrich = enrichSpec({ pidFrom: "resolve_people" });
const resolve = resolveSpec();

const onlyAnn: Responder = (record) => (record.rows[0]?.sourceKey === "1" ? { pid: "p-1" } : null);
const refuse: Responder = () => ({ code: "unprocessable_entity" });

/** Tests of `pid_from`, which sends the PID found by a resolve job. */
export function describePidFrom(getContext: GetContext): void {
  describe("pid_from", () => {
    test("rows that aren't resolved yet wait", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 2, waiting: 2 });
      await runNight(context, resolve, matchAll);
      expect(gist((await runNight(context, enrich, matchAll)).counts)).toMatchObject({ toSend: 2 });
    });

    test("the PID is sent with the mapped fields; rows without a match are sent without one", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      await runNight(context, resolve, onlyAnn);
      const { sent, records } = await runNight(context, enrich, matchAll);
      expect(sent).toEqual({
        1: { service_pid: "p-1", emails: ["ann@example.com"], first_name: "Ann", last_name: "Lee" },
        2: { emails: ["bob@example.com"], first_name: "Bob", last_name: "Ray" },
      });
      expect(new Set(records.map((record) => record.sentPid))).toEqual(new Set(["p-1", null]));
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 2, unchanged: 2 });
    });

    test("of rows with one key the copy that was resolved is the one that is enriched", async () => {
      const context = getContext();
      const fields = { ...people.fields, city: ["note"] };
      await makePeople(context, [
        { ...ann, note: "Zurich" },
        { ...bob, id: "1", note: "Aachen" },
      ]);
      await runNight(context, resolve, matchAll);
      const { counts, sent } = await runNight(context, { ...enrich, input: { ...people, fields } }, matchAll);
      expect(gist(counts)).toMatchObject({ read: 2, toSend: 1, rejectedBeforeSending: 1 });
      expect(sent).toMatchObject({ 1: { first_name: "Ann", city: "Zurich" } });
    });

    test("equal contents with different PIDs are different records", async () => {
      const context = getContext();
      await makePeople(context, [ann, { ...ann, id: "2" }]);
      await runNight(context, resolve, matchAll);
      await context.sql("UPDATE person_data.resolution SET service_pid = 'p-2' WHERE source_key = '2'");
      const { counts } = await runNight(context, enrich, matchAll);
      expect(gist(counts)).toMatchObject({ read: 2, toSend: 2 });
    });

    test("a PID that changed makes the row due, as does one that came or went", async () => {
      const context = getContext();
      await makePeople(context, [
        ann,
        bob,
        { id: "3", first_name: "Eve", last_name: "Roe", phone: "5550103" },
      ]);
      await runNight(context, resolve, (record) => {
        const key = record.rows[0]?.sourceKey;
        return key === "2" ? null : { pid: `p-${key}` };
      });
      await runNight(context, enrich, matchAll);
      await runNight(context, { ...resolve, resend: true }, (record) => {
        const key = record.rows[0]?.sourceKey;
        return key === "3" ? null : { pid: `p-new-${key}` };
      });
      const second = await runNight(context, enrich, matchAll);
      expect(gist(second.counts)).toMatchObject({ due: 3, dueReasons: { pid_changed: 3 } });
      expect(second.sent).toMatchObject({
        1: { service_pid: "p-new-1" },
        2: { service_pid: "p-new-2" },
        3: { phones: ["5550103"] },
      });
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 3, unchanged: 3 });
    });

    test("a row whose content changed since it was resolved waits: its PID may be someone else's", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, resolve, matchAll);
      await runNight(context, enrich, matchAll);
      await context.sql("UPDATE crm.people SET first_name = 'Bob', email = 'bob@example.com'");
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 1, waiting: 1 });
      await runNight(context, resolve, () => ({ pid: "p-bob" }));
      const { sent } = await runNight(context, enrich, matchAll);
      expect(sent).toMatchObject({ 1: { service_pid: "p-bob", first_name: "Bob" } });
    });

    test("a row that waits because its content changed is not linked by its former answer", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      await runNight(context, resolve, matchAll);
      await runNight(context, enrich, matchAll);
      await context.sql("UPDATE crm.people SET last_name = 'Lea' WHERE id = '1'");
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 2, waiting: 1, unchanged: 1 });
      expect(
        await columnOf(context, "SELECT source_key FROM person_data.enrichment WHERE is_present ORDER BY 1"),
      ).toEqual(["2"]);
    });

    test("a row that resolve refused or rejected goes without a PID", async () => {
      const context = getContext();
      await makePeople(context, [ann, { id: "2", email: "alone@example.com" }]);
      await runNight(context, resolve, refuse);
      const { sent } = await runNight(context, enrich, matchAll);
      expect(sent).toEqual({
        1: { emails: ["ann@example.com"], first_name: "Ann", last_name: "Lee" },
        2: { emails: ["alone@example.com"] },
      });
    });

    test("under a cap, rows that resolve rejected are sent last", async () => {
      const context = getContext();
      const nameless = Array.from({ length: 8 }, (_, i) => ({ id: `n${i}`, email: `${i}@example.com` }));
      await makePeople(context, [...nameless, ann, bob]);
      await runNight(context, resolve, onlyAnn);
      const capped = { ...enrich, maxRecords: 3 };
      const first = await runNight(context, capped, matchAll);
      expect(Object.keys(first.sent)).toEqual(expect.arrayContaining(["1", "2"]));
      expect(first.counts.strata).toMatchObject({
        due: [
          { stratum: "unresolved", records: 8, rows: 8 },
          { stratum: "with_pid", records: 1, rows: 1 },
          { stratum: "without_pid", records: 1, rows: 1 },
        ],
        toSend: [
          { stratum: "unresolved", records: 1 },
          { stratum: "with_pid", records: 1 },
          { stratum: "without_pid", records: 1 },
        ],
      });
      const inOrder = { ...capped, input: { ...enrich.input, orderBy: "id DESC" } };
      const second = await runNight(context, inOrder, matchAll);
      expect(second.counts.strata.toSend).toMatchObject([{ stratum: "unresolved", records: 3 }]);
    });

    test("a plan counts waiting records once, without those whose content was answered", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, resolve, matchAll);
      await runNight(context, enrich, matchAll);
      await addPeople(context, [{ ...ann, id: "9" }, bob, { ...bob, id: "8" }]);
      const { counts } = await context.warehouse.previewLookup(enrich, 0);
      expect([counts.waiting, counts.strata.waiting]).toEqual([3, 1]);
    });

    test("a row that was resolved, changed and was then refused goes without its former PID", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, resolve, matchAll);
      await context.sql("UPDATE crm.people SET first_name = 'Bob', email = 'bob@example.com'");
      await runNight(context, resolve, refuse);
      const { sent } = await runNight(context, enrich, matchAll);
      expect(sent).toEqual({ 1: { emails: ["bob@example.com"], first_name: "Bob", last_name: "Lee" } });
    });

    test("a row without values is sent with its PID alone", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, resolve, matchAll);
      const { phones } = enrich.input.fields;
      const input = { ...enrich.input, fields: { phones: phones ?? [] } };
      // The resolve answer covered more than the phone, so the row would wait: set its state to the phone alone.
      await runNight(context, { ...resolve, input, parametersHash: "phone", acceptParameters: "keep" });
      const { sent } = await runNight(context, { ...enrich, input }, matchAll);
      expect(sent).toEqual({ 1: { service_pid: "p-1" } });
    });

    test("a rejected row is due again when it gets a PID", async () => {
      const context = getContext();
      await makePeople(context, [ann]);
      await runNight(context, resolve, () => null);
      await runNight(context, enrich, refuse);
      expect(gist((await runNight(context, enrich)).counts)).toEqual({ read: 1, unchanged: 1 });
      await runNight(context, { ...resolve, resend: true }, matchAll);
      const { counts } = await runNight(context, enrich, matchAll);
      expect(gist(counts)).toMatchObject({ dueReasons: { pid_changed: 1 } });
    });

    test("the PID that came back for another one is kept", async () => {
      const context = getContext();
      await makePeople(context, [ann, bob]);
      await runNight(context, resolve, matchAll);
      await runNight(context, enrich, (record) => ({ pid: record.sentPid === "p-1" ? "p-merged" : "p-2" }), {
        at: "2026-11-21T04:00:00.5+00:00",
      });
      const aliases = `SELECT sent_service_pid, returned_service_pid, first_seen_at FROM person_data.person_pid_alias`;
      const alias = {
        sent_service_pid: "p-1",
        returned_service_pid: "p-merged",
        first_seen_at: "2026-11-21 04:00:00.5+00",
      };
      expect(await context.sql(aliases)).toEqual([alias]);
      await runNight(context, { ...enrich, resend: true }, () => ({ pid: "p-merged" }), {
        at: "2026-11-22T04:00:00+00:00",
      });
      expect(await context.sql(`${aliases} ORDER BY sent_service_pid`)).toEqual([
        alias,
        {
          sent_service_pid: "p-2",
          returned_service_pid: "p-merged",
          first_seen_at: "2026-11-22 04:00:00+00",
        },
      ]);
    });
  });
}
