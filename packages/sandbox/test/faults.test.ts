import { describe, expect, it } from "vitest";
import { parseFaults } from "../src/faults/plan.ts";
import {
  type Answered,
  ask,
  call,
  enrich,
  enrichTotals,
  outcomeOf,
  records,
  sandboxFor,
  sandboxWith,
} from "./support.ts";

describe("a plan", () => {
  it("reads name, value, rate, endpoint and request numbers", () => {
    expect(parseFaults("429:0.1, cut_body=x:0.05@/v2/enrich#3-9,slow=2000@enrich#5,500#7-")).toEqual([
      { fault: "429", rate: 0.1 },
      { fault: "cut_body", value: "x", rate: 0.05, endpoint: "/v2/enrich", from: 3, to: 9 },
      { fault: "slow", value: "2000", rate: 1, endpoint: "enrich", from: 5, to: 5 },
      { fault: "500", rate: 1, from: 7 },
    ]);
    expect(parseFaults("")).toEqual([]);
  });

  it("with mistakes is refused, all of them at once", () => {
    const hint = expect.stringMatching(/NAME/);
    expect(() => parseFaults("unheard_of:0.5,500:7,!!")).toThrow(
      expect.objectContaining({
        problems: [
          { path: "--faults unheard_of:0.5", message: expect.stringMatching(/no fault/), hint },
          { path: "--faults 500:7", message: "The rate must be between 0 and 1.", hint },
          { path: "--faults !!", message: "Not a fault rule.", hint },
        ],
      }),
    );
  });

  it("hits only its endpoint and its requests, counted from when it was set", async () => {
    const sandbox = await sandboxWith("500@enrich#2-3");
    const statuses = async () => [
      (await call(sandbox, "/v1/resolve", { records: [] })).status,
      (await ask(sandbox)).status,
      (await ask(sandbox)).status,
      (await ask(sandbox)).status,
      (await ask(sandbox)).status,
    ];
    expect(await statuses()).toEqual([200, 200, 500, 500, 200]);
    await call(sandbox, "/_sandbox/faults", { faults: "503#1" });
    expect(await statuses()).toEqual([503, 200, 200, 200, 200]);
  });
});

const FORBIDDEN = "The API key is not authorized for this route or plan.";

const details = {
  records_available: 12,
  allowance_records_available: 12,
  overage_records_available: 0,
  records_requested: 40,
};
const loc = ["body", "records", expect.stringMatching(/^\d+$/), "service_pid"];

describe("refusals", () => {
  it.each<[fault: string, status: number, body?: object, headers?: object]>([
    ["429", 429, { code: "rate_limit_reached" }, { "retry-after": "1" }],
    ["429=7", 429, {}, { "retry-after": "7" }],
    ["429_date=7", 429, {}, { "retry-after": expect.stringMatching(/GMT$/) }],
    ["429_bare", 429, { code: "rate_limit_reached" }],
    ["503", 503],
    ["503=3", 503, {}, { "retry-after": "3" }],
    ["500", 500, { message: "Unexpected server error." }],
    ["504", 504],
    ["502", 502, {}, { "content-type": "text/html" }],
    ["409", 409],
    ["402_credits=3", 402, { code: "insufficient_credits", details: { records_remaining: 3 } }],
    ["revoked", 401, { code: "unauthorized" }],
    ["forbidden", 403, { code: "forbidden" }],
    ["redirect", 302, {}, { location: "http://elsewhere.invalid/v2/enrich" }],
    ["413=39", 413, { code: "payload_too_large" }],
    ["402=12", 402, { code: "insufficient_record_capacity", details }],
    ["string_too_long", 422, { code: "unprocessable_entity", details: [{ loc, type: "string_too_long" }] }],
  ])("%s is answered as documented, and bills nothing", async (fault, status, body = {}, headers = {}) => {
    const sandbox = await sandboxWith(fault);
    expect(await ask(sandbox)).toMatchObject({ status, body, headers });
    expect(await enrichTotals(sandbox)).toMatchObject({ requests: 1, billed: 0 });
  });

  it("of poison hit only batches that hold the value", async () => {
    const sandbox = await sandboxWith("poison=Poison");
    const poisoned = [
      { record_id: "0", emails: ["a@b.example"] },
      { record_id: "1", last_name: "Poisonous", emails: ["x"] },
    ];
    const answer = await ask(sandbox, poisoned);
    expect([answer.status, answer.body.details]).toEqual([
      422,
      [{ loc: ["body", "records", "1", "last_name"], type: "value_error" }],
    ]);
    expect((await ask(sandbox, poisoned.slice(0, 1))).status).toBe(200);
    const emails = await call(sandbox, "/v2/validate_emails", {
      records: ["a@b.example", "Poison@b.example"],
    });
    expect(emails.body.details).toEqual([{ loc: ["body", "records", "1"], type: "value_error" }]);
    const deep = await ask(sandbox, [{ record_id: "0", emails: ["a", "Poison"] }]);
    expect(deep.body.details).toEqual([
      { loc: ["body", "records", "0", "emails", "1"], type: "value_error" },
    ]);
  });

  it.each([
    ["legacy_errors", { api_request_id: expect.any(String), error_message: FORBIDDEN }],
    ["status_code_errors", { error: FORBIDDEN, status_code: 403 }],
    [
      "deprecated_fields",
      {
        code: "forbidden",
        message: FORBIDDEN,
        api_request_id: expect.any(String),
        statusCode: 403,
        body: { error_message: FORBIDDEN },
      },
    ],
  ])("come in every documented shape: %s", async (fault, body) => {
    expect((await ask(await sandboxWith(`forbidden,${fault}`))).body).toEqual(body);
  });
});

