import { describe, expect, it } from "vitest";
import { faultsByRecord, faultsOutside, refusalSignature } from "../../src/extract/batches.ts";
import { readErrorBody } from "../../src/schemas/error-body.ts";

// Decisions on calls: test/extract/sending.test.ts.

const refusal = (...details: unknown[]) => readErrorBody({ code: "unprocessable_entity", details });

describe("a rejected batch", () => {
  it.each([
    [["body", "records", "3", "emails"], "emails"],
    [["body", "records", 3, "emails", 0], "emails.0"],
    [["records", 3], ""],
    ["body.records.3.emails", "emails"],
    ["body.records[3].emails[0]", "emails.0"],
    ["records[3]", ""],
  ])("names its record as %j", (loc, path) => {
    const faults = faultsByRecord(refusal({ loc, type: "string_too_long" }), 10);
    expect([...faults]).toEqual([[3, [{ path, type: "string_too_long" }]]]);
  });

  it("may name several records, each with several faults, but none that was not sent", () => {
    const error = refusal(
      { loc: ["body", "records", 4, "phones"], type: "list_type" },
      { loc: ["body", "records", 1], type: "model_type" },
      { loc: ["body", "records", 4, "city"], type: "string_type" },
      { loc: ["body", "records", 5], type: "x" },
    );
    const faults = faultsByRecord(error, 5);
    expect(new Set(faults.keys())).toEqual(new Set([1, 4]));
    expect(faults.get(4)?.map(({ path }) => path)).toEqual(["phones", "city"]);
  });

  it.each([
    [["body", "match_condition_fields", 0], "body.match_condition_fields.0 (x)"],
    [["body", "records"], "body.records (x)"],
    [["body"], null],
    [[], null],
    [["body", "records", 5], null],
  ])("for a fault at %j is wrong as a whole: %j", (loc, place) => {
    expect(faultsOutside(refusal({ loc, type: "x" }))).toBe(place);
  });

  it("shows no value in a path or a type", () => {
    const error = refusal({ loc: ["body", "records", 0, "ann lee@example.org"], type: "got Ann Lee" });
    expect(JSON.stringify([...faultsByRecord(error, 1)])).not.toMatch(/ann/iu);
  });

  it("is like another if status, code, path and type are, regardless of the record", () => {
    const signatures = [3, 499].map((n) =>
      refusalSignature(422, refusal({ loc: ["body", "records", n, "emails", n], type: "string_too_long" })),
    );
    const expected = "422 unprocessable_entity body.records.*.emails.* string_too_long";
    expect(signatures).toEqual([expected, expected]);
    expect(refusalSignature(400, readErrorBody({ error: "bad", status_code: 400 }))).toBe("400");
  });
});
