import { recordsOf } from "../../support/keyed-records.ts";
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Identifiers, RowsByTable } from "../../../src/load/erasure/people.ts";
import { tables } from "../../../src/schemas/registry.ts";
import {
  begin,
  callOf,
  commitOf,
  gist,
  matchAll,
  type Responder,
  runNight,
  runOf,
  tester,
} from "./nights.ts";
import { addPeople, enrichSpec, makePeople, people, resolveSpec, validateSpec } from "./people.ts";
import { commitPersons, looseRecord, wholePerson } from "./person-updates.ts";
import { columnOf, type GetPlace, type Place, schemaNames, valueOf } from "./place.ts";

/** Tables in which one of the texts stands, but for the tombstones, which are left on purpose. */
export async function findTraces(
  place: Pick<Place, "sql">,
  texts: readonly string[],
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const { name, schema, people } of tables) {
    if (people === "kept") continue;
    const rows = JSON.stringify(
      await place.sql(`SELECT * FROM ${schemaNames[schema]}.${name}`),
    ).toLowerCase();
    for (const text of texts) if (rows.includes(text.toLowerCase())) found.push(`${name}: ${text}`);
  }
  return found;
}

/** The same, and tables of any other name: lists of runs under way, and of killed ones. */
export async function findTracesAnywhere(
  place: Pick<Place, "sql" | "tableNames" | "rowsText">,
  texts: readonly string[],
): Promise<readonly string[]> {
  const found = [...(await findTraces(place, texts))];
  const declared = new Set(tables.map(({ name }) => name));
  for (const name of await place.tableNames()) {
    if (declared.has(name)) continue;
    const rows = await place.rowsText(name);
    for (const text of texts) if (rows.includes(text)) found.push(`${name}: ${text}`);
  }
  return found;
}

const nobody: Identifiers = { pids: [], emails: [], rows: [] };

/** Erases whom these name, as the program does. */
export async function erase(
  { warehouse }: Place,
  named: Partial<Identifiers>,
): Promise<{ readonly id: string; readonly people: Identifiers; readonly removed: RowsByTable }> {
  const found = await warehouse.findPeople({ ...nobody, ...named }, [people]);
  const id = await warehouse.requestErasure(found);
  return { id, people: found.people, removed: await warehouse.removeErased(id) };
}

const emails = (...addresses: string[]) =>
  addresses.map((email_address, i) => ({ email_rank: i + 1, email_address }));

const ann = wholePerson("p-ann", {
  full_name: "Ann Lee",
  first_name: "Ann",
  service_spouse_pid: "p-bob",
  personal_emails: emails("Ann@Home.example", "ann@other.example"),
  phones: [{ phone_rank: 1, phone_type: "mobile", phone_number: "+1 555 0100" }],
  relatives: [{ relative_service_pid: "p-bob", relative_first_name: "Bob" }],
  address_history: [{ address_rank: 1, address_line_1: "1 Elm Street", address_city: "Austin" }],
  work_experience: [{ experience_rank: 1, work_company_name: "Acme", work_title: "Nurse" }],
  education_experience: [{ experience_rank: 1, institution_name: "Juilliard", education_majors: ["Music"] }],
});
const bob = wholePerson("p-bob", {
  full_name: "Bob Roe",
  first_name: "Bob",
  service_spouse_pid: "p-ann",
  personal_emails: emails("bob@home.example"),
  relatives: [
    { relative_service_pid: "p-ann", relative_first_name: "Ann" },
    { relative_service_pid: "p-cid", relative_first_name: "Cid" },
  ],
});

/** Of everything that is known of Ann something that nobody else has. */
const ofAnn = ["p-ann", "ann@", "Ann", "555 0100", "Elm Street", "Nurse", "Juilliard", "key-ann"];

const rows = [
  { id: "key-ann", first_name: "Ann", last_name: "Lee", email: "ann@work.example", phone: "5550100" },
  { id: "key-bob", first_name: "Bob", last_name: "Roe", email: "bob@work.example", phone: "5550101" },
];

const replyOf = {
  "key-ann": { pid: "p-ann", person: ann },
  "key-bob": { pid: "p-bob", person: bob },
} as const;
/** Ann and Bob, who are married. */
const answer: Responder = ({ rows: [row] }) =>
  row?.sourceKey === "key-ann" || row?.sourceKey === "key-bob" ? replyOf[row.sourceKey] : null;