const ids = records.map((record) => record.record_id);
const idsWith = async (fault: string) =>
  (await enrich(await sandboxWith(fault), records)).map((result) => result.record_id);

describe("broken connections", () => {
  it("before the request is carried out bill nothing", async () => {
    const sandbox = await sandboxWith("cut_before#1");
    expect(await outcomeOf(sandbox)).toBe("UND_ERR_SOCKET");
    expect(await enrichTotals(sandbox)).toMatchObject({ requests: 1, billed: 0, faults: { cut_before: 1 } });
    expect(await outcomeOf(sandbox)).toBe(200);
  });

  it.each(["reply_lost", "cut_body"])("after it was carried out bill it: %s", async (fault) => {
    const sandbox = await sandboxWith(`${fault}#1`);
    expect(["ECONNRESET", "UND_ERR_SOCKET"]).toContain(await outcomeOf(sandbox));
    expect(await enrichTotals(sandbox)).toMatchObject({ billed: 40, faults: { [fault]: 1 } });
    expect(await outcomeOf(sandbox)).toBe(200);
    expect(await enrichTotals(sandbox)).toMatchObject({ billed: 80 });
  });

  it("truncated JSON is complete HTTP", async () => {
    const sandbox = await sandboxWith("truncated_json");
    const answer = await ask(sandbox);
    expect(answer.status).toBe(200);
    expect(Number(answer.headers["content-length"])).toBe(Buffer.byteLength(answer.text));
    expect(() => JSON.parse(answer.text)).toThrow(SyntaxError);
    expect(answer.text.startsWith('{"api_request_id":')).toBe(true);
    expect(await enrichTotals(sandbox)).toMatchObject({ billed: 40 });
  });

  it("slow answers and slow bodies take their time", async () => {
    for (const faults of ["slow=300", "slow_body=300"]) {
      const startedMs = performance.now();
      expect((await ask(await sandboxWith(faults))).status).toBe(200);
      expect(performance.now() - startedMs).toBeGreaterThan(290);
    }
  });
});

describe("results", () => {
  it("shuffled are the same results in another order", async () => {
    const results = await enrich(await sandboxWith("shuffled"), records);
    expect(results.map((result) => result.record_id)).not.toEqual(ids);
    expect(
      results
        .map((result) => Number(result.record_id))
        .toSorted((a, b) => a - b)
        .map(String),
    ).toEqual(ids);
  });

  it("duplicated, missing and foreign ones are counted wrong", async () => {
    const duplicated = await idsWith("duplicated");
    expect(duplicated.length).toBeGreaterThan(40);
    expect([...new Set(duplicated)]).toEqual(ids);
    const missing = await idsWith("missing");
    expect(missing.length).toBeLessThan(40);
    expect(ids).toEqual(expect.arrayContaining(missing));
    expect(await idsWith("foreign")).toEqual([...ids, "sandbox-foreign"]);
  });
});

const withoutEnvelope = ({ text }: Answered) => text.slice(text.indexOf('"results"'));

/** Text of an answer with a fault, and of a sound one for the same people. */
const pair = async (fault: string) => {
  const sound = await ask(await sandboxFor());
  const distorted = await ask(await sandboxWith(fault));
  expect(
    distorted.body.results.map((result) => [result.record_id, result.is_match, result.service_pid]),
  ).toEqual(sound.body.results.map((result) => [result.record_id, result.is_match, result.service_pid]));
  expect(withoutEnvelope(distorted)).not.toBe(withoutEnvelope(sound));
  return { sound, distorted };
};

describe("distortions", () => {
  it("unknown fields at the top and in lists", async () => {
    const { distorted } = await pair("unknown_fields");
    const owners = distorted.body.results.filter((result) => "sandbox_new_field" in result);
    expect(owners.length).toBeGreaterThan(0);
    expect(owners.length).toBeLessThan(40);
    expect(distorted.text).toMatch(/\[\{[^[\]]*"sandbox_new_field":[^[\]]*\}/);
  });

  it.each([
    ["wrong_elements", /\[(?:\{.*\},)?(?:"sandbox"|7|null)/],
    ["nul_text", /\\u0000/],
    ["lone_surrogates", /\\ud83d(?!\\ud|\\uD)|\\ude80/],
    ["null_lists", /"(?:personal_emails|professional_emails|education_minors)":null/],
    ["exponent_numbers", /"purchase_price":\d(?:\.\d+)?e\+[45]/],
    ["decimal_strings", /"estimated_current_value":"\d+\.\d+"/],
    ["huge_integers", /:(?:9007199254740993|9223372036854775807|123456789012345678901234567890)[,}]/],
    ["long_decimals", /:412345\.12345678901234567[,}]/],
    ["owner_spellings", /"is_current_owner":(?:"true"|"Y"|1|"false"|"N"|0)/],
  ])("%s", async (fault, pattern) => {
    const { sound, distorted } = await pair(fault);
    expect(sound.text).not.toMatch(pattern);
    expect(distorted.text).toMatch(pattern);
  });
});
