import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { BASE_DAY } from "../src/population/calendar.ts";
import { createPeople } from "../src/population/people.ts";
import { fieldsOf, personFieldNames } from "../src/population/person-fields.ts";
import { enrichEndpoint } from "../../../src/schemas/enrich.ts";
import { personFields, personLists } from "../../../src/schemas/person.ts";
import { DriftLog } from "../../../src/schemas/convert.ts";
import { flattenerOf } from "../../../src/schemas/flatten.ts";
import { type SampleInput, sampleInputs } from "../src/sample-inputs.ts";
import { enrich, sandboxFor } from "./support.ts";
import * as fc from "../../../test/support/fast-check.ts";
import { sized } from "../../../test/support/test-size.ts";

const TODAY = BASE_DAY + 300;
const people = createPeople(7, 1_000_000);
const personText = (index: number, day = TODAY, population = people) =>
  JSON.stringify(fieldsOf({ people: population, index, day }));
const anyIndex = fc.integer({ min: 0, max: people.count - 1 });
const anyDay = fc.integer({ min: BASE_DAY - 100, max: BASE_DAY + 3000 });

describe("a person", () => {
  it("never changes: tests and the figures of the docs count on these people", () => {
    const hash = createHash("sha256");
    const home = createPeople(1, 1_000_000);
    for (let i = 0; i < 500; i++) {
      hash.update(home.pidOf(i * 31, TODAY) + personText(i * 31, BASE_DAY + i * 3, home));
    }
    for (const row of sampleInputs({ seed: 1, people: 10_000, rows: 500 })) hash.update(JSON.stringify(row));
    expect(hash.digest("hex")).toBe("2910a408b62ea0972860d5085e965bfe470fb2a7367683f4747e94f12d276d41");
  });

  it("has every documented field and no other, each of its documented type", () => {
    const flattener = flattenerOf(enrichEndpoint.result);
    expect(personFieldNames).toEqual([...Object.keys(personFields), ...Object.keys(personLists)]);
    fc.assert(
      fc.property(anyIndex, anyDay, (index, day) => {
        const person = JSON.parse(personText(index, day));
        const drift = new DriftLog("");
        flattener.flatten(person, "p-1", drift);
        expect(drift.entries()).toEqual([]);
        expect(Object.keys(person)).toEqual(personFieldNames);
        for (const [name, list] of Object.entries(personLists)) {
          for (const element of person[name]) {
            expect(new Set(Object.keys(element))).toEqual(new Set(Object.keys(list.fields)));
          }
        }
      }),
      { numRuns: sized(100, 300) },
    );
  });
});

it("a family ends at the population's end", () => {
  for (let count = 1; count < 100; count++) {
    const few = createPeople(7, count);
    for (let index = Math.max(0, count - 8); index < count; index++) {
      const { relatives, service_spouse_pid } = JSON.parse(personText(index, TODAY, few));
      const pids = relatives.map(
        (relative: { relative_service_pid: string }) => relative.relative_service_pid,
      );
      const found = [...pids, service_spouse_pid ?? few.pidOf(0, TODAY)].map((pid) =>
        few.findByPid(pid, TODAY),
      );
      expect(found.every((other) => other !== null && other < count)).toBe(true);
    }
  }
});

describe("identifiers", () => {
  it("lead back to the person that has them", () => {
    fc.assert(
      fc.property(anyIndex, anyDay, (index, day) => {
        const { contacts } = people;
        expect(people.findByPid(people.pidOf(index, day), day)).toBe(index);
        for (const email of [...contacts.personalEmails(index), ...contacts.professionalEmails(index, day)]) {
          expect(contacts.findByEmail(` ${email.toUpperCase().replace("@", "+tag@")} `, day)?.index).toBe(
            index,
          );
        }
        for (const { number } of contacts.phones(index)) {
          expect(number).toMatch(/^\+1\d{10}$/);
          expect(contacts.findByPhone(number)?.index).toBe(index);
          expect(
            contacts.findByPhone(`(${number.slice(2, 5)}) ${number.slice(5, 8)}-${number.slice(8)}`)?.index,
          ).toBe(index);
        }
        const url = contacts.linkedinUrl(index);
        const forms = url === null ? [] : [url, `${url}/`, url.replace("https://www.", "").toUpperCase()];
        for (const form of forms) expect(contacts.findByLinkedin(form)?.index).toBe(index);
      }),
    );
  });

  it("of addresses lead back to the household, however the address is written", () => {
    fc.assert(
      fc.property(anyIndex, anyDay, (index, day) => {
        const { addresses, families } = people;
        const household = families.householdOf(index);
        for (const stay of addresses.staysOf(household, day)) {
          const { line1, city, state, zip } = addresses.written(household, stay.slot);
          expect(addresses.householdAt(line1, city, state, zip)).toBe(household);
          expect(addresses.householdAt(line1.toUpperCase(), city, state.toLowerCase(), "")).toBe(household);
          expect(addresses.householdAt(line1, "", "", zip)).toBe(household);
        }
      }),
    );
  });

  it("that belong to no person resolve to none", () => {
    expect(people.findByPid("p-00000000000000000000000000000000", TODAY)).toBeNull();
    expect(people.findByPid("nonsense", TODAY)).toBeNull();
    expect(people.contacts.findByEmail("nobody@mail.example", TODAY)).toBeNull();
    expect(people.contacts.findByEmail("", TODAY)).toBeNull();
    expect(people.contacts.findByPhone("555")).toBeNull();
    expect(people.contacts.findByLinkedin("https://www.linkedin.com/in/aaaaaa")).toBeNull();
    expect(people.addresses.householdAt("1 Nowhere Blvd", "Chicago", "IL", "60601")).toBeNull();
    expect(people.addresses.householdAt("x", "", "", "")).toBeNull();
  });
});

const options = { seed: 1, people: 10_000, rows: 2500 };
const rows = [...sampleInputs(options)];
const filled = (...values: (string | null)[]) =>
  values.filter((value) => value !== null && value.trim() !== "");

function toRecord(row: SampleInput): object {
  const fields = {
    record_id: String(row.id),
    first_name: row.first_name,
    last_name: row.last_name,
    linkedin_url: row.linkedin,
    address_line_1: row.street,
    city: row.city,
    state: row.state,
    zipcode: row.zip,
    emails: filled(row.email, row.work_email),
    phones: filled(row.phone),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => (value?.length ?? 0) > 0));
}

describe("sample inputs", () => {
  it("match the sandbox of the same seed and population for about 85 %", async () => {
    const sandbox = await sandboxFor({ people: options.people });
    let matched = 0;
    for (let start = 0; start < rows.length; start += 500) {
      const results = await enrich(sandbox, rows.slice(start, start + 500).map(toRecord));
      matched += results.filter((result) => result.is_match).length;
    }
    expect(matched / rows.length).toBeGreaterThan(0.83);
    expect(matched / rows.length).toBeLessThan(0.87);
  });

  it("come one at a time: the first rows of a billion are there at once", () => {
    const first = sampleInputs({ seed: 1, people: 100_000_000, rows: 1_000_000_000 });
    expect(first.next().value).toMatchObject({ id: 1 });
    expect(first.next().value).toMatchObject({ id: 2 });
  });
});
