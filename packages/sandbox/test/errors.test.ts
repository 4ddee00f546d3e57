import { expect, it } from "vitest";
import type { Sandbox } from "../src/start-sandbox.ts";
import { call, sandboxFor } from "./support.ts";

const SEGMENT = "00000000-0000-4000-8000-000000000001";
const NOBODY = "00000000-0000-4000-8000-00000000dead";
const JOBS = "/person-search/v0/search-jobs";
const SEARCH = "/person-search/v0/search";
const MEMBERS = "/v2/segments/members";
const DEATHS = "/v2/segments/signals/deaths";
const BAD = "422 validation_error";

/** Status, code and refused fields of an answer, such as `422 validation_error body.name missing`. */
async function outcomeOf(sandbox: Sandbox, request: string, body: unknown, key: string): Promise<string> {
  const [method, path = ""] = request.split(" ");
  const options = { method: method === "GET" ? "GET" : "POST", headers: { "x-api-key": key } } as const;
  const { status, body: answer } = await call(sandbox, path, body, options);
  const details: readonly { loc: string[]; type: string }[] = Array.isArray(answer.details)
    ? answer.details
    : [];
  const fields = details.map(({ loc, type }) => `${loc.join(".")} ${type}`);
  return [String(status), answer.code, ...fields].filter((part) => part !== undefined).join(" ");
}

const long = "x".repeat(1001);
const records = (count: number, record: unknown) => ({
  records: Array.from({ length: count }, () => record),
});
const change = { segment_id: SEGMENT, service_pids: [] };

