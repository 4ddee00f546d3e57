import { describe, expect, test } from "vitest";
import { type LookupJobConfig, lookupOf } from "../../../src/jobs/lookup/lookup-types.ts";
import { DriftLog } from "../../../src/schemas/convert.ts";
import type { JsonObject } from "../../../src/schemas/flatten.ts";
import { personLists, personScalars } from "../../../src/schemas/person.ts";
import { enrichJob, resolveJob, validateJob } from "../support.ts";
import type { PersonUpdate } from "../../../src/load/lookups/person-groups.ts";

/** Reads one result. */
function read(job: LookupJobConfig, result: JsonObject) {
  const bound = lookupOf(job);
  const drift = new DriftLog(bound.endpoint.name);
  const part = bound.read({ record_id: "7", ...result }, drift);
  return { ...part, drift: drift.entries() };
}

/** Scalars and lists of a person by name, without those absent from the answer. */
function contentOf(person: PersonUpdate | null) {
  const scalars = personScalars.map((name, i) => [name, person?.scalars[i]] as const);
  const lists = Object.keys(personLists).map((name, i) => [name, person?.lists[i]?.rows] as const);
  return Object.fromEntries([...scalars, ...lists].filter(([, value]) => value !== undefined));
}

describe("resolve", () => {
  test("keeps the answer columns of a match, and nothing of the record_id", () => {
    const answer = read(resolveJob, {
      is_match: true,
      service_pid: "p-1",
      match_score: 87.5,
      is_resolvable_record: true,
      validation_errors: null,
    });
    expect(answer).toMatchObject({
      outcome: "matched",
      servicePid: "p-1",
      cells: ["true", "p-1", "87.5", "true", null],
      extra: null,
      person: null,
      drift: [],
    });
  });
  test("keeps a non-match, with the service's reason", () => {
    const errors = { emails: ["not an address"] };
    const answer = read(resolveJob, {
      is_match: false,
      service_pid: null,
      match_score: null,
      is_resolvable_record: false,
      validation_errors: errors,
    });
    expect(answer).toMatchObject({
      outcome: "unmatched",
      servicePid: null,
      cells: ["false", null, null, "false", JSON.stringify(errors)],
    });
  });
  test("keeps unknown fields and unexpected types in _extra, and reports them", () => {
    const answer = read(resolveJob, {
      is_match: true,
      service_pid: "p-1",
      match_score: ["high"],
      tier: "gold",
    });
    expect(answer.cells).toEqual(["true", "p-1", null, null, null]);
    expect(JSON.parse(answer.extra ?? "")).toEqual({ match_score: ["high"], tier: "gold" });
    expect(answer.drift.map(({ path, kind }) => [path, kind])).toEqual([
      ["match_score", "unexpected_type"],
      ["tier", "unknown_field"],
    ]);
  });
});

/** Outcome and PID of a result. */
function matchOf(result: JsonObject) {
  const { outcome, servicePid } = read(resolveJob, result);
  return [outcome, servicePid];
}

describe("a match", () => {
  test("is what the service calls one", () => {
    expect(matchOf({ is_match: true, service_pid: "p-1" })).toEqual(["matched", "p-1"]);
    expect(matchOf({ is_match: false, service_pid: "p-1" })).toEqual(["unmatched", null]);
    expect(matchOf({ is_match: "Y", service_pid: "p-1" })).toEqual(["matched", "p-1"]);
    expect(matchOf({ is_match: 0, service_pid: "p-1" })).toEqual(["unmatched", null]);
  });
  test("is recognized by the PID if the service doesn't state it", () => {
    expect(matchOf({ is_match: {}, service_pid: "p-1" })).toEqual(["matched", "p-1"]);
    expect(matchOf({ service_pid: "p-1" })).toEqual(["matched", "p-1"]);
    expect(matchOf({ is_match: null, service_pid: " " })).toEqual(["unmatched", null]);
    expect(matchOf({})).toEqual(["unmatched", null]);
  });
  test("without a usable PID is none, and rejects its record", () => {
    for (const service_pid of [null, "", " ", 17, undefined]) {
      expect(matchOf({ is_match: true, service_pid })).toEqual(["no_pid", null]);
      expect(matchOf({ is_match: 1, service_pid })).toEqual(["no_pid", null]);
      const { outcome, servicePid, person } = read(enrichJob, { is_match: true, service_pid });
      expect([outcome, servicePid, person]).toEqual(["no_pid", null, null]);
    }
  });
});

