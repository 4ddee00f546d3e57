import { expect, it } from "vitest";
import { readErrorBody } from "../../src/schemas/error-body.ts";

const empty = { code: null, apiRequestId: null, details: [], recordsAvailable: null, figures: null };

it.each([
  [
    "the current shape",
    { code: "forbidden", message: "m", api_request_id: "r" },
    { code: "forbidden", apiRequestId: "r" },
  ],
  ["the legacy shape", { api_request_id: "r", error_message: "m" }, { apiRequestId: "r" }],
  [
    "deprecated fields next to it",
    { api_request_id: 7, statusCode: 400, body: '{"error_message":"m","code":"bad_request"}' },
    { apiRequestId: "7", code: "bad_request" },
  ],
  ["the example shape", { error: "Not found", status_code: 404 }, {}],
  ["nothing at all", undefined, {}],
  ["HTML", "<html>", {}],
  ["a list", [1], {}],
])("reads %s", (_name, body, expected) => {
  expect(readErrorBody(body)).toEqual({ ...empty, ...expected });
});

it.each([
  [{ details: { records_available: 120, records_requested: 500 } }, 120],
  [{ details: { records_available: "120" } }, 120],
  [{ records_remaining: 7 }, 7],
  [{ details: { records_remaining: "7.0" } }, 7],
  [{ body: { details: { records_available: 3 } } }, 3],
  [{ details: { allowance_records_available: 5, overage_records_available: "6" } }, 11],
  [{ details: { records_available: -4 } }, 0],
  [{ details: { records_available: null } }, null],
  [{ details: { records_available: "many" } }, null],
])("reads what a 402 leaves in %j", (body, expected) => {
  expect(readErrorBody(body).recordsAvailable).toBe(expected);
});

it("takes no prose for a code, because prose may quote a record", () => {
  expect(readErrorBody({ code: "Ann Lee is no address", api_request_id: "ann lee" })).toEqual(empty);
});