it.each<[request: string, body: unknown, outcome: string, key?: string]>([
  // Keys, paths and methods.
  ["POST /v2/enrich", { records: [] }, "401 unauthorized", ""],
  ["POST /v2/enrich", { records: [] }, "401 unauthorized", "revoked-key"],
  ["GET /nowhere", undefined, "401 unauthorized", ""],
  ["GET /nowhere", undefined, "404 not_found"],
  ["POST /v1/enrich", {}, "404 not_found"],
  ["GET /v1/segments/members", undefined, "404 not_found"],
  [`GET /v1/segments/signals/deaths?segment_id=${SEGMENT}`, undefined, "404 not_found"],
  ["GET /v2/enrich", undefined, "405"],
  [`POST ${MEMBERS}`, {}, "405"],
  [`POST ${DEATHS}`, {}, "405"],
  ["POST /usage", {}, "405"],
  // Bodies.
  ["POST /v2/enrich", "{", "400 bad_request"],
  ["POST /v1/resolve", {}, `${BAD} body.records missing`],
  ["POST /v1/resolve", records(1001, {}), "413 payload_too_large"],
  ["POST /v2/enrich", records(501, {}), "413 payload_too_large"],
  ["POST /v2/validate_emails", records(2001, "a@b.example"), "413 payload_too_large"],
  ["POST /v2/enrich", { records: 1 }, `${BAD} body.records list_type`],
  ["POST /v2/enrich", { records: [1] }, `${BAD} body.records.0 model_type`],
  ["POST /v2/enrich", { records: [{ emails: "x" }] }, `${BAD} body.records.0.emails list_type`],
  ["POST /v2/enrich", { records: [{ job: 1 }] }, `${BAD} body.records.0.job extra_forbidden`],
  ["POST /v2/enrich", { records: [{ city: long }] }, `${BAD} body.records.0.city string_too_long`],
  ["POST /v2/enrich", { records: [], return_fields: ["x"] }, `${BAD} body.return_fields.0 enum`],
  [
    "POST /v2/enrich",
    { records: [], match_condition_fields: ["age"] },
    `${BAD} body.match_condition_fields.0 enum`,
  ],
  ["POST /v2/validate_emails", { records: [null] }, `${BAD} body.records.0 string_type`],
  // Segments.
  ["POST /v2/segments/create", { name: 7 }, "400 bad_request"],
  ["POST /v2/segments/create", {}, `${BAD} body.name missing`],
  ["POST /v2/segments/create", { name: "" }, `${BAD} body.name string_too_short`],
  ["POST /v2/segments/create", { name: long }, `${BAD} body.name string_too_long`],
  ["POST /v2/segments/create", { name: "VIP" }, "409 conflict"],
  ["POST /v2/segments/create", { name: "VIP" }, "200", "org-other"],
  [`POST ${MEMBERS}/add`, { service_pids: [] }, `${BAD} body.segment_id missing`],
  [`POST ${MEMBERS}/add`, { segment_id: SEGMENT }, `${BAD} body.service_pids missing`],
  [`POST ${MEMBERS}/add`, { ...change, segment_id: NOBODY }, "404 not_found"],
  [`POST ${MEMBERS}/add`, change, "404 not_found", "org-other"],
  [`POST ${MEMBERS}/add`, change, "200"],
  [`POST ${MEMBERS}/remove`, { ...change, service_pids: "p-1" }, `${BAD} body.service_pids list_type`],
  [`POST ${MEMBERS}/remove`, change, "404 not_found", "org-other"],
  [`GET ${MEMBERS}`, undefined, `${BAD} query.segment_id missing`],
  [`GET ${MEMBERS}?segment_id=x`, undefined, `${BAD} query.segment_id uuid_parsing`],
  [`GET ${MEMBERS}?segment_id=${SEGMENT}&page=0`, undefined, `${BAD} query.page greater_than_equal`],
  [`GET ${MEMBERS}?segment_id=${SEGMENT}&page=one`, undefined, `${BAD} query.page int_parsing`],
  [`GET ${MEMBERS}?segment_id=${NOBODY}`, undefined, "404 not_found"],
  [`GET ${MEMBERS}?segment_id=${SEGMENT}`, undefined, "404 not_found", "org-other"],
  [`GET ${DEATHS}`, undefined, "400 bad_request"],
  [`GET ${DEATHS}?segment_id=x`, undefined, `${BAD} query.segment_id uuid_parsing`],
  [`GET ${DEATHS}?segment_id=${NOBODY}`, undefined, "404 not_found"],
  // Searches.
  [`POST ${SEARCH}`, {}, `${BAD} body.query missing`],
  [`POST ${SEARCH}`, { query: "" }, `${BAD} body.query string_too_short`],
  [`POST ${SEARCH}`, { query: long }, `${BAD} body.query string_too_long`],
  [`POST ${SEARCH}`, { query: "men", size: 0 }, `${BAD} body.size greater_than_equal`],
  [`POST ${SEARCH}`, { query: "men", size: 101 }, `${BAD} body.size less_than_equal`],
  [`POST ${SEARCH}`, { query: "people who juggle" }, "400 no_filters_extracted"],
  [`GET ${SEARCH}/x`, undefined, `${BAD} path.search_id uuid_parsing`],
  [`GET ${SEARCH}/${NOBODY}`, undefined, "404 not_found"],
  [`POST ${JOBS}`, { query: "" }, `${BAD} body.query string_too_short`],
  [`POST ${JOBS}`, { query: "men", size: 5 }, `${BAD} body.size extra_forbidden`],
  [`POST ${JOBS}`, { query: "men" }, "401 unauthorized", "organization-only"],
  [`GET ${JOBS}/${NOBODY}`, undefined, "401 unauthorized", "organization-only"],
  [`POST ${JOBS}/${NOBODY}/results`, undefined, "401 unauthorized", "organization-only"],
  [`GET ${JOBS}/${NOBODY}/results`, undefined, "401 unauthorized", "organization-only"],
  [`GET ${JOBS}/x`, undefined, `${BAD} path.segment_id uuid_parsing`],
  [`GET ${JOBS}/${NOBODY}`, undefined, "404 not_found"],
  [`POST ${JOBS}/${NOBODY}/results?limit=101`, undefined, `${BAD} query.limit less_than_equal`],
  [
    `GET ${JOBS}/${NOBODY}/results?limit=0&offset=-1`,
    undefined,
    `${BAD} query.limit greater_than_equal query.offset greater_than_equal`,
  ],
  [`GET /person-search/v0/contact-jobs/${NOBODY}`, undefined, "404 not_found"],
  [`POST /person-search/v0/contact-jobs/${NOBODY}/results`, undefined, "404 not_found"],
  // Usage.
  ["GET /usage?start_date=2026-01-01", undefined, "400 bad_request"],
  ["GET /usage?start_date=2026-01-02&end_date=2026-01-01", undefined, "400 bad_request"],
  ["GET /usage?timezone=Mars/Olympus", undefined, "400 bad_request"],
  ["GET /usage?timezone=%2B05:00", undefined, "400 bad_request"],
  ["GET /usage?bucketing_size=decade", undefined, `${BAD} query.bucketing_size enum`],
  ["GET /usage?start_date=2026-02-30&end_date=2026-03-01", undefined, `${BAD} query.start_date date_parsing`],
  [
    "GET /usage?include_unused_endpoints=perhaps",
    undefined,
    `${BAD} query.include_unused_endpoints bool_parsing`,
  ],
  ["GET /person-search/v0/usage?days=0", undefined, `${BAD} query.days greater_than_equal`],
  ["GET /person-search/v0/usage?days=91", undefined, `${BAD} query.days less_than_equal`],
  ["GET /person-search/v0/usage?days=many", undefined, `${BAD} query.days int_parsing`],
])("%s with %j is answered with %s", async (request, body, outcome, key = "test") => {
  const sandbox = await sandboxFor();
  await call(sandbox, "/_sandbox/segments", { segment_id: SEGMENT, name: "VIP" });
  expect(await outcomeOf(sandbox, request, body, key)).toBe(outcome);
});

it("results wait for the end of a full search", async () => {
  const sandbox = await sandboxFor();
  const unlockAfter = async (plan: object) => {
    await call(sandbox, "/_sandbox/search_plan", plan);
    const { body } = await call(sandbox, JOBS, { query: "women" });
    const path = `${JOBS}/${String(body["segment_id"])}`;
    const { body: job } = await call(sandbox, path);
    return [job["status"], await outcomeOf(sandbox, `POST ${path}/results`, undefined, "test")];
  };
  expect(await unlockAfter({ state_ms: null })).toEqual(["initiated", "409"]);
  expect(await unlockAfter({ state_ms: 0, extent: "preview" })).toEqual(["completed", "409"]);
  expect(await unlockAfter({ state_ms: 0, outcome: "search_cancelled" })).toEqual(["cancelled", "409"]);
  expect(await unlockAfter({ state_ms: 0, outcome: "search_timed_out" })).toEqual(["failed", "409"]);
  expect(await unlockAfter({ state_ms: 0 })).toEqual(["completed", "200"]);
});
