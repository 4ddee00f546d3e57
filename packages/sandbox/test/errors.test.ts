import { expect, it } from "vitest";
import type { Sandbox } from "../src/start-sandbox.ts";
import { call, sandboxFor } from "./support.ts";

const SEGMENT = "00000000-0000-4000-8000-000000000001";
const NOBODY = "00000000-0000-4000-8000-00000000dead";
const JOBS = "/person-search/v0/search-jobs";

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
  ["POST /v2/segments/members", {}, "405"],
  ["POST /v2/segments/signals/deaths", {}, "405"],
  ["POST /usage", {}, "405"],
  // Bodies.
  ["POST /v2/enrich", "{", "400 bad_request"],
  ["POST /v1/resolve", {}, "422 validation_error body.records missing"],
  ["POST /v1/resolve", records(1001, {}), "413 payload_too_large"],
  ["POST /v2/enrich", records(501, {}), "413 payload_too_large"],
  ["POST /v2/validate_emails", records(2001, "a@b.example"), "413 payload_too_large"],
  ["POST /v2/enrich", { records: 1 }, "422 validation_error body.records list_type"],
  ["POST /v2/enrich", { records: [1] }, "422 validation_error body.records.0 model_type"],
  ["POST /v2/enrich", { records: [{ emails: "x" }] }, "422 validation_error body.records.0.emails list_type"],
  ["POST /v2/enrich", { records: [{ job: 1 }] }, "422 validation_error body.records.0.job extra_forbidden"],
  [
    "POST /v2/enrich",
    { records: [{ city: long }] },
    "422 validation_error body.records.0.city string_too_long",
  ],
  [
    "POST /v2/enrich",
    { records: [], return_fields: ["x"] },
    "422 validation_error body.return_fields.0 enum",
  ],
  [
    "POST /v2/enrich",
    { records: [], match_condition_fields: ["age"] },
    "422 validation_error body.match_condition_fields.0 enum",
  ],
  ["POST /v2/validate_emails", { records: [null] }, "422 validation_error body.records.0 string_type"],
  // Segments.
  ["POST /v2/segments/create", { name: 7 }, "400 bad_request"],
  ["POST /v2/segments/create", {}, "422 validation_error body.name missing"],
  ["POST /v2/segments/create", { name: "" }, "422 validation_error body.name string_too_short"],
  ["POST /v2/segments/create", { name: long }, "422 validation_error body.name string_too_long"],
  ["POST /v2/segments/create", { name: "VIP" }, "409 conflict"],
  ["POST /v2/segments/create", { name: "VIP" }, "200", "org-other"],
  ["POST /v2/segments/members/add", { service_pids: [] }, "422 validation_error body.segment_id missing"],
  [
    "POST /v2/segments/members/add",
    { segment_id: SEGMENT },
    "422 validation_error body.service_pids missing",
  ],
  ["POST /v2/segments/members/add", { ...change, segment_id: NOBODY }, "404 not_found"],
  ["POST /v2/segments/members/add", change, "404 not_found", "org-other"],
  ["POST /v2/segments/members/add", change, "200"],
  [
    "POST /v2/segments/members/remove",
    { ...change, service_pids: "p-1" },
    "422 validation_error body.service_pids list_type",
  ],
  ["POST /v2/segments/members/remove", change, "404 not_found", "org-other"],
  ["GET /v2/segments/members", undefined, "422 validation_error query.segment_id missing"],
  ["GET /v2/segments/members?segment_id=x", undefined, "422 validation_error query.segment_id uuid_parsing"],
  [
    `GET /v2/segments/members?segment_id=${SEGMENT}&page=0`,
    undefined,
    "422 validation_error query.page greater_than_equal",
  ],
  [
    `GET /v2/segments/members?segment_id=${SEGMENT}&page=one`,
    undefined,
    "422 validation_error query.page int_parsing",
  ],
  [`GET /v2/segments/members?segment_id=${NOBODY}`, undefined, "404 not_found"],
  [`GET /v2/segments/members?segment_id=${SEGMENT}`, undefined, "404 not_found", "org-other"],
  ["GET /v2/segments/signals/deaths", undefined, "400 bad_request"],
  [
    "GET /v2/segments/signals/deaths?segment_id=x",
    undefined,
    "422 validation_error query.segment_id uuid_parsing",
  ],
  [`GET /v2/segments/signals/deaths?segment_id=${NOBODY}`, undefined, "404 not_found"],
  // Searches.
  ["POST /person-search/v0/search", {}, "422 validation_error body.query missing"],
  ["POST /person-search/v0/search", { query: "" }, "422 validation_error body.query string_too_short"],
  ["POST /person-search/v0/search", { query: long }, "422 validation_error body.query string_too_long"],
  [
    "POST /person-search/v0/search",
    { query: "men", size: 0 },
    "422 validation_error body.size greater_than_equal",
  ],
  [
    "POST /person-search/v0/search",
    { query: "men", size: 101 },
    "422 validation_error body.size less_than_equal",
  ],
  ["POST /person-search/v0/search", { query: "people who juggle" }, "400 no_filters_extracted"],
  ["GET /person-search/v0/search/x", undefined, "422 validation_error path.search_id uuid_parsing"],
  [`GET /person-search/v0/search/${NOBODY}`, undefined, "404 not_found"],
  [`POST ${JOBS}`, { query: "" }, "422 validation_error body.query string_too_short"],
  [`POST ${JOBS}`, { query: "men", size: 5 }, "422 validation_error body.size extra_forbidden"],
  [`POST ${JOBS}`, { query: "men" }, "401 unauthorized", "organization-only"],
  [`GET ${JOBS}/${NOBODY}`, undefined, "401 unauthorized", "organization-only"],
  [`POST ${JOBS}/${NOBODY}/results`, undefined, "401 unauthorized", "organization-only"],
  [`GET ${JOBS}/${NOBODY}/results`, undefined, "401 unauthorized", "organization-only"],
  [`GET ${JOBS}/x`, undefined, "422 validation_error path.segment_id uuid_parsing"],
  [`GET ${JOBS}/${NOBODY}`, undefined, "404 not_found"],
  [`POST ${JOBS}/${NOBODY}/results?limit=101`, undefined, "422 validation_error query.limit less_than_equal"],
  [
    `GET ${JOBS}/${NOBODY}/results?limit=0&offset=-1`,
    undefined,
    "422 validation_error query.limit greater_than_equal query.offset greater_than_equal",
  ],
  [`GET /person-search/v0/contact-jobs/${NOBODY}`, undefined, "404 not_found"],
  [`POST /person-search/v0/contact-jobs/${NOBODY}/results`, undefined, "404 not_found"],
  // Usage.
  ["GET /usage?start_date=2026-01-01", undefined, "400 bad_request"],
  ["GET /usage?start_date=2026-01-02&end_date=2026-01-01", undefined, "400 bad_request"],
  ["GET /usage?timezone=Mars/Olympus", undefined, "400 bad_request"],
  ["GET /usage?timezone=%2B05:00", undefined, "400 bad_request"],
  ["GET /usage?bucketing_size=decade", undefined, "422 validation_error query.bucketing_size enum"],
  [
    "GET /usage?start_date=2026-02-30&end_date=2026-03-01",
    undefined,
    "422 validation_error query.start_date date_parsing",
  ],
  [
    "GET /usage?include_unused_endpoints=perhaps",
    undefined,
    "422 validation_error query.include_unused_endpoints bool_parsing",
  ],
  ["GET /person-search/v0/usage?days=0", undefined, "422 validation_error query.days greater_than_equal"],
  ["GET /person-search/v0/usage?days=91", undefined, "422 validation_error query.days less_than_equal"],
  ["GET /person-search/v0/usage?days=many", undefined, "422 validation_error query.days int_parsing"],
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
