import { describe, expect, it } from "vitest";
import { ask, enrichTotals, sandboxWith } from "./fault-support.ts";
import { call } from "./support.ts";

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

  it("with a date as Retry-After are this many seconds ahead", async () => {
    const { headers } = await ask(await sandboxWith("429_date=60"));
    const awayMs = Date.parse(String(headers["retry-after"])) - Date.now();
    expect(awayMs).toBeGreaterThan(50_000);
    expect(awayMs).toBeLessThan(61_000);
  });

  it.each(["429_bare", "503"])("%s comes without Retry-After", async (fault) => {
    expect((await ask(await sandboxWith(fault))).headers).not.toHaveProperty("retry-after");
  });

  it("by size let smaller batches pass", async () => {
    expect((await ask(await sandboxWith("413=40"))).status).toBe(200);
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

  it("of poison may come without details, or as 500", async () => {
    const poisoned = [{ record_id: "1", last_name: "Poison" }];
    const blind = await ask(await sandboxWith("poison_blind"), poisoned);
    expect([blind.status, blind.body.details]).toEqual([422, undefined]);
    expect((await ask(await sandboxWith("poison_500"), poisoned)).status).toBe(500);
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
