import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { dayOf } from "../src/population/calendar.ts";
import { createPeople } from "../src/population/people.ts";
import { call, sandboxFor } from "./support.ts";

const people = createPeople(1, 10_000);
const today = dayOf(Date.now());
const pid = people.pidOf(1, today);

describe("the key", () => {
  it("is required on every path of the service, including unknown paths", async () => {
    const sandbox = await sandboxFor();
    for (const path of ["/v2/enrich", "/nowhere"]) {
      const answer = await call(sandbox, path, { records: [] }, { headers: { "x-api-key": "" } });
      expect(answer.status).toBe(401);
      expect(answer.body).toEqual({
        code: "unauthorized",
        message: "The API key is invalid, revoked or missing.",
        api_request_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      });
    }
  });

  it("may be any but a revoked one, unless one is set", async () => {
    const open = await sandboxFor();
    const strict = await sandboxFor({ apiKey: "the-key" });
    const status = async (sandbox: typeof open, key: string) =>
      (await call(sandbox, "/v2/enrich", { records: [] }, { headers: { "x-api-key": key } })).status;
    expect(await status(open, "anything")).toBe(200);
    expect(await status(open, "revoked-key")).toBe(401);
    expect(await status(strict, "the-key")).toBe(200);
    expect(await status(strict, "another")).toBe(401);
  });
});

describe("paths and methods", () => {
  it.each(["/v1/enrich", "/v1/validate_emails", "/v1/segments/members", "/v2/enrich/", "/v2/usage", "/"])(
    "%s is not found",
    async (path) => {
      const answer = await call(await sandboxFor(), path);
      expect([answer.status, answer.body.code]).toEqual([404, "not_found"]);
    },
  );

  it("other methods than the stated one are not allowed", async () => {
    const answer = await call(await sandboxFor(), "/v2/enrich");
    expect(answer.status).toBe(405);
    expect(answer.headers["allow"]).toBe("POST");
  });
});

describe("a body", () => {
  it("must be JSON with its content type", async () => {
    const sandbox = await sandboxFor();
    const notJson = await call(sandbox, "/v2/enrich", '{"records": [', { method: "POST" });
    expect([notJson.status, notJson.body.code]).toEqual([400, "bad_request"]);
    const headers = { "content-type": "text/plain" };
    const untold = await call(sandbox, "/v2/enrich", { records: [] }, { headers });
    expect([untold.status, untold.body.code]).toEqual([400, "bad_request"]);
  });

  it("may come compressed", async () => {
    const sandbox = await sandboxFor();
    const headers = { "content-encoding": "gzip" };
    const body = gzipSync(JSON.stringify({ records: [{ record_id: "a", service_pid: pid }] }));
    const answer = await call(sandbox, "/v2/enrich", body, { method: "POST", headers });
    expect(answer.body.results[0]?.service_pid).toBe(pid);
    const broken = await call(sandbox, "/v2/enrich", body.subarray(0, 20), { method: "POST", headers });
    expect(broken.status).toBe(400);
  });

  it.each([
    ["/v1/resolve", {}, [{ loc: ["body", "records"], type: "missing" }]],
    ["/v2/enrich", { records: "x" }, [{ loc: ["body", "records"], type: "list_type" }]],
    ["/v2/enrich", { records: ["x"] }, [{ loc: ["body", "records", "0"], type: "model_type" }]],
    [
      "/v2/enrich",
      { records: [{}, { emails: "x" }] },
      [{ loc: ["body", "records", "1", "emails"], type: "list_type" }],
    ],
    [
      "/v2/enrich",
      { records: [{ city: 7 }] },
      [{ loc: ["body", "records", "0", "city"], type: "string_type" }],
    ],
    [
      "/v1/resolve",
      { records: [{ phones: [1] }] },
      [{ loc: ["body", "records", "0", "phones", "0"], type: "string_type" }],
    ],
    [
      "/v1/resolve",
      { records: [{ city: "x" }] },
      [{ loc: ["body", "records", "0", "city"], type: "extra_forbidden" }],
    ],
    ["/v2/validate_emails", { records: [null] }, [{ loc: ["body", "records", "0"], type: "string_type" }]],
    [
      "/v2/enrich",
      { records: [], include_premium_fields: "yes" },
      [{ loc: ["body", "include_premium_fields"], type: "bool_type" }],
    ],
    [
      "/v2/enrich",
      { records: [], match_condition_fields: ["age"] },
      [{ loc: ["body", "match_condition_fields", "0"], type: "enum" }],
    ],
    [
      "/v2/enrich",
      { records: [], return_fields: ["dob", "nope"] },
      [{ loc: ["body", "return_fields", "1"], type: "enum" }],
    ],
    [
      "/v2/enrich",
      { records: [{ city: "x".repeat(1001) }] },
      [{ loc: ["body", "records", "0", "city"], type: "string_too_long" }],
    ],
  ])("of %s that is malformed is refused with its places: %j", async (path, body, details) => {
    const answer = await call(await sandboxFor(), path, body);
    expect([answer.status, answer.body.code, answer.body.details]).toEqual([
      422,
      "validation_error",
      details,
    ]);
  });

  it.each([
    ["/v1/resolve", 1000, {}],
    ["/v2/enrich", 500, {}],
    ["/v2/validate_emails", 2000, "a@b.example"],
  ])("of %s holds at most %i records", async (path, limit, record) => {
    const sandbox = await sandboxFor();
    const most = await call(sandbox, path, { records: Array.from({ length: limit }, () => record) });
    expect([most.status, most.body.results.length]).toEqual([200, limit]);
    const more = await call(sandbox, path, { records: Array.from({ length: limit + 1 }, () => record) });
    expect([more.status, more.body.code]).toEqual([413, "payload_too_large"]);
  });
});

describe("answers", () => {
  it("write timestamps in the endpoint's style", async () => {
    const sandbox = await sandboxFor();
    const stamp = async (path: string) =>
      (await call(sandbox, path, { records: [] })).body.request_completed_at;
    expect(await stamp("/v1/resolve")).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(await stamp("/v2/validate_emails")).toMatch(/\.\d{6}Z$/);
    expect(await stamp("/v2/enrich")).toMatch(/\.\d{6}\+00:00$/);
  });

  it("are compressed for clients that take gzip, unless that is switched off", async () => {
    const records = Array.from({ length: 50 }, (_, i) => ({
      record_id: `${i}`,
      service_pid: people.pidOf(i, today),
    }));
    const raw = async (options: object) => {
      const sandbox = await sandboxFor(options);
      const response = await fetch(`${sandbox.url}/v2/enrich`, {
        method: "POST",
        headers: { "x-api-key": "k", "content-type": "application/json", "accept-encoding": "gzip" },
        body: JSON.stringify({ records }),
      });
      const { results } = JSON.parse(await response.text());
      return [response.headers.get("content-encoding"), results.length];
    };
    expect(await raw({})).toEqual(["gzip", 50]);
    expect(await raw({ compresses: false })).toEqual([null, 50]);
  });
});