/** Ann and Bob in every table that lookups write. */
async function makeCouple(place: Place): Promise<void> {
  await makePeople(place, rows);
  await runNight(place, resolveSpec(), answer);
  await runNight(place, validateSpec(), matchAll);
  await runNight(place, enrichSpec(), answer);
  await place.sql(`INSERT INTO person_data.person_pid_alias VALUES
    ('p-ann-old', 'p-ann', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z', 'earlier')`);
}

/** What erasing people does to the tables, and to what comes later. */
export function describeErasure(getPlace: GetPlace): void {
  describe("an erasure", () => {
    test("finds all identifiers of a person by any of them, and removes them", async () => {
      const place = getPlace();
      await makeCouple(place);
      const named: readonly Partial<Identifiers>[] = [
        { pids: ["p-ann"] },
        { pids: ["p-ann-old"] },
        { emails: [" aNN@home.EXAMPLE\t"] },
        { emails: ["ann@work.example"] },
        { rows: [{ source: "people", sourceKey: "key-ann" }] },
      ];
      for (const one of named) {
        const { people: found } = await place.warehouse.findPeople({ ...nobody, ...one }, [people]);
        expect(found).toEqual({
          pids: ["p-ann", "p-ann-old"],
          emails: ["ann@home.example", "ann@other.example", "ann@work.example"],
          rows: [{ source: "people", sourceKey: "key-ann" }],
        });
      }
      const found = await erase(place, { pids: ["p-ann"] });
      expect(await findTraces(place, ofAnn)).toEqual([]);
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
        lookup_state: 3,
        person_state: 1,
        email_state: 1,
      });
    });

    test("leaves rows of others that don't name the person, and lets them change", async () => {
      const place = getPlace();
      await makeCouple(place);
      const before = await valueOf(
        place,
        "SELECT _record_synced_at FROM person_data.person WHERE service_pid = 'p-bob'",
      );
      await erase(place, { pids: ["p-ann"] });
      expect(await place.sql(`SELECT full_name, service_spouse_pid FROM person_data.person`)).toEqual([
        { full_name: "Bob Roe", service_spouse_pid: null },
      ]);
      expect(await columnOf(place, "SELECT relative_first_name FROM person_data.person_relative")).toEqual([
        "Cid",
      ]);
      expect(await columnOf(place, "SELECT email_address FROM person_data.email_validation")).toEqual([
        "bob@work.example",
      ]);
      expect(await valueOf(place, "SELECT _record_synced_at FROM person_data.person")).not.toBe(before);
    });

    test("reports in advance what it would remove, and removes nothing then", async () => {
      const place = getPlace();
      await makeCouple(place);
      const found = await place.warehouse.findPeople({ ...nobody, pids: ["p-ann"] }, [people]);
      const counted = await place.warehouse.countPeople(found.people);
      expect(await place.sql("SELECT * FROM person_data.tombstone")).toEqual([]);
      expect(counted).toEqual((await erase(place, { pids: ["p-ann"] })).removed);
    });

    test("leaves tombstones, and subjects that are nothing but hashes", async () => {
      const place = getPlace();
      await makeCouple(place);
      await erase(place, { pids: ["p-ann"] });
      expect(
        await place.sql(
          `SELECT service_pid, source, source_key FROM person_data.tombstone ORDER BY service_pid, source_key`,
        ),
      ).toEqual([
        { service_pid: "p-ann", source: null, source_key: null },
        { service_pid: "p-ann-old", source: null, source_key: null },
        { service_pid: null, source: "people", source_key: "key-ann" },
      ]);
      expect(
        await place.sql(`SELECT kind, count(*) AS subjects, min(rows_removed) AS removed
          FROM person_data_ops.erasure_subject GROUP BY kind ORDER BY kind`),
      ).toEqual([
        { kind: "email", subjects: "3", removed: "22" },
        { kind: "pid", subjects: "2", removed: "22" },
        { kind: "source_key", subjects: "1", removed: "22" },
      ]);
      expect(await place.warehouse.dropTombstones(60_000)).toBe(0);
      expect(await place.warehouse.dropTombstones(0)).toBe(3);
    });

    test("is pending until every earlier run has ended and the rows were removed a second time", async () => {
      const place = getPlace();
      const { warehouse } = place;
      await makeCouple(place);
      const held = await warehouse.acquireLock({
        ...runOf({ job: "under_way", type: "enrich" }),
        process: tester,
        lifeMs: 60_000,
        dead: [],
      });
      if (held.kind !== "held") throw new Error("refused");
      await place.sql("UPDATE person_data_state.job_lock SET released_at = now() WHERE job <> 'under_way'");
      const found = await warehouse.findPeople({ ...nobody, pids: ["p-ann"] }, [people]);
      const id = await warehouse.requestErasure(found);
      expect(await warehouse.removeErased(id)).toMatchObject({ person: 2 });
      expect(await warehouse.completeErasure(id)).toEqual([{ kind: "run", name: "under_way" }]);
      expect(await warehouse.openErasures()).toEqual([id]);
      // A load of that run has not seen the request.
      await place.sql(`INSERT INTO person_data.person_pid_alias VALUES
        ('p-ann', 'p-ann-new', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z', 'late')`);
      await warehouse.releaseLock(held.run);
      expect(await warehouse.removeErased(id)).toMatchObject({ person_pid_alias: 1 });
      expect(await warehouse.completeErasure(id)).toEqual([]);
      expect(await warehouse.openErasures()).toEqual([]);
      expect(await findTraces(place, ofAnn)).toEqual([]);
      expect(
        await columnOf(
          place,
          "SELECT DISTINCT completed_at IS NOT NULL FROM person_data_ops.erasure_subject",
        ),
      ).toEqual(["true"]);
    });

    test("of a person without stored rows still keeps the person out", async () => {
      const place = getPlace();
      await makePeople(place, rows);
      const { people: found, removed } = await erase(place, { emails: ["ann@work.example"] });
      expect(found.rows).toEqual([{ source: "people", sourceKey: "key-ann" }]);
      expect(removed).toEqual({});
      const { counts, sent } = await runNight(place, enrichSpec(), answer);
      expect(gist(counts)).toMatchObject({ read: 2, suppressed: 1, due: 1, toSend: 1 });
      expect(Object.keys(sent)).toEqual(["key-bob"]);
    });

    test.for<[string, Partial<Identifiers>]>([
      ["PID", { pids: ["p-ann"] }],
      ["key", { rows: [{ source: "people", sourceKey: "key-ann" }] }],
      ["address in the input", { emails: ["ann@work.example"] }],
    ])("by %s finds what is stored after the search too", async ([, named]) => {
      const place = getPlace();
      const { warehouse } = place;
      await makePeople(place, rows);
      const found = await warehouse.findPeople({ ...nobody, ...named }, [people]);
      await runNight(place, enrichSpec(), answer);
      const id = await warehouse.requestErasure(found);
      await warehouse.removeErased(id);
      expect(await findTraces(place, ["p-ann", "key-ann", "ann@home", "ann@other"])).toEqual([]);
      const { sent } = await runNight(place, enrichSpec({ resend: true }), answer);
      expect(Object.keys(sent)).toEqual(["key-bob"]);
    });

    test("removes the state of rows that turned out late to be the person's", async () => {
      const place = getPlace();
      const { warehouse } = place;
      await makePeople(place, rows);
      await runNight(place, enrichSpec(), answer);
      // Another row of Ann's is erased before anybody knows that it is hers.
      await erase(place, { rows: [{ source: "people", sourceKey: "key-ann-2" }] });
      await addPeople(place, [{ id: "key-ann-2", first_name: "Ann", email: "ann@third.example" }]);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      await warehouse.commitLookup(
        commitOf(warehouse, spec, run, [[looseRecord("key-ann-2"), { pid: "p-ann", person: ann }]], {
          call: callOf({ callId: randomUUID() }),
          answeredAt: "2026-11-21T04:00:10.000000+00:00",
        }),
      );
      for (const id of await warehouse.openErasures()) await warehouse.removeErased(id);
      expect(await findTraces(place, ["p-ann", "key-ann"])).toEqual([]);
      const { sent } = await runNight(place, enrichSpec({ resend: true }), answer);
      expect(Object.keys(sent)).toEqual(["key-bob"]);
    });

    test("that keeps other people's rows removes of a row only what no other row has", async () => {
      const place = getPlace();
      await makeCouple(place);
      await addPeople(place, [{ id: "key-ann-again", first_name: "Ann", email: "ann@work.example" }]);
      await runNight(place, enrichSpec(), () => ({ pid: "p-ann", person: ann }));
      const row = { source: "people", sourceKey: "key-ann" };
      const spared = await place.warehouse.findPeople({ ...nobody, rows: [row] }, [], { spareOthers: true });
      expect(spared.people).toEqual({ pids: [], emails: ["ann@work.example"], rows: [row] });
      const alone = { source: "people", sourceKey: "key-bob" };
      const taken = await place.warehouse.findPeople({ ...nobody, rows: [alone] }, [], { spareOthers: true });
      expect(taken.people).toEqual({
        pids: ["p-bob"],
        emails: ["bob@home.example", "bob@work.example"],
        rows: [alone],
      });
    });
  });

  describe("after an erasure", () => {
    test("rows with the person's key, address or PID are neither sent, nor rejected, nor left waiting", async () => {
      const place = getPlace();
      await makeCouple(place);
      await erase(place, { pids: ["p-ann"] });
      await addPeople(place, [
        { id: "another-1", first_name: "A", last_name: "L", email: "ANN@other.example " },
        { id: "another-2", first_name: "A", last_name: "L", phone: "5550199", note: "p-ann" },
        { id: "another-3", first_name: "C", last_name: "D", email: "cid@work.example" },
        { id: "key-ann" },
      ]);
      for (const resend of [false, true]) {
        const resolved = await runNight(place, resolveSpec({ resend }), matchAll);
        expect(gist(resolved.counts)).toMatchObject({ read: 6, suppressed: 3 });
        const fields = { ...people.fields, service_pid: ["note"] };
        const spec = enrichSpec({ input: { ...people, fields }, resend });
        const enriched = await runNight(place, spec, matchAll);
        expect(gist(enriched.counts)).toMatchObject({ read: 6, suppressed: 4 });
        const waiting = await runNight(place, enrichSpec({ job: "one", pidFrom: "another" }), matchAll);
        expect(gist(waiting.counts)).toEqual({ read: 6, suppressed: 3, waiting: 3 });
        const validated = await runNight(place, validateSpec({ resend }), matchAll);
        expect(gist(validated.counts)).toMatchObject({ read: 4, suppressed: 2 });
        expect(await findTraces(place, ["p-ann", "ann@", "key-ann"])).toEqual([]);
      }
      expect(await columnOf(place, "SELECT source_key FROM person_data.input_email ORDER BY 1")).toEqual([
        "another-3",
        "key-bob",
      ]);
    });

    test("an answer requested before is not stored, whichever field names the person", async () => {
      const place = getPlace();
      await makePeople(place, rows);
      const { warehouse } = place;
      await erase(place, { pids: ["p-ann"] });
      await commitPersons(place, [ann], { keys: ["row-1"] });
      expect(await findTraces(place, [...ofAnn, "row-1"])).toEqual([]);
      // Her row is known by now.
      expect(await valueOf(place, "SELECT count(*) FROM person_data_ops.erasure_subject")).toBe("2");
      await commitPersons(place, [wholePerson("p-new", { full_name: "Ann Lee" })], { keys: ["row-1"] });
      expect(await findTraces(place, ["p-new", "Ann", "row-1"])).toEqual([]);
      // And so is her new PID.
      expect([...(await warehouse.suppressedPids(["p-new", "p-ann", "p-bob"]))].toSorted()).toEqual([
        "p-ann",
        "p-new",
      ]);
      const [id] = await warehouse.openErasures();
      expect(await warehouse.removeErased(id ?? "")).toEqual({});
    });

    test("an answer with an erased address is not stored, and its PID is kept out from then on", async () => {
      const place = getPlace();
      await makePeople(place, rows);
      await erase(place, { emails: ["ann@home.example"] });
      await commitPersons(place, [ann, bob], { keys: ["row-1", "row-2"] });
      expect(await findTraces(place, ["ann@", "row-1", "Nurse"])).toEqual([]);
      expect(await columnOf(place, "SELECT service_pid FROM person_data.person")).toEqual(["p-bob"]);
      expect(await place.warehouse.suppressedPids(["p-ann", "p-bob"])).toEqual(new Set(["p-ann"]));
      // What was loaded beside her still names her, until the erasure goes on.
      for (const id of await place.warehouse.openErasures()) await place.warehouse.removeErased(id);
      expect(await findTraces(place, ofAnn)).toEqual([]);
    });

    test("others are stored without what names the person, the same each time", async () => {
      const place = getPlace();
      await makePeople(place, rows);
      await erase(place, { pids: ["p-ann"] });
      await commitPersons(place, [bob], { keys: ["second"], answeredAt: "2026-11-01T00:00:00.000001+00:00" });
      expect(await findTraces(place, ofAnn)).toEqual([]);
      expect(await columnOf(place, "SELECT relative_first_name FROM person_data.person_relative")).toEqual([
        "Cid",
      ]);
      const before = await place.sql("SELECT * FROM person_data.person");
      expect(before).toMatchObject([{ full_name: "Bob Roe", service_spouse_pid: null }]);
      await commitPersons(place, [bob], { keys: ["second"], answeredAt: "2026-11-02T00:00:00.000001+00:00" });
      expect(await place.sql("SELECT * FROM person_data.person")).toEqual(before);
    });

    test("rejects of the person are not recorded", async () => {
      const place = getPlace();
      await makePeople(place, rows);
      await erase(place, { rows: [{ source: "people", sourceKey: "key-ann" }] });
      const spec = enrichSpec();
      const run = await begin(place.warehouse, spec, randomUUID());
      const replies = ["key-ann", "key-bob"].map((key) => [looseRecord(key), { code: "poison" }] as const);
      await place.warehouse.commitLookup(commitOf(place.warehouse, spec, run, replies));
      expect(await columnOf(place, "SELECT source_key FROM person_data.reject")).toEqual(["key-bob"]);
    });

    test("a record that was read before the erasure is not reserved after it", async () => {
      const place = getPlace();
      const { warehouse } = place;
      await makePeople(place, rows);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      const selection = await warehouse.selectLookup(spec, run);
      const records = await recordsOf(warehouse.db, selection);
      const reserve = (chosen: typeof records) =>
        warehouse.reserveCall(run, {
          callId: randomUUID(),
          endpoint: "POST /v2/enrich",
          attempt: 1,
          startedAt: "2026-11-21T04:00:00Z",
          records: chosen.length,
          selected: { from: selection.frozen, recordIds: chosen.map((record) => record.recordId) },
          limits: { perDay: null, perMonth: null, perRun: null, perShard: null },
        });
      await warehouse.requestErasure(
        await warehouse.findPeople({ ...nobody, emails: ["ann@work.example"] }, [people]),
      );
      const ofAnn = records.filter((record) => record.rows[0]?.sourceKey === "key-ann");
      const ofBob = records.filter((record) => record.rows[0]?.sourceKey === "key-bob");
      expect(await reserve(records)).toEqual({
        granted: 0,
        limitedBy: null,
        erased: ofAnn.map((record) => record.recordId),
      });
      expect(await columnOf(place, "SELECT call_id FROM person_data_ops.api_call")).toEqual([]);
      expect(await reserve(ofBob)).toEqual({ granted: 1, limitedBy: null });
      expect(await selection.count()).toMatchObject({ sent: 0, suppressed: 1, remaining: 1 });
      await selection.close();
    });

    test("a run in progress doesn't send the person's record", async () => {
      const place = getPlace();
      const { warehouse } = place;
      await makePeople(place, rows);
      const spec = enrichSpec();
      const run = await begin(warehouse, spec, randomUUID());
      const selection = await warehouse.selectLookup(spec, run);
      await erase(place, { rows: [{ source: "people", sourceKey: "key-ann" }] });
      const records = await recordsOf(warehouse.db, selection);
      expect(records.map((record) => record.rows.map((row) => row.sourceKey))).toEqual([["key-bob"]]);
      await selection.close();
    });

    test("rows of a feed that name the person are left out", async () => {
      const place = getPlace();
      await makePeople(place, []);
      await erase(place, { pids: ["p-ann"] });
      const spec = { job: "one", type: "enrich" } as const;
      await place.warehouse.beginRun(runOf(spec));
      const results = await place.warehouse.commitFeed({
        run: runOf(spec),
        commitId: randomUUID(),
        ledger: [],
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
      expect(results).toEqual([{ given: 1, suppressed: 2, inserted: 1, updated: 0, marked: 0 }]);
      expect(await findTraces(place, ["p-ann"])).toEqual([]);
    });
  });

  test("loads in flight restore no erased person, under any interleaving", async () => {
    const place = getPlace();
    await makePeople(place, rows);
    const { warehouse } = place;
    const spec = enrichSpec();
    const run = await begin(warehouse, spec, randomUUID());
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
      for (const pid of ["p-3", "p-7"]) await erase(place, { pids: [pid] });
    };
    await Promise.all([inOrder(0), inOrder(1), inOrder(2), eraseSome()]);
    for (const id of await warehouse.openErasures()) await warehouse.removeErased(id);
    expect(await findTraces(place, ['"p-3"', '"p-7"', '"row 3"', '"row 7"'])).toEqual([]);
    expect(await valueOf(place, "SELECT count(*) FROM person_data.person")).toBe("8");
  });
}
