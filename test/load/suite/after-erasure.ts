import { recordsOf } from "../../support/keyed-records.ts";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { describe, expect, test } from "vitest";
import { readErasures } from "../../../src/load/erasure/key.ts";
import { erasedSql, namesSubject } from "../../../src/load/erasure/naming.ts";
import { begin, callOf, commitOf, gist, matchAll, runNight, runOf } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";
import { commitPersons, looseRecord, readRows, wholePerson } from "./person-updates.ts";
import { columnOf, type GetContext, valueOf } from "./context.ts";
import { ann, bob, emails, erase, findTraces, makeCouple, nobody, ofAnn, rows } from "./erased-couple.ts";

/** Tests of rows that an erasure suppresses. */
export function describeAfterErasure(getContext: GetContext): void {
  describe("after an erasure", () => {
    test("rows with the person's key, address or PID are neither sent, nor rejected, nor left waiting", async () => {
      const context = getContext();
      await makeCouple(context);
      await erase(context, { pids: ["p-ann"] });
      await addPeople(context, [
        { id: "another-1", first_name: "A", last_name: "L", email: "ANN@other.example " },
        { id: "another-2", first_name: "A", last_name: "L", phone: "5550199", note: "p-ann" },
        { id: "another-3", first_name: "C", last_name: "D", email: "cid@work.example" },
        { id: "key-ann" },
      ]);
      for (const resend of [false, true]) {
        const resolved = await runNight(context, resolveSpec({ resend }), matchAll);
        expect(gist(resolved.counts)).toMatchObject({ read: 6, suppressed: 3 });
        const fields = { ...people.fields, service_pid: ["note"] };
        const spec = enrichSpec({ input: { ...people, fields }, resend });
        const enriched = await runNight(context, spec, matchAll);
        expect(gist(enriched.counts)).toMatchObject({ read: 6, suppressed: 4 });
        const waiting = await runNight(context, enrichSpec({ job: "one", pidFrom: "another" }), matchAll);
        expect(gist(waiting.counts)).toEqual({ read: 6, suppressed: 3, waiting: 3 });
        const validated = await runNight(context, validateSpec({ resend }), matchAll);
        expect(gist(validated.counts)).toMatchObject({ read: 4, suppressed: 2 });
        expect(await findTraces(context, ["p-ann", "ann@", "key-ann"])).toEqual([]);
      }
      expect(await columnOf(context, "SELECT source_key FROM person_data.input_email ORDER BY 1")).toEqual([
        "another-3",
        "key-bob",
      ]);
    });

    test("an answer with the person's PID is not stored, and nothing is learned from it", async () => {
      const context = getContext();
      await makePeople(context, []);
      const { warehouse } = context;
      await erase(context, { pids: ["p-ann"] });
      await commitPersons(context, [ann], { keys: ["row-1"] });
      expect(await findTraces(context, ofAnn)).toEqual([]);
      expect(await columnOf(context, "SELECT source_key FROM person_data.enrichment")).toEqual([]);
      expect(await columnOf(context, "SELECT kind FROM person_data_ops.erasure_subject")).toEqual(["pid"]);
      // The row is answered with another person, who shares nothing but the row and an address.
      const dee = wholePerson("p-dee", { full_name: "Dee Poe", personal_emails: emails("ann@home.example") });
      await commitPersons(context, [dee], { keys: ["row-1"] });
      for (const id of await warehouse.openErasures()) await warehouse.removeErased(id);
      expect(await context.sql("SELECT service_pid, source_key FROM person_data.enrichment")).toEqual([
        { service_pid: "p-dee", source_key: "row-1" },
      ]);
      expect(await warehouse.readErasedPids(["p-dee", "p-ann", "p-bob"])).toEqual(new Set(["p-ann"]));
    });

    test("others are stored without what names the person, the same each time", async () => {
      const context = getContext();
      await makePeople(context, []);
      await erase(context, { pids: ["p-ann"] });
      await commitPersons(context, [bob], {
        keys: ["second"],
        answeredAt: "2026-11-01T00:00:00.000001+00:00",
      });
      expect(await findTraces(context, ofAnn)).toEqual([]);
      expect(await columnOf(context, "SELECT relative_first_name FROM person_data.person_relative")).toEqual([
        "Cid",
      ]);
      const before = await context.sql("SELECT * FROM person_data.person");
      expect(before).toMatchObject([{ full_name: "Bob Roe", service_spouse_pid: null }]);
      await commitPersons(context, [bob], {
        keys: ["second"],
        answeredAt: "2026-11-02T00:00:00.000001+00:00",
      });
      expect(await context.sql("SELECT * FROM person_data.person")).toEqual(before);
    });

    test("rejects of the person are not recorded", async () => {
      const context = getContext();
      await makePeople(context, rows);
      await erase(context, { rows: [{ source: "people", sourceKey: "key-ann" }] });
      const spec = enrichSpec();
      const run = await begin(context.warehouse, spec, randomUUID());
      const selection = await context.warehouse.selectLookup(spec, run);
      const records = await recordsOf(context.warehouse.db, spec, selection);
      const replies = records.map((record) => [record, { code: "poison" }] as const);
      await context.warehouse.commitLookup(commitOf(context.warehouse, spec, run, replies));
      expect(await columnOf(context, "SELECT source_key FROM person_data.reject")).toEqual(["key-bob"]);
    });

    test("a record is recognized by its own row, PID or any of its addresses", async () => {
      const context = getContext();
      const { db } = context.warehouse;
      await makePeople(context, []);
      const row = { source: "people", sourceKey: "key-ann" };
      await erase(context, { pids: ["p-ann"], emails: ["ann@home.example"], rows: [row] });
      const recognized = await db.transaction(async (session) => {
        const { key } = await readErasures(session, db.names, db.readErasureSecret);
        if (key === null) return [];
        const isErased = namesSubject(erasedSql(db.names, key), {
          row: { source: "r.source", sourceKey: "r.source_key" },
          pids: ["r.pid"],
          emails: ["r.email"],
          emailLists: ["r.emails"],
        });
        return session.rows<{ n: number }>(sql`
          SELECT n FROM (VALUES (1, 'people', 'key-ann', NULL, NULL, NULL), (2, 'people', 'key', 'p-ann', NULL, NULL),
            (3, 'people', 'key', 'p', ' ANN@home.example', NULL), (4, 'people', 'key', NULL, NULL, ARRAY['x@y', 'Ann@Home.example']),
            (5, 'others', 'key-ann', 'p-annette', 'xann@home.example', '{}')) AS r(n, source, source_key, pid, email, emails)
          WHERE ${isErased} ORDER BY n`);
      });
      expect(recognized.map(({ n }) => n)).toEqual([1, 2, 3, 4]);
    });

    test("a record that was read before the erasure is not reserved after it", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, rows);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      const selection = await warehouse.selectLookup(spec, run);
      const records = await recordsOf(warehouse.db, spec, selection);
      const reserve = (chosen: typeof records) =>
        warehouse.reserveCall(run, {
          callId: randomUUID(),
          endpoint: "POST /v2/enrich",
          attempt: 1,
          startedAt: "2026-11-21T04:00:00Z",
          records: chosen.length,
          claimed: { kind: spec.kind, records: chosen },
          limits: { perDay: null, perMonth: null, perRun: null, perShard: null },
        });
      await warehouse.requestErasure(
        await warehouse.findPeople({ ...nobody, emails: ["ann@work.example"] }, [people]),
      );
      const ofAnn = records.filter((record) => record.keys[0] === "key-ann");
      const ofBob = records.filter((record) => record.keys[0] === "key-bob");
      expect(await reserve(records)).toEqual({
        granted: 0,
        limitedBy: null,
        lost: ofAnn.map((record) => record.recordId),
      });
      expect(await columnOf(context, "SELECT call_id FROM person_data_ops.api_call")).toEqual([]);
      expect(await reserve(ofBob)).toEqual({ granted: 1, limitedBy: null });
      expect(await selection.countOpen()).toEqual({ records: 1, rows: 1, sent: 0 });
      await selection.close();
    });

    test("a run in progress doesn't send the person's record", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, rows);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      const selection = await warehouse.selectLookup(spec, run);
      await erase(context, { rows: [{ source: "people", sourceKey: "key-ann" }] });
      const records = await recordsOf(warehouse.db, spec, selection);
      expect(records.map((record) => record.keys)).toEqual([["key-bob"]]);
      await selection.close();
    });

    test("a run in progress still sends another input's row with the same key", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, rows);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      const selection = await warehouse.selectLookup(spec, run);
      await erase(context, { rows: [{ source: "others", sourceKey: "key-ann" }] });
      const records = await recordsOf(warehouse.db, spec, selection);
      expect(records.flatMap((record) => record.keys).toSorted()).toEqual(["key-ann", "key-bob"]);
      await selection.close();
    });

    test("rows of a feed that name the person are left out", async () => {
      const context = getContext();
      await makePeople(context, []);
      await erase(context, { pids: ["p-ann"] });
      const spec = { job: "one", type: "enrich" } as const;
      await context.warehouse.beginRun(runOf(spec));
      const results = await context.warehouse.commitFeed({
        run: runOf(spec),
        calls: [],
        drift: [],
        counters: {},
        checkpoints: [],
        upserts: [
          {
            table: "person_pid_alias",
            columns: ["sent_service_pid", "returned_service_pid", "first_seen_at"],
            rows: [
              ["p-ann", "p-1", "2026-11-01T00:00:00Z"],
              ["p-2", "p-ann", "2026-11-01T00:00:00Z"],
              ["p-3", "p-4", "2026-11-01T00:00:00Z"],
            ],
          },
        ],
      });
      expect(results).toEqual([
        { given: 1, suppressed: 2, inserted: 1, updated: 0, marked: 0, unbelieved: 0 },
      ]);
      expect(await findTraces(context, ["p-ann"])).toEqual([]);
    });
  });

  test("loads in flight restore no erased person, under any interleaving", async () => {
    const context = getContext();
    await makePeople(context, rows);
    const { warehouse } = context;
    const spec = enrichSpec();
    const run = await begin(warehouse, spec, randomUUID());
    await readRows(
      context,
      spec,
      run,
      Array.from({ length: 10 }, (_, i) => `row ${i}`),
    );
    const persons = Array.from({ length: 30 }, (_, i) =>
      wholePerson(`p-${i % 10}`, {
        full_name: `Person ${i % 10}`,
        relatives: [{ relative_service_pid: `p-${(i + 1) % 10}`, relative_first_name: "Somebody" }],
      }),
    );
    const load = (i: number) => {
      const person = persons[i] ?? ann;
      const reply = { pid: person.servicePid, person };
      const call = callOf({ callId: randomUUID() });
      return warehouse.commitLookup(
        commitOf(warehouse, spec, run, [[looseRecord(`row ${i % 10}`), reply]], {
          call,
          answeredAt: `2026-11-21T04:00:${String(10 + i)}.000000+00:00`,
        }),
      );
    };
    const inOrder = async (from: number) => {
      for (let i = from; i < 30; i += 3) await load(i);
    };
    const eraseSome = async () => {
      for (const pid of ["p-3", "p-7"]) await erase(context, { pids: [pid] });
    };
    await Promise.all([inOrder(0), inOrder(1), inOrder(2), eraseSome()]);
    for (const id of await warehouse.openErasures()) await warehouse.removeErased(id);
    expect(await findTraces(context, ['"p-3"', '"p-7"', '"row 3"', '"row 7"'])).toEqual([]);
    expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("8");
  });
}
