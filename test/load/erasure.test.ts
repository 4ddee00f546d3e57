import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Identifiers } from "../../src/load/inputs/input.ts";
import { recordsOf } from "../support/keyed-records.ts";
import { useContext } from "./postgres-context.ts";
import { columnOf, valueOf } from "./suite/context.ts";
import { ann, answer, erase, findTraces, makeCouple, nobody, ofAnn, rows } from "./suite/erased-couple.ts";
import { begin, callOf, commitOf, reservationOf, runNight, runOf, tester } from "./suite/nights.ts";
import { addPeople, enrichSpec, makePeople, people, pushed } from "./suite/people.ts";
import { looseRecord, readRows, wholePerson } from "./suite/person-updates.ts";

const context = useContext();
const spec = enrichSpec();

const rowOf = (sourceKey: string, source = "people") => ({ rows: [{ source, sourceKey }] });

/** Finds people as the program does; requests their erasure. */
async function request(named: Partial<Identifiers>): Promise<string> {
  const { warehouse } = context;
  const found = await warehouse.findPeople({ ...nobody, ...named }, [people]);
  return (await warehouse.requestErasure(found)).erasureId;
}

/** Selects what is due for a run, and reads it. */
async function readDue() {
  const run = await begin(context.warehouse, spec, randomUUID());
  const selection = await context.warehouse.selectLookup(spec, run);
  return { run, selection, records: () => recordsOf(context.warehouse.db, spec, selection) };
}

