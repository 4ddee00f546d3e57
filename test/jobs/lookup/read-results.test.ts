import { expect, test } from "vitest";
import { type LookupJobConfig, lookupOf } from "../../../src/jobs/lookup/lookup-types.ts";
import { DriftLog } from "../../../src/schemas/convert.ts";
import type { JsonObject } from "../../../src/schemas/flatten.ts";
import { personLists, personScalars } from "../../../src/schemas/person.ts";
import { enrichJob, resolveJob, validateJob } from "../support.ts";

const objectOf = (text: string): object => JSON.parse(text);

/** Reads one result; `_extra` as an object, and a person by field, without those absent from the answer. */
function read(job: LookupJobConfig, result: JsonObject) {
  const bound = lookupOf(job);
  const drift = new DriftLog(bound.endpoint.name);
  const { person, extra, ...part } = bound.read({ record_id: "7", ...result }, drift);
  const fields = [
    ...personScalars.map((name, i) => [name, person?.scalars[i]] as const),
    ...Object.keys(personLists).map((name, i) => [name, person?.lists[i]?.rows] as const),
  ];
  return {
    ...part,
    extra: extra === null ? null : objectOf(extra),
    person: person && {
      ...Object.fromEntries(fields.filter(([, value]) => value !== undefined)),
      extra: typeof person.extra === "string" ? objectOf(person.extra) : person.extra,
    },
    drift: drift.entries().map(({ path, kind }) => `${path} ${kind}`),
  };
}

const some = { ...enrichJob, returnFields: ["age", "phones"] };
const match = { is_match: true, service_pid: "p-1" };
const none = { is_match: false, service_pid: null };
/** Fields that came empty. */
const empty = { first_name: null, age: null, phones: [], relatives: [], work_experience: null };
const phones = [{ phone_rank: 1, phone_type: "mobile", phone_number: "+1 555" }];

