import { describe, expect, test } from "vitest";
import { DriftLog } from "../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { isJsonObject } from "../../src/schemas/flatten.ts";
import { type NamedResult, nameResult } from "./named-rows.ts";

/** Flattens JSON text as an enriched record of `p-1`; drift as `kind path observedType occurrences`. */
function flatten(json: string): NamedResult & { drift: string[] } {
  const drift = new DriftLog("POST /v2/enrich");
  const record: unknown = JSON.parse(json);
  if (!isJsonObject(record)) throw new Error("no object");
  const named = nameResult(enrichEndpoint, record, "p-1", drift);
  const entries = drift.entries().map((e) => `${e.kind} ${e.path} ${e.observedType} ${e.occurrences}`);
  return { ...named, drift: entries };
}

describe("unknown fields", () => {
  test("of a record survive in its _extra", () => {
    const flat = flatten('{"full_name":"Ana","credit_score":712,"pets":[{"name":"Rex"}],"nothing":null}');
    expect(flat.fields).toEqual({ full_name: "Ana" });
    expect(flat.extra).toBe('{"credit_score":712,"pets":[{"name":"Rex"}],"nothing":null}');
    expect(flat.drift).toEqual([
      "unknown_field credit_score number 1",
      "unknown_field nothing null 1",
      "unknown_field pets array 1",
    ]);
  });

  test("whose names are addresses or keys of people survive, but leave no name in the drift", () => {
    const flat = flatten('{"alan.turing@example.com":true,"address_history":[{"p-0123456":1}]}');
    expect(flat.extra).toBe('{"alan.turing@example.com":true}');
    expect(flat.drift).toEqual(["unknown_field ? boolean 1", "unknown_field address_history[].? number 1"]);
  });

  test("of a list element survive in the element's own _extra, and their path has [] for the list", () => {
    const flat = flatten(
      '{"address_history":[{"address_rank":1},{"new_field":{"a":1},"address_rank":2},{"address_rank":3,"new_field":"x"}]}',
    );
    expect(
      flat.lists["address_history"]?.map((row) => [row["position"], row["address_rank"], row["_extra"]]),
    ).toEqual([
      ["0", "1", null],
      ["1", "2", '{"new_field":{"a":1}}'],
      ["2", "3", '{"new_field":"x"}'],
    ]);
    expect(flat.extra).toBeNull();
    expect(flat.drift).toEqual(["unknown_field address_history[].new_field string 2"]);
  });

  test("named like what every JavaScript object has, or like another table's column, are fields like any other", () => {
    const json = '{"__proto__":{"a":1},"constructor":2,"toString":"x","email_address":"e","position":9}';
    const flat = flatten(json);
    expect(flat.extra).toBe(json);
    expect(flat.fields).toEqual({});
    expect(flatten(`{"phones":[${json}]}`).lists["phones"]?.[0]?.["_extra"]).toBe(json);
  });

  test("keep numbers that a double can't carry", () => {
    const drift = new DriftLog("POST /v2/enrich");
    const record = {
      net_worth: JSON.rawJSON("12345678901234567890.12"),
      age: JSON.rawJSON("99999999999999999999"),
    };
    expect(nameResult(enrichEndpoint, record, "p-1", drift).extra).toBe(
      '{"net_worth":12345678901234567890.12,"age":99999999999999999999}',
    );
    expect(drift.entries().map((e) => [e.path, e.kind, e.observedType])).toEqual([
      ["age", "unexpected_type", "number"],
      ["net_worth", "unknown_field", "number"],
    ]);
  });
});

describe("a field of an unexpected type", () => {
  test.each([
    ['{"a":1}', "object"],
    ["0", "number"],
    ["false", "boolean"],
  ])("that should be a list leaves its rows alone: phones = %s", (value, type) => {
    const flat = flatten(`{"phones":${value},"relatives":[]}`);
    expect(flat.lists["phones"]).toBeUndefined();
    expect(flat.lists["relatives"]).toEqual([]);
    expect(flat.extra).toBe(`{"phones":${value}}`);
    expect(flat.drift).toEqual([`unexpected_type phones ${type} 1`]);
  });

  test("that should be a list element keeps the positions of the others, and is stored in the record's _extra", () => {
    const flat = flatten('{"phones":[{"phone_rank":1},"555",null,{"phone_rank":2},["x"]]}');
    expect(flat.lists["phones"]?.map((row) => [row["position"], row["phone_rank"]])).toEqual([
      ["0", "1"],
      ["3", "2"],
    ]);
    expect(flat.extra).toBe('{"phones":{"1":"555","2":null,"4":["x"]}}');
    expect(flat.drift).toEqual(["unexpected_type phones[] array 3"]);
  });

  test("that should be a list of subjects, or a subject, is stored in the study's _extra", () => {
    const flat = flatten(
      '{"education_experience":[{"education_majors":"Law","education_minors":["Art",5,null,"Music"],"education_level":"MA"}]}',
    );
    expect(flat.lists["education_experience"]).toEqual([
      expect.objectContaining({
        position: "0",
        education_level: "MA",
        education_majors: "{}",
        education_minors: '{"Art","Music"}',
        _extra: '{"education_majors":"Law","education_minors":{"1":5,"2":null}}',
      }),
    ]);
    expect(flat.drift).toEqual([
      "unexpected_type education_experience[].education_majors string 1",
      "unexpected_type education_experience[].education_minors[] null 2",
    ]);
  });
});

test("the order of a record's fields changes nothing", () => {
  const fields = [
    '"full_name":"Ana"',
    '"age":48',
    '"x":1',
    '"phones":[{"phone_number":"1","y":2,"phone_rank":1}]',
  ];
  const forward = flatten(`{${fields.join(",")}}`);
  const backward = flatten(`{${fields.toReversed().join(",")}}`);
  expect(backward).toEqual(forward);
});
