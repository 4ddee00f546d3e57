import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { FAULTS } from "../src/faults/catalog.ts";
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

const problems = () => {
  try {
    parseFaults("unheard_of:0.5,500:7,!!");
  } catch (error) {
    return error instanceof Error && "problems" in error ? error.problems : error;
  }
  return null;
};

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
    expect(problems()).toEqual([
      expect.objectContaining({
        path: "--faults unheard_of:0.5",
        message: expect.stringContaining("There is no fault"),
      }),
      expect.objectContaining({ path: "--faults 500:7", message: "The rate must be between 0 and 1." }),
      expect.objectContaining({ path: "--faults !!", message: "Not a fault rule." }),
    ]);
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

it("every fault of the catalog has a description and is documented", async () => {
  const docs = await readFile(new URL("../../../docs/reference/sandbox-faults.md", import.meta.url), "utf8");
  for (const [name, { doc }] of Object.entries(FAULTS)) {
    expect(doc).not.toBe("");
    expect(docs).toContain(`| \`${name}\` | ${doc} |`);
  }
});

const bodyUnder = async (faults: string) => (await ask(await sandboxWith(faults))).body;

describe("refusals", () => {
  it.each([
    ["429", { status: 429, body: { code: "rate_limit_reached" }, headers: { "retry-after": "1" } }],
    ["429=7", { status: 429, headers: { "retry-after": "7" } }],
    ["429_bare", { status: 429, body: { code: "rate_limit_reached" } }],
    ["503", { status: 503 }],
    ["503=3", { status: 503, headers: { "retry-after": "3" } }],
    ["500", { status: 500, body: { message: "Unexpected server error." } }],
    ["504", { status: 504 }],
    [
      "502",
      {
        status: 502,
        headers: { "content-type": "text/html" },
        text: expect.stringContaining("<h1>502 Bad Gateway</h1>"),
      },
    ],
    [
      "402_credits=3",
      { status: 402, body: { code: "insufficient_credits", details: { records_remaining: 3 } } },
    ],
    ["revoked", { status: 401, body: { code: "unauthorized" } }],
    ["forbidden", { status: 403, body: { code: "forbidden" } }],
    ["redirect", { status: 302, headers: { location: "http://elsewhere.invalid/v2/enrich" } }],
    ["413=39", { status: 413, body: { code: "payload_too_large" } }],
    [
      "402=12",
      {
        status: 402,
        body: {
          code: "insufficient_record_capacity",
          details: {
            records_available: 12,
            allowance_records_available: 12,
            overage_records_available: 0,
            records_requested: 40,
          },
        },
      },
    ],
    [
      "string_too_long",
      {
        status: 422,
        body: {
          code: "unprocessable_entity",
          details: [
            {
              loc: ["body", "records", expect.stringMatching(/^\d+$/), "service_pid"],
              type: "string_too_long",
            },
          ],
        },
      },
    ],
  ])("%s is answered as documented, and bills nothing", async (fault, expected) => {
    const sandbox = await sandboxWith(fault);
    expect(await ask(sandbox)).toMatchObject(expected);
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

  it("come in every documented shape", async () => {
    const id = expect.any(String);
    expect(await bodyUnder("forbidden,legacy_errors")).toEqual({
      api_request_id: id,
      error_message: "The API key is not authorized for this route or plan.",
    });
    expect(await bodyUnder("forbidden,status_code_errors")).toEqual({
      error: "The API key is not authorized for this route or plan.",
      status_code: 403,
    });
    expect(await bodyUnder("forbidden,deprecated_fields")).toEqual({
      code: "forbidden",
      message: "The API key is not authorized for this route or plan.",
      api_request_id: id,
      statusCode: 403,
      body: { error_message: "The API key is not authorized for this route or plan." },
    });
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
