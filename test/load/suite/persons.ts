import { describe, expect, test } from "vitest";
import { personChildren } from "../../../src/schemas/person.ts";
import { enrichSpec, makePeople } from "./people.ts";
import { commitOf, matchAll, runNight, runOf, reserveAt } from "./nights.ts";
import { commitPersons, looseRecord, partialPerson, readRows, wholePerson } from "./person-updates.ts";
import { columnOf, type GetContext, type Context, valueOf } from "./context.ts";

const FIRST = "2026-11-01T00:00:00.000001+00:00";
const SECOND = "2026-11-02T00:00:00.000001+00:00";
const THIRD = "2026-11-03T00:00:00.000001+00:00";

const emails = (...addresses: string[]) =>
  addresses.map((email_address, i) => ({ email_rank: i + 1, email_address }));
const phone = { phone_rank: 1, phone_type: "mobile", phone_number: "+1 555 0100" };
const study = {
  experience_rank: 1,
  institution_name: "MIT",
  education_majors: ["Mathematics", "Physics"],
  education_minors: ["Music"],
};
const ann = {
  full_name: "Ann Lee",
  first_name: "Ann",
  dob: "1980-02-29",
  age: 45,
  is_retired: false,
  personal_emails: emails("ann@home.example", "ann@other.example"),
  professional_emails: emails("ann@work.example"),
  phones: [phone],
  relatives: [{ relative_service_pid: "p-bob", relative_first_name: "Bob", relationship_label: "spouse" }],
  address_history: [{ address_rank: 1, address_city: "Austin", purchase_price: "250000.75", sqft: 1200.5 }],
  work_experience: [
    { experience_rank: 1, work_company_name: "Acme" },
    { experience_rank: 2, work_company_name: "Initech" },
  ],
  education_experience: [study],
};

const matchAnn = () => ({ pid: "p-ann", person: wholePerson("p-ann", ann) });

/** Last change and number of rows of a person, by table. */
async function tellChanges(context: Context, pid = "p-ann"): Promise<Readonly<Record<string, string>>> {
  const entries = [];
  for (const name of ["person", ...personChildren.map((t) => t.name)]) {
    const rows = await context.sql(
      `SELECT _synced_at FROM person_data.${name} WHERE service_pid = '${pid}' ORDER BY 1`,
    );
    entries.push([name, rows.map((row) => row["_synced_at"]).join(" ")]);
  }
  return Object.fromEntries(entries);
}

/** Tables with differences. */
function differing(
  a: Readonly<Record<string, string>>,
  b: Readonly<Record<string, string>>,
): readonly string[] {
  return Object.keys(a).filter((name) => a[name] !== b[name]);
}

const recordSyncedAt = (context: Context) =>
  valueOf(context, "SELECT _record_synced_at FROM person_data.person");

