import { describe, expect, it } from "vitest";
import { call, enrich, people, recordsOf, sandboxFor, today } from "./support.ts";

/** A person with an e-mail address, a phone and a profile. */
const KNOWN = Array.from({ length: 1000 }, (_, i) => i).find(
  (i) =>
    people.contacts.personalEmails(i).length > 1 &&
    people.contacts.phones(i).length > 0 &&
    people.contacts.linkedinUrl(i) !== null,
);
if (KNOWN === undefined) throw new Error("The population has such people.");
const name = people.nameOf(KNOWN);
const [email = ""] = people.contacts.personalEmails(KNOWN);
const phone = people.contacts.phones(KNOWN)[0]?.number ?? "";
const pid = people.pidOf(KNOWN, today);
/** Writes the kind of a street in full. */
const inFull = (line: string) =>
  line.replace(
    /(St|Ave|Rd|Ln)$/,
    (kind) => ({ St: "Street", Ave: "Avenue", Rd: "Road", Ln: "Lane" })[kind] ?? kind,
  );
const named = { first_name: name.first, last_name: name.last };

const mobile = (result: { readonly [member: string]: unknown }) =>
  JSON.stringify(result["phones"]).includes('"mobile"');

describe("POST /v1/resolve", () => {
  it("finds a named person by e-mail address or phone, with additive points of at least 50", async () => {
    const records = [
      { record_id: "both", ...named, emails: [email], phones: [phone] },
      { record_id: "email", ...named, emails: ["nobody@elsewhere.example", email] },
      { record_id: "phone", full_name: name.full, phones: [phone] },
      { ...named, record_id: "case", first_name: name.first.toUpperCase(), emails: [email.toUpperCase()] },
      { ...named, record_id: "initial", first_name: `${name.first.slice(0, 1)}.`, emails: [email] },
    ];
    const { body } = await call(await sandboxFor(), "/v1/resolve", { records });
    expect(body.results.map((result) => [result.record_id, result.is_match, result.service_pid])).toEqual(
      records.map((record) => [record.record_id, true, pid]),
    );
    const scores = body.results.map((result) => result.match_score ?? 0);
    for (const score of scores) {
      expect(score).toBeGreaterThanOrEqual(50);
      expect(Math.round(score * 100) / 100).toBe(score);
    }
    expect(scores[0]).toBeGreaterThan(scores[1] ?? 0);
    expect(scores[1]).toBeGreaterThan(scores[4] ?? 0);
  });

  it("answers unusable records one by one, without a match", async () => {
    const records = [
      { record_id: "1", emails: [email] },
      { record_id: "2", ...named },
      { record_id: "3", first_name: "Only", phones: [" "] },
      { record_id: "4", ...named, emails: [email] },
    ];
    const { status, body } = await call(await sandboxFor(), "/v1/resolve", { records });
    expect(status).toBe(200);
    expect(body.results.map((result) => [result["is_resolvable_record"], result.is_match])).toEqual([
      [false, false],
      [false, false],
      [false, false],
      [true, true],
    ]);
    expect(body.results[2]).toEqual({
      record_id: "3",
      is_match: false,
      service_pid: null,
      match_score: null,
      is_resolvable_record: false,
      validation_errors: {
        name: ["first_name and last_name, or full_name, required"],
        contact: ["at least one entry in emails or phones required"],
      },
    });
  });
});

describe("POST /v2/validate_emails", () => {
  it("answers in order, repeats the address as sent and matches its sanitized form", async () => {
    const records = [
      "nobody@elsewhere.example",
      email,
      ` ${email.toUpperCase()} `,
      email.replace("@", "+x@"),
      "",
      email,
    ];
    const { body } = await call(await sandboxFor(), "/v2/validate_emails", { records });
    expect(body.results.map((result) => result["email_address"])).toEqual(records);
    expect(body.results.map((result) => result.is_match)).toEqual([false, true, true, true, false, true]);
    expect(body.results[0]).toEqual({
      email_address: "nobody@elsewhere.example",
      is_match: false,
      email_validation_status: null,
      email_last_seen: null,
    });
    expect(body.results[2]).toEqual({ ...body.results[1], email_address: records[2] });
  });
});

describe("POST /v2/enrich", () => {
  it("finds a person by each usable combination of identifiers", async () => {
    const household = people.families.householdOf(KNOWN);
    const { line1, city, state, zip } = people.addresses.written(household, 0);
    const records = [
      { record_id: "pid", service_pid: pid },
      { record_id: "profile", linkedin_url: people.contacts.linkedinUrl(KNOWN) },
      { record_id: "email", emails: [email] },
      { record_id: "phone", phones: [phone] },
      { record_id: "name and email", ...named, emails: [email] },
      { record_id: "name and address", ...named, address_line_1: line1, city, state, zipcode: zip },
      {
        record_id: "name and full address",
        full_name: name.full,
        full_address: `${line1}, ${city}, ${state} ${zip}`,
      },
      { record_id: "street in full", ...named, address_line_1: inFull(line1), city, state, zipcode: zip },
    ];
    const results = await enrich(await sandboxFor(), records);
    expect(results.map((result) => [result.record_id, result.service_pid])).toEqual(
      records.map((record) => [record.record_id, pid]),
    );
    expect(new Set(results.map((result) => result["full_name"]))).toEqual(new Set([name.full]));
  });

  it("answers unmatched and unusable records with every field null and every list empty", async () => {
    const [unmatched, unusable] = await enrich(await sandboxFor(), [
      { record_id: "1", emails: ["nobody@elsewhere.example"] },
      { record_id: "2", ...named, emails: null, city: "Chicago" },
    ]);
    expect(unmatched).toMatchObject({
      record_id: "1",
      is_match: false,
      service_pid: null,
      match_score: null,
      validation_errors: null,
      full_name: null,
      age: null,
      phones: [],
      education_experience: [],
    });
    expect(unusable?.validation_errors).toEqual({
      record: ["one of service_pid, linkedin_url, emails, phones, or a name with an address required"],
    });
  });

  it("returns only the fields asked for, and for premium an undocumented one", async () => {
    const sandbox = await sandboxFor();
    const [some] = await enrich(sandbox, [{ record_id: "1", service_pid: pid }], {
      return_fields: ["phones", "full_name"],
    });
    const envelope = ["record_id", "is_match", "service_pid", "match_score", "validation_errors"];
    expect(Object.keys(some ?? {})).toEqual([...envelope, "full_name", "phones"]);
    const [all] = await enrich(sandbox, [{ record_id: "1", service_pid: pid }], { return_fields: [] });
    expect(Object.keys(all ?? {}).length).toBe(5 + 32);
    const [premium] = await enrich(sandbox, [{ service_pid: pid }], { include_premium_fields: true });
    expect(premium).toMatchObject({ record_id: null, net_worth_percentile: expect.any(Number) });
  });

  it("matches only people that meet every condition", async () => {
    const sandbox = await sandboxFor();
    const records = recordsOf(300);
    const all = await enrich(sandbox, records);
    const expected = all
      .filter((result) => result["gender"] !== null && mobile(result))
      .map((result) => result.record_id);
    const conditions = { match_condition_fields: ["gender", "mobile_phone"] };
    const matched = (await enrich(sandbox, records, conditions)).filter((result) => result.is_match);
    expect(matched.map((result) => result.record_id)).toEqual(expected);
    expect(expected.length).toBeGreaterThan(100);
    expect(expected.length).toBeLessThan(290);
  });
});
