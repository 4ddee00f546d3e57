import { describe, expect, it } from "vitest";
import { isolate, refusalSignature } from "../../src/extract/batches.ts";
import { readErrorBody } from "../../src/schemas/error-body.ts";

const refusal = (...details: unknown[]) =>
  readErrorBody({ code: "unprocessable_entity", message: "no", details });

describe("a refused batch", () => {
  it.each([
    [["body", "records", "3", "emails"], "emails"],
    [["body", "records", 3, "emails", 0], "emails.0"],
    [["records", 3], ""],
    ["body.records.3.emails", "emails"],
    ["body.records[3].emails[0]", "emails.0"],
    ["records[3]", ""],
  ])("names its record as %j", (loc, path) => {
    expect(isolate(refusal({ loc, type: "string_too_long" }), 10)).toEqual({
      kind: "reject",
      records: [{ index: 3, faults: [{ path, type: "string_too_long" }] }],
    });
  });

  it("may name several records, each with several faults", () => {
    const error = refusal(
      { loc: ["body", "records", 4, "phones"], type: "list_type" },
      { loc: ["body", "records", 1], type: "model_type" },
      { loc: ["body", "records", 4, "city"], type: "string_type" },
    );
    expect(isolate(error, 5)).toEqual({
      kind: "reject",
      records: [
        { index: 1, faults: [{ path: "", type: "model_type" }] },
        {
          index: 4,
          faults: [
            { path: "phones", type: "list_type" },
            { path: "city", type: "string_type" },
          ],
        },
      ],
    });
  });

  it("is not taken apart for a fault outside its records", () => {
    expect(isolate(refusal({ loc: ["body", "match_condition_fields", 0], type: "enum" }), 5)).toEqual({
      kind: "stop",
      where: "body.match_condition_fields.0 (enum)",
    });
    expect(isolate(refusal({ loc: ["body", "records"], type: "missing" }), 5)).toEqual({
      kind: "stop",
      where: "body.records (missing)",
    });
  });

  it("is halved when no record is named, or an unknown one", () => {
    expect(isolate(refusal(), 5)).toEqual({ kind: "split" });
    expect(isolate(readErrorBody(undefined), 5)).toEqual({ kind: "split" });
    expect(isolate(refusal({ type: "json_invalid" }), 5)).toEqual({ kind: "split" });
    expect(isolate(refusal({ loc: ["body", "records", 5], type: "x" }), 5)).toEqual({ kind: "split" });
  });

  it("of one record is that record", () => {
    expect(isolate(refusal(), 1)).toEqual({ kind: "reject", records: [{ index: 0, faults: [] }] });
  });

  it("shows no value in a path or a type", () => {
    const error = refusal({ loc: ["body", "records", 0, "ann lee@example.org"], type: "got Ann Lee" });
    expect(JSON.stringify(isolate(error, 1))).not.toMatch(/ann/iu);
  });
});

it("two refusals are equal if status, code, path and type are, regardless of the record", () => {
  const a = refusalSignature(
    422,
    refusal({ loc: ["body", "records", 3, "emails", 1], type: "string_too_long" }),
  );
  const b = refusalSignature(
    422,
    refusal({ loc: ["body", "records", 499, "emails", 0], type: "string_too_long" }),
  );
  expect(a).toBe("422 unprocessable_entity body.records.*.emails.* string_too_long");
  expect(b).toBe(a);
  expect(refusalSignature(400, readErrorBody({ error: "bad", status_code: 400 }))).toBe("400");
});