/** Tests of `person` and its children. */
export function describePersons(getContext: GetContext): void {
  describe("persons", () => {
    test("a new person is in every table, in the service's order", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      expect(
        await context.sql(
          "SELECT service_pid, full_name, last_name, dob, age, is_retired, _extra FROM person_data.person",
        ),
      ).toEqual([
        {
          service_pid: "p-ann",
          full_name: "Ann Lee",
          last_name: null,
          dob: "1980-02-29",
          age: "45",
          is_retired: "false",
          _extra: null,
        },
      ]);
      expect(
        await context.sql(`SELECT email_type, position, email_rank, email_address FROM person_data.person_email
          ORDER BY email_type, position`),
      ).toEqual([
        { email_type: "personal", position: "0", email_rank: "1", email_address: "ann@home.example" },
        { email_type: "personal", position: "1", email_rank: "2", email_address: "ann@other.example" },
        { email_type: "professional", position: "0", email_rank: "1", email_address: "ann@work.example" },
      ]);
      expect(await context.sql("SELECT position, phone_number FROM person_data.person_phone")).toEqual([
        { position: "0", phone_number: "+1 555 0100" },
      ]);
      expect(
        await context.sql(
          "SELECT position, relative_service_pid, relationship_label FROM person_data.person_relative",
        ),
      ).toEqual([{ position: "0", relative_service_pid: "p-bob", relationship_label: "spouse" }]);
      expect(
        await context.sql("SELECT address_city, purchase_price, sqft FROM person_data.person_address"),
      ).toEqual([{ address_city: "Austin", purchase_price: "250000.75", sqft: "1200.5" }]);
      expect(
        await columnOf(
          context,
          "SELECT work_company_name FROM person_data.person_work_experience ORDER BY position",
        ),
      ).toEqual(["Acme", "Initech"]);
      expect(
        await context.sql(`SELECT education_position, subject_type, position, subject
          FROM person_data.person_education_subject ORDER BY 1, 2, 3`),
      ).toEqual([
        { education_position: "0", subject_type: "major", position: "0", subject: "Mathematics" },
        { education_position: "0", subject_type: "major", position: "1", subject: "Physics" },
        { education_position: "0", subject_type: "minor", position: "0", subject: "Music" },
      ]);
    });

    test("an unchanged answer rewrites no row of the person, but the state and the answer are new", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, enrichSpec(), matchAnn, { at: FIRST });
      const before = await tellChanges(context);
      const tuples = () =>
        context.sql(`SELECT ${context.rowVersion} AS version, _record_synced_at, _run_id FROM person_data.person
          UNION ALL SELECT ${context.rowVersion}, NULL, _run_id FROM person_data.person_email
          UNION ALL SELECT ${context.rowVersion}, NULL, _run_id FROM person_data.person_education_experience ORDER BY 1, 2`);
      const tuplesBefore = await tuples();
      const { run } = await runNight(context, enrichSpec({ resend: true }), matchAnn, { at: SECOND });
      expect(differing(before, await tellChanges(context))).toEqual([]);
      expect(await tuples()).toEqual(tuplesBefore);
      expect(
        await context.sql("SELECT answered_at, is_first, _run_id FROM person_data_state.lookup_answer"),
      ).toEqual([{ answered_at: "2026-11-02 00:00:00.000001+00", is_first: "false", _run_id: run.runId }]);
      expect(await columnOf(context, "SELECT request_completed_at FROM person_data.enrichment")).toEqual([
        "2026-11-02 00:00:00.000001+00",
      ]);
    });

    test("a changed list replaces the rows of that list alone, and moves _record_synced_at", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      const [before, recordBefore] = [await tellChanges(context), await recordSyncedAt(context)];
      const changed = { ...ann, phones: [phone, { ...phone, phone_number: "+1 555 0101" }] };
      await commitPersons(context, [wholePerson("p-ann", changed)], { answeredAt: SECOND });
      expect(differing(before, await tellChanges(context))).toEqual(["person_phone"]);
      expect(await recordSyncedAt(context)).not.toBe(recordBefore);
      expect(
        await columnOf(context, "SELECT phone_number FROM person_data.person_phone ORDER BY position"),
      ).toEqual(["+1 555 0100", "+1 555 0101"]);
    });

    test("a changed list leaves the other list in the same table alone", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      const professional = `SELECT ${context.rowVersion} AS version, * FROM person_data.person_email
        WHERE email_type = 'professional' ORDER BY position`;
      const before = await context.sql(professional);
      await commitPersons(
        context,
        [wholePerson("p-ann", { ...ann, personal_emails: emails("new@home.example") })],
        {
          answeredAt: SECOND,
        },
      );
      expect(await context.sql(professional)).toEqual(before);
      expect(
        await columnOf(
          context,
          "SELECT email_address FROM person_data.person_email WHERE email_type = 'personal'",
        ),
      ).toEqual(["new@home.example"]);
    });

    test("a list in another order is another list", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      const reversed = { ...ann, work_experience: ann.work_experience.toReversed() };
      await commitPersons(context, [wholePerson("p-ann", reversed)], { answeredAt: SECOND });
      expect(
        await columnOf(
          context,
          "SELECT work_company_name FROM person_data.person_work_experience ORDER BY position",
        ),
      ).toEqual(["Initech", "Acme"]);
    });

    test("a shortened or emptied list leaves no orphan", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann), wholePerson("p-bob", ann)], {
        answeredAt: FIRST,
      });
      const shorter = {
        ...ann,
        personal_emails: [],
        work_experience: ann.work_experience.slice(0, 1),
        education_experience: [{ ...study, education_majors: ["Physics"], education_minors: null }],
      };
      await commitPersons(context, [wholePerson("p-ann", shorter)], { answeredAt: SECOND });
      const counts = async (pid: string) =>
        Promise.all(
          [
            "person_email",
            "person_work_experience",
            "person_education_experience",
            "person_education_subject",
          ].map((table) =>
            valueOf(context, `SELECT count(*) FROM person_data.${table} WHERE service_pid = '${pid}'`),
          ),
        );
      expect(await counts("p-ann")).toEqual(["1", "1", "1", "1"]);
      expect(await counts("p-bob")).toEqual(["3", "2", "1", "3"]);
      await commitPersons(context, [wholePerson("p-ann", { ...shorter, education_experience: [] })], {
        answeredAt: THIRD,
      });
      expect(await counts("p-ann")).toEqual(["1", "1", "0", "0"]);
    });

    test("changed subjects alone replace their study's list", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      const changed = { ...ann, education_experience: [{ ...study, education_minors: ["Art", "Music"] }] };
      await commitPersons(context, [wholePerson("p-ann", changed)], { answeredAt: SECOND });
      expect(
        await columnOf(
          context,
          "SELECT subject FROM person_data.person_education_subject WHERE subject_type = 'minor' ORDER BY position",
        ),
      ).toEqual(["Art", "Music"]);
    });

    test("a changed scalar rewrites the person's row alone", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      const before = await tellChanges(context);
      await commitPersons(context, [wholePerson("p-ann", { ...ann, age: 46, full_name: null })], {
        answeredAt: SECOND,
      });
      expect(differing(before, await tellChanges(context))).toEqual(["person"]);
      expect(await context.sql("SELECT full_name, age FROM person_data.person")).toEqual([
        { full_name: null, age: "46" },
      ]);
    });

    test("a field that the interface doesn't name is kept in _extra, and goes when it is gone", async () => {
      const context = getContext();
      const extended = { ...ann, shoe_size: 43, phones: [{ ...phone, carrier: "Bell" }] };
      await commitPersons(context, [wholePerson("p-ann", extended)], { answeredAt: FIRST });
      expect(await columnOf(context, "SELECT _extra FROM person_data.person")).toEqual(['{"shoe_size": 43}']);
      expect(await columnOf(context, "SELECT _extra FROM person_data.person_phone")).toEqual([
        '{"carrier": "Bell"}',
      ]);
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: SECOND });
      expect(await columnOf(context, "SELECT _extra FROM person_data.person")).toEqual([null]);
      expect(await columnOf(context, "SELECT _extra FROM person_data.person_phone")).toEqual([null]);
    });

    test("fields absent from an answer stay as stored", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", { ...ann, shoe_size: 43 })], { answeredAt: FIRST });
      const before = await tellChanges(context);
      const partial = partialPerson("p-ann", { age: 46, first_name: null, phones: [] });
      await commitPersons(context, [partial], { answeredAt: SECOND });
      expect(await context.sql("SELECT full_name, first_name, age, _extra FROM person_data.person")).toEqual([
        { full_name: "Ann Lee", first_name: null, age: "46", _extra: '{"shoe_size": 43}' },
      ]);
      expect(differing(before, await tellChanges(context))).toEqual(["person", "person_phone"]);
      expect(await columnOf(context, "SELECT phone_number FROM person_data.person_phone")).toEqual([]);
    });

    test("a partial answer that says nothing new rewrites nothing", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: FIRST });
      const [before, recordBefore] = [await tellChanges(context), await recordSyncedAt(context)];
      await commitPersons(context, [partialPerson("p-ann", { age: 45, phones: [phone] })], {
        answeredAt: SECOND,
      });
      await commitPersons(context, [partialPerson("p-ann", {})], { answeredAt: THIRD });
      expect(differing(before, await tellChanges(context))).toEqual([]);
      expect(await recordSyncedAt(context)).toBe(recordBefore);
      await commitPersons(context, [wholePerson("p-ann", ann)], { answeredAt: "2026-11-04T00:00:00+00:00" });
      expect(differing(before, await tellChanges(context))).toEqual([]);
    });

    test("a person first known by a partial answer is completed by later ones", async () => {
      const context = getContext();
      await commitPersons(context, [partialPerson("p-ann", { phones: [phone] })], { answeredAt: FIRST });
      expect(await context.sql("SELECT service_pid, age FROM person_data.person")).toEqual([
        { service_pid: "p-ann", age: null },
      ]);
      await commitPersons(context, [partialPerson("p-ann", { age: 45 })], { answeredAt: SECOND });
      await commitPersons(context, [wholePerson("p-ann", { ...ann, phones: [] })], { answeredAt: THIRD });
      expect(await context.sql("SELECT full_name, age FROM person_data.person")).toEqual([
        { full_name: "Ann Lee", age: "45" },
      ]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_phone")).toBe("0");
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_work_experience")).toBe("2");
    });

    test("the answer of an earlier call never replaces that of a later one, regardless of the service's clock", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], {
        answeredAt: FIRST,
        callNumber: 2,
      });
      const before = await tellChanges(context);
      const older = wholePerson("p-ann", { full_name: "Somebody Else" });
      await commitPersons(context, [older], { answeredAt: THIRD, callNumber: 1 });
      expect(differing(before, await tellChanges(context))).toEqual([]);
      await commitPersons(context, [older], { answeredAt: FIRST, callNumber: 3 });
      expect(await columnOf(context, "SELECT full_name FROM person_data.person")).toEqual(["Somebody Else"]);
    });

    test("the order is kept per group: a later partial answer doesn't hold up an earlier whole one elsewhere", async () => {
      const context = getContext();
      await commitPersons(context, [wholePerson("p-ann", ann)], { callNumber: 1 });
      await commitPersons(context, [partialPerson("p-ann", { phones: [] })], { callNumber: 3 });
      const changed = { ...ann, age: 46, phones: [phone, phone], personal_emails: [] };
      await commitPersons(context, [wholePerson("p-ann", changed)], { callNumber: 2 });
      expect(await columnOf(context, "SELECT age FROM person_data.person")).toEqual(["46"]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_phone")).toBe("0");
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_email")).toBe("1");
    });

    test("a later partial answer about a new person keeps an earlier whole one from nothing else", async () => {
      const context = getContext();
      const other = { ...phone, phone_number: "+1 555 0199" };
      await commitPersons(context, [partialPerson("p-ann", { phones: [other] })], { callNumber: 2 });
      await commitPersons(context, [wholePerson("p-ann", ann)], { callNumber: 1 });
      expect(await columnOf(context, "SELECT full_name FROM person_data.person")).toEqual(["Ann Lee"]);
      expect(await columnOf(context, "SELECT phone_number FROM person_data.person_phone")).toEqual([
        "+1 555 0199",
      ]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_email")).toBe("3");
    });

    test("of two whole answers for one person in a commit the later wins, in any order", async () => {
      const context = getContext();
      const { warehouse } = context;
      const spec = enrichSpec();
      await readRows(context, spec, runOf(spec, "run-1"), ["1", "2"]);
      const personAt = (key: string, fields: object, answeredAt: string) => {
        const reply = { pid: "p-ann", person: wholePerson("p-ann", { ...fields }) };
        return commitOf(warehouse, spec, runOf(spec, "run-1"), [[looseRecord(key), reply]], { answeredAt });
      };
      const later = personAt("1", ann, SECOND);
      const earlier = personAt("2", { full_name: "Earlier", phones: [phone, phone] }, FIRST);
      await reserveAt(warehouse, earlier.run, earlier.ledger, { at: FIRST });
      await reserveAt(warehouse, later.run, later.ledger, { at: FIRST });
      await warehouse.commitLookup({
        ...later,
        ledger: [...later.ledger, ...earlier.ledger],
        answers: [...later.answers, ...earlier.answers],
      });
      expect(await columnOf(context, "SELECT full_name FROM person_data.person")).toEqual(["Ann Lee"]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_phone")).toBe("1");
      expect(
        await columnOf(context, "SELECT request_completed_at FROM person_data.enrichment ORDER BY 1"),
      ).toEqual(["2026-11-01 00:00:00.000001+00", "2026-11-02 00:00:00.000001+00"]);
    });

    test("partial answers for one person in a commit add up", async () => {
      const context = getContext();
      await commitPersons(
        context,
        [
          partialPerson("p-ann", { age: 45, full_name: "Ann" }),
          partialPerson("p-ann", { full_name: "Ann Lee", phones: [phone] }),
          partialPerson("p-ann", { personal_emails: emails("ann@home.example") }),
        ],
        { answeredAt: FIRST },
      );
      expect(await context.sql("SELECT full_name, age FROM person_data.person")).toEqual([
        { full_name: "Ann Lee", age: "45" },
      ]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_phone")).toBe("1");
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_email")).toBe("1");
    });

    test("a partial answer after a whole one in a commit changes only its own fields", async () => {
      const context = getContext();
      await commitPersons(context, [
        wholePerson("p-ann", ann),
        partialPerson("p-ann", { age: 46, phones: [] }),
      ]);
      expect(await context.sql("SELECT full_name, age FROM person_data.person")).toEqual([
        { full_name: "Ann Lee", age: "46" },
      ]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_phone")).toBe("0");
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person_email")).toBe("3");
    });

    test("a later non-match changes nothing of the person", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, enrichSpec(), matchAnn, { at: FIRST });
      const before = await tellChanges(context);
      await runNight(context, enrichSpec({ resend: true }), () => null, { at: SECOND });
      expect(differing(before, await tellChanges(context))).toEqual([]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("1");
    });

    test("a match without a person leaves none", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, enrichSpec(), matchAll);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("0");
    });
  });
}