describe("validate_emails", () => {
  test("keeps the status, and nothing of the address as the service writes it", () => {
    const answer = read(validateJob, {
      email_address: "OTHER@example.com",
      is_match: true,
      email_validation_status: "valid",
      email_last_seen: "2025-01-02T03:04:05.678901",
    });
    expect(answer).toMatchObject({
      outcome: "matched",
      cells: ["true", "valid", "2025-01-02T03:04:05.678901"],
      servicePid: null,
      person: null,
    });
  });
  test("takes a status for a match if the service doesn't state one", () => {
    expect(read(validateJob, { is_match: null, email_validation_status: "unknown" }).outcome).toBe("matched");
    expect(read(validateJob, { is_match: null, email_validation_status: null }).outcome).toBe("unmatched");
  });
  test("never keeps the address in _extra, whatever its type", () => {
    expect(read(validateJob, { record_id: undefined, email_address: 5, is_match: false }).extra).toBe(null);
  });
});

describe("enrich", () => {
  test("parts a match into the answer and the person, each with its own _extra", () => {
    const answer = read(enrichJob, {
      is_match: true,
      service_pid: "p-1",
      match_score: "high",
      validation_errors: null,
      first_name: "Ada",
      age: "old",
      shoe_size: 38,
      phones: [{ phone_rank: 1, phone_type: "mobile", phone_number: "+1 555" }],
    });
    expect(answer).toMatchObject({
      outcome: "matched",
      servicePid: "p-1",
      cells: ["true", "p-1", null, null],
    });
    expect(JSON.parse(answer.extra ?? "")).toEqual({ match_score: "high" });
    expect(answer.person?.servicePid).toBe("p-1");
    expect(JSON.parse(answer.person?.extra ?? "")).toEqual({ age: "old", shoe_size: 38 });
    expect(contentOf(answer.person)).toEqual({
      first_name: "Ada",
      age: null,
      phones: [["p-1", "0", "1", "mobile", "+1 555", null]],
    });
  });
  test("leaves a person's absent field alone, and empties one that is null", () => {
    const { person } = read(enrichJob, { is_match: true, service_pid: "p-1", gender: null, relatives: null });
    expect(contentOf(person)).toEqual({ gender: null, relatives: [] });
    expect(person?.extra).toBe(null);
  });
  test("keeps what an unmatched record brought with the answer, and no person", () => {
    const answer = read(enrichJob, {
      is_match: false,
      service_pid: null,
      first_name: "Ada",
      last_name: null,
      age: "old",
      phones: [{ phone_number: "+1 555" }],
      relatives: [],
      shoe_size: 38,
    });
    expect(answer.person).toBe(null);
    expect(JSON.parse(answer.extra ?? "")).toEqual({
      first_name: "Ada",
      age: "old",
      phones: [{ phone_number: "+1 555" }],
      shoe_size: 38,
    });
  });
});

describe("return_fields", () => {
  const some = { ...enrichJob, returnFields: ["age", "phones"] };
  const empty = {
    is_match: true,
    service_pid: "p-1",
    first_name: null,
    age: null,
    phones: [],
    relatives: [],
    work_experience: null,
  };
  test("leave columns alone that weren't requested and came empty", () => {
    const { person } = read(some, empty);
    expect(contentOf(person)).toEqual({ age: null, phones: [] });
    expect(person?.extra).toBe(undefined);
  });
  test("leave the bounds of a range alone exactly if they leave the range alone", () => {
    const [none, range, other] = [null, "$25,000-$49,999", "Unknown"].map((text) =>
      contentOf(read(some, { ...empty, estimated_income_range: text }).person),
    );
    expect(none).toEqual({ age: null, phones: [] });
    expect(range).toMatchObject({
      estimated_income_range: "$25,000-$49,999",
      estimated_income_min: "25000",
      estimated_income_max: "49999",
    });
    expect(other).toMatchObject({
      estimated_income_range: "Unknown",
      estimated_income_min: null,
      estimated_income_max: null,
    });
  });
  test("don't discard fields that came unrequested", () => {
    const { person } = read(some, {
      ...empty,
      first_name: "Ada",
      relatives: [{ relative_first_name: "Byron" }],
      shoe_size: 38,
    });
    expect(contentOf(person)).toEqual({
      first_name: "Ada",
      age: null,
      phones: [],
      relatives: [["p-1", "0", null, "Byron", null, null, null, null]],
    });
    expect(person?.extra).toBe('{"shoe_size":38}');
  });
  test("are left out of the request when the list is empty, like every other parameter", () => {
    expect(lookupOf(enrichJob).requestParameters).toEqual({});
    const all = { ...some, matchConditionFields: ["phone"], includePremiumFields: true };
    expect(lookupOf(all).requestParameters).toEqual({
      match_condition_fields: ["phone"],
      return_fields: ["age", "phones"],
      include_premium_fields: true,
    });
  });
});

describe("of every answer", () => {
  test("a field called __proto__ is kept like any other", () => {
    const result: JsonObject = JSON.parse('{"is_match":false,"service_pid":null,"__proto__":{"a":1}}');
    expect(read(enrichJob, result).extra).toBe('{"__proto__":{"a":1}}');
  });
});
