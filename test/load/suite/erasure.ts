import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Identifiers } from "../../../src/load/erasure/subjects.ts";
import { begin, callOf, commitOf, gist, runNight, runOf, tester } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, people } from "./people.ts";
import { looseRecord } from "./person-updates.ts";
import { columnOf, type GetContext, valueOf } from "./context.ts";
import { ann, answer, erase, findTraces, makeCouple, nobody, ofAnn, rows } from "./erased-couple.ts";

/** Tests of an erasure itself. */
export function describeErasure(getContext: GetContext): void {
  describe("an erasure", () => {
    test("finds all identifiers of a person by any of them, and removes them", async () => {
      const context = getContext();
      await makeCouple(context);
      const named: readonly Partial<Identifiers>[] = [
        { pids: ["p-ann"] },
        { pids: ["p-ann-old"] },
        { emails: [" aNN@home.EXAMPLE\t"] },
        { emails: ["ann@work.example"] },
        { rows: [{ source: "people", sourceKey: "key-ann" }] },
      ];
      for (const one of named) {
        const { people: found } = await context.warehouse.findPeople({ ...nobody, ...one }, [people]);
        expect(found).toEqual({
          pids: ["p-ann", "p-ann-old"],
          emails: ["ann@home.example", "ann@other.example", "ann@work.example"],
          rows: [{ source: "people", sourceKey: "key-ann" }],
        });
      }
      const found = await erase(context, { pids: ["p-ann"] });
      expect(await findTraces(context, ofAnn)).toEqual([]);
      expect(found.removed).toEqual({
        resolution: 1,
        enrichment: 1,
        match_history: 2,
        email_validation: 1,
        input_email: 1,
        person: 2,
        person_email: 2,
        person_phone: 1,
        person_relative: 2,
        person_address: 1,
        person_work_experience: 1,
        person_education_experience: 1,
        person_pid_alias: 1,
        lookup_row: 3,
        person_state: 1,
      });
    });

    test("removes a person from searches and contact results, and marks the searches as changed", async () => {
      const context = getContext();
      await makeCouple(context);
      await context.sql(`INSERT INTO person_data.person_search (search_id, search_name, _synced_at, _run_id)
        SELECT id, 'nurses', '2020-01-01', '' FROM unnest(ARRAY['s-1', 's-2']) AS u(id);
        INSERT INTO person_data.person_search_result (search_id, position, service_pid, _synced_at, _run_id) VALUES
          ('s-1', 0, 'p-ann', '2020-01-01', ''), ('s-1', 1, 'p-bob', '2020-01-01', ''),
          ('s-2', 0, 'p-bob', '2020-01-01', '');
        INSERT INTO person_data.audience_search_member (segment_id, service_pid, position, _synced_at, _run_id) VALUES
          ('g-1', 'p-ann', 0, '2020-01-01', ''), ('g-1', 'p-bob', 1, '2020-01-01', '');
        INSERT INTO person_data.contact_job_result (job_id, position, service_pid, jacket, _synced_at, _run_id) VALUES
          ('j-1', 0, 'p-ann', '{}', '2020-01-01', ''), ('j-1', 1, 'p-bob', '{"spouse": "p-ann"}', '2020-01-01', ''),
          ('j-1', 2, 'p-cid', '{"spouse": "p-annette"}', '2020-01-01', '')`);
      expect((await erase(context, { pids: ["p-ann"] })).removed).toMatchObject({
        person_search_result: 1,
        audience_search_member: 1,
        contact_job_result: 2,
      });
      expect(
        await context.sql(`SELECT s.search_id, s._synced_at > '2020-01-01' AS is_marked, r.service_pid
          FROM person_data.person_search AS s JOIN person_data.person_search_result AS r USING (search_id) ORDER BY 1`),
      ).toEqual([
        { search_id: "s-1", is_marked: "true", service_pid: "p-bob" },
        { search_id: "s-2", is_marked: "false", service_pid: "p-bob" },
      ]);
      expect(await columnOf(context, "SELECT service_pid FROM person_data.audience_search_member")).toEqual([
        "p-bob",
      ]);
      expect(
        await context.sql("SELECT service_pid, jacket FROM person_data.contact_job_result ORDER BY position"),
      ).toEqual([
        { service_pid: "p-bob", jacket: null },
        { service_pid: "p-cid", jacket: '{"spouse": "p-annette"}' },
      ]);
    });

    test("finds by address a person who is known only from a contact job", async () => {
      const context = getContext();
      await makeCouple(context);
      await context.sql(`INSERT INTO person_data.contact_job_result (job_id, position, service_pid, jacket, _synced_at, _run_id) VALUES
          ('j-1', 0, 'p-dee', '{"personal_emails": [{"email_address": "Dee@Home.example"}]}', '2020-01-01', ''),
          ('j-1', 1, 'p-eve', '{"personal_email": "xdee@home.example"}', '2020-01-01', '');
        INSERT INTO person_data.audience_search_member (segment_id, service_pid, position, _synced_at, _run_id) VALUES
          ('g-1', 'p-dee', 0, '2020-01-01', '')`);
      const { people: found, removed } = await erase(context, { emails: ["dee@home.example "] });
      expect(found).toEqual({ pids: ["p-dee"], emails: ["dee@home.example"], rows: [] });
      expect(removed).toEqual({ contact_job_result: 1, audience_search_member: 1 });
      expect(await findTraces(context, ["p-dee", '"dee@home'])).toEqual([]);
    });

    test("leaves rows of others that don't name the person, and lets them change", async () => {
      const context = getContext();
      await makeCouple(context);
      const before = await valueOf(
        context,
        "SELECT _record_synced_at FROM person_data.person WHERE service_pid = 'p-bob'",
      );
      await erase(context, { pids: ["p-ann"] });
      expect(await context.sql(`SELECT full_name, service_spouse_pid FROM person_data.person`)).toEqual([
        { full_name: "Bob Roe", service_spouse_pid: null },
      ]);
      expect(await columnOf(context, "SELECT relative_first_name FROM person_data.person_relative")).toEqual([
        "Cid",
      ]);
      expect(await columnOf(context, "SELECT email_address FROM person_data.email_validation")).toEqual([
        "bob@work.example",
      ]);
      expect(await valueOf(context, "SELECT _record_synced_at FROM person_data.person")).not.toBe(before);
    });

    test("reports in advance what it would remove, without removing it", async () => {
      const context = getContext();
      await makeCouple(context);
      const found = await context.warehouse.findPeople({ ...nobody, pids: ["p-ann"] }, [people]);
      const counted = await context.warehouse.countPeople(found.people);
      expect(await context.sql("SELECT * FROM person_data.tombstone")).toEqual([]);
      expect(counted).toEqual((await erase(context, { pids: ["p-ann"] })).removed);
    });

    test("leaves tombstones, and subjects that are nothing but hashes", async () => {
      const context = getContext();
      await makeCouple(context);
      await erase(context, { pids: ["p-ann"] });
      expect(
        await context.sql(
          `SELECT service_pid, source, source_key FROM person_data.tombstone ORDER BY service_pid, source_key`,
        ),
      ).toEqual([
        { service_pid: "p-ann", source: null, source_key: null },
        { service_pid: "p-ann-old", source: null, source_key: null },
        { service_pid: null, source: "people", source_key: "key-ann" },
      ]);
      expect(
        await context.sql(`SELECT kind, count(*) AS subjects, min(rows_removed) AS removed
          FROM person_data_ops.erasure_subject GROUP BY kind ORDER BY kind`),
      ).toEqual([
        { kind: "content", subjects: "1", removed: "21" },
        { kind: "email", subjects: "3", removed: "21" },
        { kind: "pid", subjects: "2", removed: "21" },
        { kind: "source_key", subjects: "1", removed: "21" },
      ]);
      expect(await context.warehouse.dropTombstones(60_000)).toBe(0);
      expect(await context.warehouse.dropTombstones(0)).toBe(3);
    });

    test("is pending until every earlier run has ended and the rows were removed a second time", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makeCouple(context);
      const held = await warehouse.acquireLock({
        ...runOf({ job: "under_way", type: "enrich" }),
        process: tester,
        lifeMs: 60_000,
        dead: [],
      });
      if (held.kind !== "held") throw new Error("refused");
      await context.sql("UPDATE person_data_state.job_lock SET released_at = now() WHERE job <> 'under_way'");
      const found = await warehouse.findPeople({ ...nobody, pids: ["p-ann"] }, [people]);
      const id = await warehouse.requestErasure(found);
      expect(await warehouse.removeErased(id)).toMatchObject({ person: 2 });
      expect((await warehouse.completeErasures([id], null)).get(id)).toEqual([
        { kind: "run", name: "under_way" },
      ]);
      expect(await warehouse.openErasures()).toEqual([id]);
      // A load of that run that started before the request.
      await context.sql(`INSERT INTO person_data.person_pid_alias VALUES
        ('p-ann', 'p-ann-new', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z', 'late')`);
      await warehouse.releaseLock(held.run);
      // Nothing holds it up any more, but what the run has stored is not removed yet.
      expect((await warehouse.completeErasures([id], null)).get(id)).toBe(null);
      expect(await warehouse.openErasures()).toEqual([id]);
      expect(await warehouse.removeErased(id)).toMatchObject({ person_pid_alias: 1 });
      expect((await warehouse.completeErasures([id], null)).get(id)).toEqual([]);
      expect(await warehouse.openErasures()).toEqual([]);
      expect(await findTraces(context, ofAnn)).toEqual([]);
      expect(
        await columnOf(
          context,
          "SELECT DISTINCT completed_at IS NOT NULL FROM person_data_ops.erasure_subject",
        ),
      ).toEqual(["true"]);
    });

    test("of a person without stored rows still keeps the person out", async () => {
      const context = getContext();
      await makePeople(context, rows);
      const { people: found, removed } = await erase(context, { emails: ["ann@work.example"] });
      expect(found.rows).toEqual([{ source: "people", sourceKey: "key-ann" }]);
      expect(removed).toEqual({});
      const { counts, sent } = await runNight(context, enrichSpec(), answer);
      expect(gist(counts)).toMatchObject({ read: 2, suppressed: 1, due: 1, toSend: 1 });
      expect(Object.keys(sent)).toEqual(["key-bob"]);
    });

    test.for<[string, Partial<Identifiers>]>([
      ["PID", { pids: ["p-ann"] }],
      ["key", { rows: [{ source: "people", sourceKey: "key-ann" }] }],
      ["address in the input", { emails: ["ann@work.example"] }],
    ])("by %s finds what is stored after the search too", async ([, named]) => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, rows);
      const found = await warehouse.findPeople({ ...nobody, ...named }, [people]);
      await runNight(context, enrichSpec(), answer);
      const id = await warehouse.requestErasure(found);
      await warehouse.removeErased(id);
      expect(await findTraces(context, ["p-ann", "key-ann", "ann@home", "ann@other"])).toEqual([]);
      const { sent } = await runNight(context, enrichSpec({ resend: true }), answer);
      expect(Object.keys(sent)).toEqual(["key-bob"]);
    });

    test("of a row keeps a late answer to it out, and a person known from another row", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, rows);
      await runNight(context, enrichSpec(), answer);
      // Another row of Ann's is erased before its PID is known.
      await erase(context, { rows: [{ source: "people", sourceKey: "key-2" }] });
      await addPeople(context, [{ id: "key-2", first_name: "Ann", email: "ann@third.example" }]);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      await warehouse.selectLookup(spec, run);
      await warehouse.commitLookup(
        commitOf(warehouse, spec, run, [[looseRecord("key-2"), { pid: "p-ann", person: ann }]], {
          call: callOf({ callId: randomUUID() }),
          answeredAt: "2026-11-21T04:00:10.000000+00:00",
        }),
      );
      for (const id of await warehouse.openErasures()) await warehouse.removeErased(id);
      expect(await findTraces(context, ["key-2"])).toEqual([]);
      const { sent } = await runNight(context, enrichSpec({ resend: true }), answer);
      expect(Object.keys(sent)).toEqual(["key-ann", "key-bob"]);
      expect(await columnOf(context, "SELECT service_pid FROM person_data.person ORDER BY 1")).toEqual([
        "p-ann",
        "p-bob",
      ]);
    });

    test("of a row removes the person that a load in progress stored for it", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, rows);
      const row = { source: "people", sourceKey: "key-ann" };
      const id = await warehouse.requestErasure(
        await warehouse.findPeople({ ...nobody, rows: [row] }, [people]),
      );
      // Such a load doesn't see the request.
      const subjects = await context.sql("SELECT * FROM person_data_ops.erasure_subject");
      expect(subjects).toHaveLength(2);
      await context.sql(
        "UPDATE person_data_ops.erasure_subject SET kind = kind || ' later', subject_hash = sha256(subject_hash)",
      );
      await runNight(context, enrichSpec(), answer);
      await warehouse.removeErased(id);
      expect(await findTraces(context, ["p-ann", "key-ann", "ann@"])).toEqual([]);
      expect(await columnOf(context, "SELECT service_pid FROM person_data.person")).toEqual(["p-bob"]);
    });

    test("that keeps other people's rows removes of a row only what no other row has", async () => {
      const context = getContext();
      await makeCouple(context);
      await addPeople(context, [{ id: "key-ann-again", first_name: "Ann", email: "ann@work.example" }]);
      await runNight(context, enrichSpec(), () => ({ pid: "p-ann", person: ann }));
      const row = { source: "people", sourceKey: "key-ann" };
      const spared = await context.warehouse.findPeople({ ...nobody, rows: [row] }, [], {
        spareOthers: true,
      });
      expect(spared.people).toEqual({ pids: [], emails: ["ann@work.example"], rows: [row] });
      const alone = { source: "people", sourceKey: "key-bob" };
      const taken = await context.warehouse.findPeople({ ...nobody, rows: [alone] }, [], {
        spareOthers: true,
      });
      expect(taken.people).toEqual({
        pids: ["p-bob"],
        emails: ["bob@home.example", "bob@work.example"],
        rows: [alone],
      });
    });
  });
}
