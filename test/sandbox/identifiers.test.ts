import { describe, expect, it } from "vitest";
import { BASE_DAY } from "../../src/sandbox/population/calendar.ts";
import { hashKey, hashText } from "../../src/sandbox/population/hash.ts";
import { codeText, codeValue, MAX_PEOPLE } from "../../src/sandbox/population/identifiers.ts";
import { createCompanies } from "../../src/sandbox/population/companies.ts";
import { originOf } from "../../src/sandbox/population/names.ts";
import { createPeople } from "../../src/sandbox/population/people.ts";
import { feistel, shuffleBelow } from "../../src/sandbox/population/permutation.ts";
import { cities, streets } from "../../src/sandbox/population/places.ts";
import * as fc from "../support/fast-check.ts";

const TODAY = BASE_DAY + 300;
const people = createPeople(7, 1_000_000);
const anyIndex = fc.integer({ min: 0, max: people.count - 1 });
const anyDay = fc.integer({ min: BASE_DAY - 100, max: BASE_DAY + 3000 });

describe("scramblings", () => {
  it("are undone by their inverse, for any seed and width", () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.integer({ min: 1, max: 16 }),
        fc.nat(20),
        fc.nat(2 ** 31 - 1),
        (seed, half, stream, n) => {
          const permutation = feistel(hashKey(seed), half * 2, stream);
          const value = n % 2 ** (half * 2);
          expect(permutation.invert(permutation.apply(value))).toBe(value);
        },
      ),
    );
  });

  it("hit every number below their size exactly once", () => {
    for (const size of [1, 2, 3, 1000, 4096, 5000]) {
      const moved = shuffleBelow(hashKey(3), size, 1);
      expect(new Set(Array.from({ length: size }, (_, i) => moved(i))).size).toBe(size);
    }
  });

  it("spell numbers below 2 ** 30 as six characters and back", () => {
    fc.assert(fc.property(fc.nat(2 ** 30 - 1), (value) => codeValue(codeText(value)) === value));
    expect(codeText(0)).toBe("aaaaaa");
    expect(codeValue("aaaaa")).toBeNull();
    expect(codeValue("aaaaa1")).toBeNull();
  });

  it("keep different texts apart by a 64-bit hash", () => {
    const hashes = Array.from({ length: 200_000 }, (_, i) =>
      hashText(`{"emails":["person${i}@mail.example"]}`).join(),
    );
    expect(new Set(hashes).size).toBe(200_000);
  });
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

  it("work for the largest population too", () => {
    const many = createPeople(1, MAX_PEOPLE);
    const last = MAX_PEOPLE - 1;
    const [email] = many.contacts.personalEmails(last - 1);
    expect(many.findByPid(many.pidOf(last, TODAY), TODAY)).toBe(last);
    expect(many.contacts.findByEmail(email ?? "", TODAY)?.index).toBe(last - 1);
    expect(() => createPeople(1, MAX_PEOPLE + 1)).toThrow(RangeError);
  });
});

describe("the word lists", () => {
  it("have the sizes that the encodings need", () => {
    expect(cities).toHaveLength(64);
    expect(cities.every((city) => /^[A-Z]{2}$/.test(city.state) && /^\d{3}$/.test(city.zip3))).toBe(true);
    expect(new Set(cities.map((city) => `${city.name}${city.state}`)).size).toBe(64);
    expect(new Set(cities.map((city) => city.zip3)).size).toBe(64);
    expect(new Set(streets).size).toBe(1024);
  });

  it("have nothing that JSON would have to escape", () => {
    const names = Array.from({ length: 1000 }, (_, i) => originOf(i * 4_294_967));
    const words = JSON.stringify([names, cities, streets, createCompanies(hashKey(1))]);
    expect(words.replaceAll(/\\"/g, "")).not.toMatch(/\\/);
  });

  it("give every name letters for an e-mail address", () => {
    for (let index = 0; index < 20_000; index++) {
      expect(people.families.firstNameOf(index).slug).toMatch(/^[a-z]+$/);
      expect(people.families.lastNameOf(index).slug).toMatch(/^[a-z]+$/);
    }
  });
});