describe("an erasure", () => {
  test("finds all identifiers of a person by any of them, and removes them", async () => {
    await makeCouple(context);
    const named: readonly Partial<Identifiers>[] = [
      { pids: ["p-ann"] },
      { pids: ["p-ann-old"] },
      { emails: [" aNN@home.EXAMPLE\t"] },
      { emails: ["ann@work.example"] },
      rowOf("key-ann"),
    ];
    for (const one of named) {
      const { people: found } = await context.warehouse.findPeople({ ...nobody, ...one }, [people]);
      const addresses = ["ann@home.example", "ann@other.example", "ann@work.example"];
      expect(found).toEqual({ pids: ["p-ann", "p-ann-old"], emails: addresses, ...rowOf("key-ann") });
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

  test("finds by address a person who is known only from a contact job", async () => {
    await makeCouple(context);
    await context.sql(`INSERT INTO person_data.contact_job (job_id, _run_id) VALUES ('j-1', '');
      INSERT INTO person_data.contact_job_result (job_id, position, service_pid, jacket, _synced_at, _run_id) VALUES
        ('j-1', 0, 'p-dee', '{"personal_emails": [{"email_address": "Dee@Home.example"}]}', '2020-01-01', ''),
        ('j-1', 1, 'p-eve', '{"personal_email": "xdee@home.example"}', '2020-01-01', '');
      INSERT INTO person_data.audience_search_member (segment_id, service_pid, position, _synced_at, _run_id) VALUES
        ('g-1', 'p-dee', 0, '2020-01-01', '')`);
    const { people: found, removed } = await erase(context, { emails: ["dee@home.example "] });
    expect(found).toEqual({ pids: ["p-dee"], emails: ["dee@home.example"], rows: [] });
    expect(removed).toEqual({ contact_job_result: 1, audience_search_member: 1 });
  });

  test("is pending until every earlier run has ended and the rows were removed a second time", async () => {
    const { warehouse } = context;
    await makeCouple(context);
    const job = runOf({ job: "under_way", type: "enrich" });
    const held = await warehouse.acquireLock({ ...job, process: tester, lifeMs: 60_000, dead: [] });
    if (held.kind !== "held") throw new Error("refused");
    await context.sql("UPDATE person_data_state.job_lock SET released_at = now() WHERE job <> 'under_way'");
    const id = await request({ pids: ["p-ann"] });
    const complete = async () => (await warehouse.completeErasures([id], null)).get(id);
    expect(await warehouse.removeErased(id)).toMatchObject({ person: 2 });
    expect(await complete()).toEqual([{ kind: "run", name: "under_way" }]);
    expect(await warehouse.readOpenErasures()).toEqual([id]);
    // A load of that run that started before the request.
    await context.sql(`INSERT INTO person_data.person_pid_alias VALUES
      ('p-ann', 'p-ann-new', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z', 'late')`);
    await warehouse.releaseLock(held.run);
    // Nothing holds it up any more, but what the run has stored is not removed yet.
    expect(await complete()).toBe(null);
    expect(await warehouse.readOpenErasures()).toEqual([id]);
    expect(await warehouse.removeErased(id)).toMatchObject({ person_pid_alias: 1 });
    expect(await complete()).toEqual([]);
    expect(await warehouse.readOpenErasures()).toEqual([]);
    expect(await findTraces(context, ofAnn)).toEqual([]);
    const completed = "SELECT bool_and(completed_at IS NOT NULL) FROM person_data_ops.erasure_subject";
    expect(await valueOf(context, completed)).toBe("true");
  });

  test.for<[string, Partial<Identifiers>]>([
    ["PID", { pids: ["p-ann"] }],
    ["key", rowOf("key-ann")],
    ["address in the input", { emails: ["ann@work.example"] }],
  ])("by %s finds what is stored after the search too", async ([, named]) => {
    const { warehouse } = context;
    await makePeople(context, rows);
    const found = await warehouse.findPeople({ ...nobody, ...named }, [people]);
    await runNight(context, spec, answer);
    await warehouse.removeErased((await warehouse.requestErasure(found)).erasureId);
    expect(await findTraces(context, ["p-ann", "key-ann", "ann@home", "ann@other"])).toEqual([]);
    const { sent } = await runNight(context, enrichSpec({ resend: true }), answer);
    expect(Object.keys(sent)).toEqual(["key-bob"]);
  });

  test("of a row removes the person that a load in progress stored for it", async () => {
    await makePeople(context, rows);
    const id = await request(rowOf("key-ann"));
    // Such a load doesn't see the request.
    await context.sql("UPDATE person_data_ops.erasure_subject SET subject_hash = sha256(subject_hash)");
    await runNight(context, spec, answer);
    await context.warehouse.removeErased(id);
    expect(await findTraces(context, ["p-ann", "key-ann", "ann@"])).toEqual([]);
    expect(await columnOf(context, "SELECT service_pid FROM person_data.person")).toEqual(["p-bob"]);
  });

  test("that keeps other people's rows removes of a row only what no other row has", async () => {
    await makeCouple(context);
    await addPeople(context, [{ id: "key-ann-again", first_name: "Ann", email: "ann@work.example" }]);
    await runNight(context, spec, () => ({ pid: "p-ann", person: ann }));
    const find = async (key: string) => {
      const named = { ...nobody, ...rowOf(key) };
      return (await context.warehouse.findPeople(named, [], { spareOthers: true })).people;
    };
    expect(await find("key-ann")).toEqual({ pids: [], emails: ["ann@work.example"], ...rowOf("key-ann") });
    const addresses = ["bob@home.example", "bob@work.example"];
    expect(await find("key-bob")).toEqual({ pids: ["p-bob"], emails: addresses, ...rowOf("key-bob") });
  });
});

describe("a run in progress", () => {
  test("records no reject of a person who was erased", async () => {
    await makePeople(context, rows);
    const { run, records } = await readDue();
    const replies = (await records()).map((record) => [record, { code: "poison" }] as const);
    await erase(context, rowOf("key-ann"));
    await context.warehouse.commitLookup(commitOf(context.warehouse, spec, run, replies));
    expect(await columnOf(context, "SELECT source_key FROM person_data.reject")).toEqual(["key-bob"]);
  });

  test("doesn't reserve a record that it read before the erasure", async () => {
    await makePeople(context, rows);
    const { run, selection, records } = await readDue();
    const [due, { warehouse }] = [await records(), context];
    await request({ emails: ["ann@work.example"] });
    const ofKey = (key: string) => due.filter((record) => record.keys[0] === key);
    const reserve = (chosen: typeof due) => {
      const claimed = { kind: spec.kind, records: chosen };
      return warehouse.reserveCall(run, reservationOf(chosen.length, {}, { claimed }));
    };
    const lost = ofKey("key-ann").map((record) => record.recordId);
    expect(await reserve(due)).toEqual({ granted: 0, limitedBy: null, lost });
    expect(await columnOf(context, "SELECT call_id FROM person_data_ops.api_call")).toEqual([]);
    expect(await reserve(ofKey("key-bob"))).toEqual({ granted: 1, limitedBy: null });
    expect(await selection.countOpen()).toEqual({ records: 1, rows: 1, sent: 0 });
    await selection.close();
  });

  test("sends no erased row, but another input's row with the same key", async () => {
    await makePeople(context, rows);
    const { selection, records } = await readDue();
    await erase(context, rowOf("key-ann", "others"));
    expect(await records()).toHaveLength(2);
    await erase(context, rowOf("key-ann"));
    expect(await records()).toMatchObject([{ keys: ["key-bob"] }]);
    await selection.close();
  });

  test("pushes no person whose row an erasure has not deleted yet", async () => {
    await makePeople(context, []);
    const run = runOf({ job: "another", type: "enrich" });
    await context.warehouse.readWanted(run, "s-1", pushed("SELECT 'p-0' AS service_pid WHERE false"));
    await erase(context, { pids: ["p-2"] });
    // As written by a load that started before the erasure.
    await context.sql(`INSERT INTO person_data_state.segment_push_member
        (job, segment_id, service_pid, is_wanted, state, is_own, run_id, _synced_at)
      SELECT 'another', 's-1', pid, true, 'absent', false, 'old', now() FROM unnest(ARRAY['p-1', 'p-2']) AS u(pid)`);
    const batch = { change: "add", after: "", limit: 10 } as const;
    expect(await context.warehouse.takeBatch(run, "s-1", batch)).toEqual({ pids: ["p-1"], last: "p-2" });
  });

  test("counts each listed member of a segment once, erased ones too, and keeps no erased one", async () => {
    const run = runOf({ job: "another", type: "enrich" });
    await erase(context, { pids: ["p-2"] }, []);
    const note = (...pids: readonly string[]) => context.warehouse.noteListedPids(run, "s-1", pids);
    expect([await note("p-1", "p-2", "p-3"), await note("p-3", "p-4")]).toEqual([3, 1]);
    expect(await findTraces(context, ["p-2"])).toEqual([]);
  });

  test("restores no erased person by loads in flight, under any interleaving", async () => {
    await makePeople(context, rows);
    const { warehouse } = context;
    const run = await begin(warehouse, spec, randomUUID());
    const keys = Array.from({ length: 10 }, (_, i) => `row ${i}`);
    await readRows(context, spec, run, keys);
    const load = (i: number) => {
      const pid = `p-${i % 10}`;
      const relatives = [{ relative_service_pid: `p-${(i + 1) % 10}`, relative_first_name: "Somebody" }];
      const person = wholePerson(pid, { full_name: `Person ${i % 10}`, relatives });
      const outcome = { call: callOf(), completedAt: `2026-11-21T04:00:${10 + i}.000000+00:00` };
      const replies = [[looseRecord(`row ${i % 10}`), { pid, person }]] as const;
      return warehouse.commitLookup(commitOf(warehouse, spec, run, replies, outcome));
    };
    const inOrder = async (from: number) => {
      for (let i = from; i < 30; i += 3) await load(i);
    };
    const eraseSome = async () => {
      for (const pid of ["p-3", "p-7"]) await erase(context, { pids: [pid] });
    };
    await Promise.all([inOrder(0), inOrder(1), inOrder(2), eraseSome()]);
    for (const id of await warehouse.readOpenErasures()) await warehouse.removeErased(id);
    expect(await findTraces(context, ['"p-3"', '"p-7"', '"row 3"', '"row 7"'])).toEqual([]);
    expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("8");
  });
});
