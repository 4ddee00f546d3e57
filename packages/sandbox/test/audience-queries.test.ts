import { describe, expect, it } from "vitest";
import { createPeople } from "../src/population/people.ts";
import { dayOf } from "../src/population/calendar.ts";
import { createLexicon } from "../src/search/criteria.ts";
import { parseQuery } from "../src/search/parse-query.ts";
import { call, enrich, sandboxFor } from "./support.ts";

const people = createPeople(1, 1000);
const lexicon = createLexicon(people.careers.companies);
const today = dayOf(Date.now());

/** Indexes of the people that a query finds. */
function found(query: string): readonly number[] {
  const { isMet, unknown } = parseQuery(query, lexicon);
  expect([query, unknown]).toEqual([query, []]);
  const indexes = Array.from({ length: people.count }, (_, index) => index);
  return indexes.filter((index) => isMet?.({ people, index, day: today }) ?? false);
}

describe("the structure of a query", () => {
  it.each([
    ["nurses in Ohio or Texas", "nurses in Texas and Ohio"],
    ["nurses in Ohio, Texas, Florida and California", "nurses in OH or TX or FL or CA"],
    ["nurses and teachers in New York", "teachers in NY or nurses"],
    ["women, not in Ohio, without a phone or email", "women, without email, not in Ohio, without a phone"],
    ["over 30 and under 50", "aged 31 to 49"],
    ["aged 25-34 or 35 to 44", "over 24 and at most 44"],
    ["not nurses or teachers", "without teachers and not nurses"],
    ["men over 50", "over 50 and men"],
  ])("%s", (query, same) => {
    expect(found(query).length).toBeGreaterThan(0);
    expect(found(query)).toEqual(found(same));
  });

  it("leaves out what is no criterion", () => {
    expect(parseQuery("left-handed nurses in Ohio who juggle", lexicon)).toMatchObject({
      unknown: ["left-handed", "juggle"],
      understood: "nurses in Ohio",
    });
    const nothing = { isMet: null, understood: null };
    expect(parseQuery("people who juggle with knives", lexicon)).toEqual({
      ...nothing,
      unknown: ["juggle", "knives"],
    });
    expect(parseQuery("", lexicon)).toEqual({ ...nothing, unknown: [] });
  });
});

/** Fields of an enriched person that the tests read. */
interface Enriched {
  readonly service_pid: string;
  readonly age: number | null;
  readonly gender: string | null;
  readonly estimated_income_range: string | null;
  readonly home_ownership_status: string | null;
  readonly linkedin_url: string | null;
  readonly personal_emails: readonly object[];
  readonly professional_emails: readonly object[];
  readonly phones: readonly { readonly phone_type: string | null }[];
  readonly address_history: readonly { readonly address_state: string }[];
  readonly work_experience: readonly {
    readonly standard_work_title: string | null;
    readonly work_status: string;
    readonly work_company_name: string;
  }[];
  readonly education_experience: readonly { readonly education_level: string | null }[];
}

const stateOf = (person: Enriched) => person.address_history[0]?.address_state;
const jobOf = (person: Enriched) =>
  person.work_experience.find(({ work_status: status }) => status === "current");
const titleOf = (person: Enriched) => jobOf(person)?.standard_work_title ?? "";

describe("an audience", () => {
  it("holds exactly the people for whom enrich returns what the query asks for", async () => {
    const sandbox = await sandboxFor({ people: 1000 });
    const everybody: Enriched[] = [];
    for (const start of [0, 500]) {
      const records = Array.from({ length: 500 }, (_, i) => ({
        record_id: String(start + i),
        service_pid: people.pidOf(start + i, today),
      }));
      // The test's own view of the results.
      everybody.push(...((await enrich(sandbox, records)) as unknown as readonly Enriched[]));
    }
    const employer = everybody.map((person) => jobOf(person)?.work_company_name).find(Boolean) ?? "";
    const cases: readonly (readonly [string, (person: Enriched) => boolean])[] = [
      ["nurses", (person) => titleOf(person).endsWith("nurse")],
      ["teachers in California", (p) => titleOf(p).endsWith("teacher") && stateOf(p) === "CA"],
      ["women over 50", (p) => p.gender === "Female" && p.age !== null && p.age > 50],
      ["aged 35 to 54", (p) => p.age !== null && p.age >= 35 && p.age <= 54],
      ["not in Texas, without a phone", (p) => stateOf(p) !== "TX" && p.phones.length === 0],
      ["income at least $150,000", (p) => /^\$150|^\$250/.test(p.estimated_income_range ?? "")],
      ["income under $50k", (p) => /^<|^\$25,/.test(p.estimated_income_range ?? "")],
      [
        "homeowners with a personal email, a work email and linkedin",
        (p) =>
          p.home_ownership_status === "Owned" &&
          p.personal_emails.length > 0 &&
          p.professional_emails.length > 0 &&
          p.linkedin_url !== null,
      ],
      [
        "with a mobile phone in NY or FL",
        (p) =>
          p.phones.some((phone) => phone.phone_type === "mobile") && ["NY", "FL"].includes(stateOf(p) ?? ""),
      ],
      [
        "with a master's degree but without a doctorate",
        (p) => {
          const levels = p.education_experience.map(({ education_level: level }) => level);
          return levels.includes("masters") && !levels.includes("doctorate");
        },
      ],
      [`at ${employer}`, (p) => jobOf(p)?.work_company_name === employer],
    ];
    for (const [query, isWanted] of cases) {
      const { body } = await call(sandbox, "/person-search/v0/search", { query, size: 100 });
      const wanted = everybody.filter(isWanted);
      expect([query, body["total_count"]]).toEqual([query, wanted.length]);
      expect(wanted.length).toBeGreaterThan(0);
      const pids = new Set(wanted.map((person) => person.service_pid));
      // PIDs, by the interface.
      const results: readonly unknown[] = body.results;
      expect(results.length).toBe(Math.min(100, wanted.length));
      for (const pid of results) expect(pids).toContain(pid);
    }
  });
});
