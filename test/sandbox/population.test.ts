import { describe, expect, it } from "vitest";
import { BASE_DAY } from "../../src/sandbox/population/calendar.ts";
import { createPeople } from "../../src/sandbox/population/people.ts";
import { chooseFields, personFieldNames } from "../../src/sandbox/population/person-fields.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { personFields, personLists } from "../../src/schemas/person.ts";
import { zodOf } from "../../src/schemas/attempt.ts";
import * as fc from "../support/fast-check.ts";

const TODAY = BASE_DAY + 300;
const everyField = chooseFields(null);
const people = createPeople(7, 1_000_000);
const personText = (index: number, day = TODAY, population = people) =>
  `{${everyField.text(population, index, day).slice(1)}}`;
const anyIndex = fc.integer({ min: 0, max: people.count - 1 });
const anyDay = fc.integer({ min: BASE_DAY - 100, max: BASE_DAY + 3000 });

describe("a person", () => {
  it("is a pure function of seed, index and day", () => {
    const again = createPeople(7, 1_000_000);
    fc.assert(
      fc.property(anyIndex, anyDay, (index, day) => {
        expect(personText(index, day)).toBe(personText(index, day, again));
      }),
    );
  });

  it("differs under another seed", () => {
    const other = createPeople(8, 1_000_000);
    const emailsOf = (population: typeof people) =>
      new Set(Array.from({ length: 2000 }, (_, i) => population.contacts.personalEmails(i)).flat());
    const mine = emailsOf(people);
    expect([...emailsOf(other)].filter((email) => mine.has(email))).toEqual([]);
  });

  it("has every documented field and no other, each of its documented type", () => {
    const result = zodOf(enrichEndpoint.result);
    const envelope = {
      record_id: "1",
      is_match: true,
      service_pid: "p-1",
      match_score: 99.5,
      validation_errors: null,
    };
    expect(personFieldNames).toEqual([...Object.keys(personFields), ...Object.keys(personLists)]);
    fc.assert(
      fc.property(anyIndex, anyDay, (index, day) => {
        const person = JSON.parse(personText(index, day));
        expect(result.safeParse({ ...envelope, ...person }).error).toBeUndefined();
        expect(Object.keys(person)).toEqual(personFieldNames);
        for (const [name, list] of Object.entries(personLists)) {
          for (const element of person[name]) {
            expect(new Set(Object.keys(element))).toEqual(new Set(Object.keys(list.fields)));
          }
        }
      }),
      { numRuns: 1000 },
    );
  });

  it("takes about 7 KB and 20 child rows on average, and now and then has none of a kind", () => {
    const count = 5000;
    let bytes = 0;
    let children = 0;
    const empty: Record<string, number> = {};
    for (let i = 0; i < count; i++) {
      const text = personText(i * 131);
      bytes += Buffer.byteLength(text);
      for (const [name, value] of Object.entries(JSON.parse(text))) {
        if (!Array.isArray(value)) continue;
        children += value.length;
        if (value.length === 0) empty[name] = (empty[name] ?? 0) + 1;
      }
    }
    expect(bytes / count).toBeGreaterThan(6300);
    expect(bytes / count).toBeLessThan(7600);
    expect(children / count).toBeGreaterThan(16);
    expect(children / count).toBeLessThan(24);
    expect(Object.keys(empty).toSorted()).toEqual(Object.keys(personLists).toSorted());
  });

  it("leaves every scalar field null for some and filled for others", () => {
    const seen = new Map<string, Set<boolean>>();
    const note = (name: string, value: unknown) =>
      seen.set(name, (seen.get(name) ?? new Set()).add(value === null));
    for (let i = 0; i < 3000; i++) {
      for (const [name, value] of Object.entries<unknown>(JSON.parse(personText(i * 97)))) {
        if (!Array.isArray(value)) note(name, value);
        else
          for (const element of value)
            for (const [key, inner] of Object.entries(element)) note(`${name}.${key}`, inner);
      }
    }
    const neverNull = [...seen].filter(([, nulls]) => !nulls.has(true)).map(([name]) => name);
    const alwaysNull = [...seen].filter(([, nulls]) => !nulls.has(false)).map(([name]) => name);
    expect(alwaysNull).toEqual([]);
    expect(neverNull).not.toContain("dob");
    expect(neverNull).toContain("full_name");
  });

  it("shows what readers trip over: decimals, large integers, equal ranks, many scripts, combining marks, emoji", () => {
    const texts = Array.from({ length: 20_000 }, (_, i) => personText(i * 49));
    const some = (pattern: RegExp) => texts.some((text) => pattern.test(text));
    expect(some(/"purchase_price":[2-9]\d{9}/)).toBe(true);
    expect(some(/"num_baths":2\.5/)).toBe(true);
    expect(some(/"address_rank":1,[^{}]*\},\{"address_rank":1,/)).toBe(true);
    expect(some(/"email_rank":1,[^{}]*\},\{"email_rank":1,/)).toBe(true);
    expect(some(/\p{Script=Han}/u)).toBe(true);
    expect(some(/\p{Script=Cyrillic}/u)).toBe(true);
    expect(some(/\p{Script=Arabic}/u)).toBe(true);
    expect(some(/\p{Script=Hangul}/u)).toBe(true);
    expect(some(/\u0301/)).toBe(true);
    expect(some(/O'Brien|O’Sullivan/)).toBe(true);
    expect(some(/🚀/u)).toBe(true);
    expect(some(/𠮷/u)).toBe(true);
    expect(some(/\\n/)).toBe(true);
  });
});

describe("a family", () => {
  it("has spouses that point at each other and share a household, on any day", () => {
    fc.assert(
      fc.property(anyIndex, anyDay, (index, day) => {
        const { families } = people;
        const spouse = families.spouseOf(index);
        if (spouse === null) return;
        expect(families.spouseOf(spouse)).toBe(index);
        expect(families.householdOf(spouse)).toBe(families.householdOf(index));
        expect(JSON.parse(personText(index, day)).service_spouse_pid).toBe(people.pidOf(spouse, day));
        expect(JSON.parse(personText(spouse, day)).service_spouse_pid).toBe(people.pidOf(index, day));
      }),
    );
  });

  it("names relatives as they name themselves, children younger than their parents", () => {
    const { families } = people;
    for (let index = 0; index < 800; index++) {
      const relatives = families.relativesOf(index);
      const daysYounger = (label: string, sign: 1 | -1) =>
        relatives
          .filter((relative) => relative.label === label)
          .map((relative) => sign * (families.birthDayOf(relative.index) - families.birthDayOf(index)));
      const gaps = [...daysYounger("child", 1), ...daysYounger("parent", -1)];
      expect(gaps.every((days) => days > 15 * 365)).toBe(true);
    }
    const person = JSON.parse(personText(12));
    for (const relative of person.relatives) {
      const found = people.findByPid(relative.relative_service_pid, TODAY);
      expect(found).not.toBeNull();
      expect(people.nameOf(found ?? 0).first).toBe(relative.relative_first_name);
      expect(people.nameOf(found ?? 0).last).toBe(relative.relative_last_name);
    }
  });

  it("ends at the population's end", () => {
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
});

const share = (differs: (index: number) => boolean) => {
  const indexes = Array.from({ length: 4000 }, (_, i) => i * 233);
  return indexes.filter(differs).length / indexes.length;
};

describe("time", () => {
  it("changes a few people in a month", () => {
    const changed = share((index) => personText(index, TODAY) !== personText(index, TODAY + 30));
    // Except birthdays: moves and new jobs of the person or the household, and PIDs of relatives.
    expect(changed).toBeGreaterThan(0.02);
    expect(changed).toBeLessThan(0.2);
  });

  it("brings new jobs, addresses and another validity of e-mail addresses", () => {
    const { careers, addresses, contacts, families } = people;
    const job = share((i) => careers.jobCount(i, TODAY) !== careers.jobCount(i, TODAY + 30));
    const home = (i: number, day: number) => addresses.staysOf(families.householdOf(i), day)[0]?.slot;
    const moved = share((i) => home(i, TODAY) !== home(i, TODAY + 30));
    const status = (i: number, day: number) => contacts.validityOf({ index: i, slot: 0 }, day).lastSeenMs;
    const validity = share((i) => status(i, TODAY) !== status(i, TODAY + 30));
    for (const rate of [job, moved, validity]) {
      expect(rate).toBeGreaterThan(0.002);
      expect(rate).toBeLessThan(0.05);
    }
  });

  it("is repeatable: going back shows the same person again", () => {
    const before = personText(4242, TODAY);
    personText(4242, TODAY + 5000);
    expect(personText(4242, TODAY)).toBe(before);
  });

  it("gives a few people another PID, and the old one still leads to them", () => {
    const merged = Array.from({ length: 20_000 }, (_, i) => i).filter(
      (i) => people.pidOf(i, BASE_DAY) !== people.pidOf(i, BASE_DAY + 1500),
    );
    expect(merged.length).toBeGreaterThan(50);
    expect(merged.length).toBeLessThan(200);
    const [index = 0] = merged;
    const [oldPid, newPid] = [people.pidOf(index, BASE_DAY), people.pidOf(index, BASE_DAY + 1500)];
    expect(people.findByPid(oldPid, BASE_DAY + 1500)).toBe(index);
    expect(people.findByPid(newPid, BASE_DAY + 1500)).toBe(index);
    expect(people.findByPid(newPid, BASE_DAY)).toBeNull();
  });
});