test.each<readonly [string, LookupJobConfig, JsonObject, Readonly<Record<string, unknown>>]>([
  [
    "resolve keeps the columns of a match, and nothing of the record_id",
    resolveJob,
    { ...match, match_score: 87.5, is_resolvable_record: true, validation_errors: null },
    {
      outcome: "matched",
      servicePid: "p-1",
      cells: ["true", "p-1", "87.5", "true", null],
      extra: null,
      person: null,
      drift: [],
    },
  ],
  [
    "resolve keeps a non-match, with the service's reason",
    resolveJob,
    { ...none, is_resolvable_record: false, validation_errors: { emails: ["no address"] } },
    { outcome: "unmatched", cells: ["false", null, null, "false", '{"emails":["no address"]}'] },
  ],
  [
    "resolve keeps unknown fields and unexpected types in _extra, and reports them",
    resolveJob,
    { ...match, match_score: ["high"], tier: "gold" },
    {
      cells: ["true", "p-1", null, null, null],
      extra: { match_score: ["high"], tier: "gold" },
      drift: ["match_score unexpected_type", "tier unknown_field"],
    },
  ],
  [
    "validate_emails keeps the status, and nothing of the address as the service writes it",
    validateJob,
    {
      email_address: "OTHER@example.com",
      is_match: true,
      email_validation_status: "valid",
      email_last_seen: "2025-01-02T03:04:05.678901",
    },
    { outcome: "matched", cells: ["true", "valid", "2025-01-02T03:04:05.678901"], servicePid: null },
  ],
  [
    "validate_emails takes a status for a match if the service doesn't state one",
    validateJob,
    { is_match: null, email_validation_status: "unknown" },
    { outcome: "matched" },
  ],
  [
    "validate_emails without a status is no match, and never keeps the address, whatever its type",
    validateJob,
    { is_match: null, email_validation_status: null, record_id: undefined, email_address: 5 },
    { outcome: "unmatched", extra: null },
  ],
  [
    "enrich divides a match into the answer and the person, each with its own _extra",
    enrichJob,
    { ...match, match_score: "high", first_name: "Ada", age: "old", shoe_size: 38, phones },
    {
      outcome: "matched",
      cells: ["true", "p-1", null, null],
      extra: { match_score: "high" },
      person: {
        first_name: "Ada",
        age: null,
        phones: [["p-1", "0", "1", "mobile", "+1 555", null]],
        extra: { age: "old", shoe_size: 38 },
      },
    },
  ],
  [
    "enrich leaves a person's absent field alone, and empties one that is null",
    enrichJob,
    { ...match, gender: null, relatives: null },
    { person: { gender: null, relatives: [], extra: null } },
  ],
  [
    "enrich keeps the fields of an unmatched record with the answer, and no person",
    enrichJob,
    { ...none, first_name: "Ada", last_name: null, age: "old", phones, relatives: [], shoe_size: 38 },
    { person: null, extra: { first_name: "Ada", age: "old", phones, shoe_size: 38 } },
  ],
  [
    "columns that weren't requested and came empty are left alone",
    some,
    { ...match, ...empty },
    { person: { age: null, phones: [], extra: undefined } },
  ],
  [
    "the bounds of a range that came unrequested are kept with it",
    some,
    { ...match, ...empty, estimated_income_range: "$25,000-$49,999" },
    {
      person: {
        age: null,
        phones: [],
        estimated_income_range: "$25,000-$49,999",
        estimated_income_min: "25000",
        estimated_income_max: "49999",
      },
    },
  ],
  [
    "a range without bounds empties them",
    some,
    { ...match, ...empty, estimated_income_range: "Unknown" },
    {
      person: {
        age: null,
        phones: [],
        estimated_income_range: "Unknown",
        estimated_income_min: null,
        estimated_income_max: null,
      },
    },
  ],
  [
    "fields that came unrequested aren't discarded",
    some,
    { ...match, ...empty, first_name: "Ada", relatives: [{ relative_first_name: "Byron" }], shoe_size: 38 },
    {
      person: {
        first_name: "Ada",
        age: null,
        phones: [],
        relatives: [["p-1", "0", null, "Byron", null, null, null, null]],
        extra: { shoe_size: 38 },
      },
    },
  ],
])("%s", (_title, job, result, expected) => {
  const { person, ...answer } = read(job, result);
  const { person: wanted, ...others } = expected;
  expect(answer).toMatchObject(others);
  expect(wanted === undefined ? undefined : person).toEqual(wanted);
});

const matchOf = (result: JsonObject) => {
  const { outcome, servicePid } = read(resolveJob, result);
  return [outcome, servicePid];
};

test("a match is what the service calls one, or has a PID if it doesn't, and is rejected without a usable PID", () => {
  const [matched, unmatched, unusable] = [
    ["matched", "p-1"],
    ["unmatched", null],
    ["no_pid", null],
  ];
  for (const is_match of [true, "Y", {}, undefined])
    expect(matchOf({ is_match, service_pid: "p-1" })).toEqual(matched);
  for (const is_match of [false, 0]) expect(matchOf({ is_match, service_pid: "p-1" })).toEqual(unmatched);
  expect(matchOf({ is_match: null, service_pid: " " })).toEqual(unmatched);
  expect(matchOf({})).toEqual(unmatched);
  for (const service_pid of [null, "", " ", 17, undefined]) {
    expect(matchOf({ is_match: true, service_pid })).toEqual(unusable);
    expect(matchOf({ is_match: 1, service_pid })).toEqual(unusable);
    expect(read(enrichJob, { is_match: true, service_pid })).toMatchObject({
      outcome: "no_pid",
      person: null,
    });
  }
});

test("a field called __proto__ is kept like any other", () => {
  const result: JsonObject = JSON.parse('{"is_match":false,"service_pid":null,"__proto__":{"a":1}}');
  const answer = lookupOf(enrichJob).read(result, new DriftLog("POST /v2/enrich"));
  expect(answer.extra).toBe('{"__proto__":{"a":1}}');
});
