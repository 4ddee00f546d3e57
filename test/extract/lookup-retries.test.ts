import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { idsExcept, runLookup, someItems } from "./run-lookup.ts";
import { answerAll, envelope, type Reply, resultOf, send } from "./scripted-service.ts";
import { has, look, serve } from "./look.ts";

describe("calls refused without a charge", () => {
  it("is retried after 429, and counts as retried", async () => {
    const run = await look((request, response) => {
      if (request.index === 0) send(response, 429, { code: "rate_limit_reached" }, { "retry-after": "2" });
      else answerAll(request, response);
    }, 4);
    expect(run.answered).toEqual(idsExcept(4));
    expect(run.attempts).toMatchObject([
      { httpStatus: 429, attempt: 1, possiblyBilled: false },
      { httpStatus: 200, attempt: 2, possiblyBilled: false },
    ]);
  });

  it("is retried after 503 and after a failure to connect, without a bound on attempts", async () => {
    const run = await look((request, response) => {
      if (request.index < 6) send(response, 503, "<html>busy</html>");
      else answerAll(request, response);
    }, 4);
    expect(run.answered).toEqual(idsExcept(4));
    expect(run.attempts.map(({ httpStatus }) => httpStatus)).toEqual([503, 503, 503, 503, 503, 503, 200]);
  });

  it("is a quota after five minutes of 429: limited, with nothing counted as sent", async () => {
    const run = await look((_, response) => {
      send(response, 429, { code: "rate_limit_reached" });
    }, 40);
    expect(run.error).toMatchObject({ name: "LimitReachedError", code: "quota" });
    expect(run).toMatchObject({ answers: [], asides: [], sent: [] });
  });

  it("ends the run when the service can't be reached for half a minute", async () => {
    const service = await serve(answerAll);
    await service.close();
    const run = await runLookup(service.url, someItems(40));
    expect(run.error).toMatchObject({ name: "StopRunError", code: "service_unreachable" });
    expect(run.attempts[0]).toMatchObject({
      httpStatus: null,
      isSent: false,
      recordsSent: 0,
      possiblyBilled: false,
    });
    expect(run.sent).toEqual([]);
  });

  it("does not read further input: the queue of retries is bounded", async () => {
    const run = await look(
      ({ records, index }, response) => {
        if (index < 10) send(response, 503, {});
        else send(response, 200, envelope(records.map(resultOf)));
      },
      200,
      { concurrency: 2 },
    );
    expect(run.answered).toHaveLength(200);
    const early = run.requests.slice(0, 10).flatMap(({ records }) => records.map((r) => r["record_id"]));
    expect(new Set(early).size).toBe(8);
  });
});

describe("calls that may have been charged", () => {
  const losses: [string, Reply][] = [
    ["500", (_, response) => send(response, 500, { error: "oops", status_code: 500 })],
    ["502 with HTML", (_, response) => send(response, 502, "<html></html>")],
    ["504", (_, response) => send(response, 504, "")],
    ["a cut connection", (_, response) => response.destroy()],
    ["truncated JSON", (_, response) => send(response, 200, '{"results":[{"record_id":"r0"')],
    ["no envelope", (_, response) => send(response, 200, { results: null })],
    [
      "a body that doesn't decompress",
      (_, response) => send(response, 200, "no gzip", { "content-encoding": "gzip" }),
    ],
    ["silence", () => undefined],
  ];

  it.each(losses)("is retried once after %s", async (_name, lose) => {
    const run = await look(
      async (request, response) => {
        if (request.index === 0) await lose(request, response);
        else answerAll(request, response);
      },
      4,
      { http: { readTimeoutMs: 100 } },
    );
    expect(run.answered).toEqual(idsExcept(4));
    expect(run.attempts).toMatchObject([
      { attempt: 1, possiblyBilled: true, possiblyBilledTwice: 0, recordsMatched: null },
      { attempt: 2, possiblyBilled: false, possiblyBilledTwice: 4, recordsMatched: 4 },
    ]);
  });

  it.each(losses)("is set aside after %s twice, and counts as sent", async (_name, lose) => {
    const run = await look(
      async (request, response) => {
        if (has(request, 0)) await lose(request, response);
        else answerAll(request, response);
      },
      8,
      { http: { readTimeoutMs: 100 } },
    );
    expect(run.error).toBeNull();
    expect(run.setAside).toEqual(["r0", "r1", "r2", "r3"]);
    expect(run.answered).toEqual(["r4", "r5", "r6", "r7"]);
    expect(run.sent).toEqual(idsExcept(8));
    expect(run.attempts.filter(({ possiblyBilled }) => possiblyBilled)).toMatchObject([
      { possiblyBilledTwice: 0 },
      { possiblyBilledTwice: 4 },
    ]);
  });

  it("stops the job when five batches in a row get no answer", async () => {
    const run = await look((_, response) => send(response, 500, {}), 200, { concurrency: 1 });
    expect(run.error).toMatchObject({ name: "StopJobError", code: "service_failing" });
    expect(run.setAside).toHaveLength(20);
    expect(run.requests).toHaveLength(10);
  });
});

describe("the key and the route", () => {
  it("401 reads the key again and continues with the new one", async () => {
    const keys = ["old", "new"];
    const run = await look(
      (request, response) => {
        if (request.headers["x-api-key"] === "new") answerAll(request, response);
        else send(response, 401, { code: "unauthorized" });
      },
      20,
      { http: { readKey: async () => keys.shift() ?? "new" } },
    );
    expect(run.error).toBeNull();
    expect(run.answered).toHaveLength(20);
  });

  it("401 with the same key ends the run, after what is in flight was yielded", async () => {
    const run = await look(async (request, response) => {
      if (has(request, 0)) return send(response, 401, { error: "no", status_code: 401 });
      await delay(100);
      return answerAll(request, response);
    }, 40);
    expect(run.error).toMatchObject({ name: "StopRunError", code: "key_rejected" });
    expect(run.requests).toHaveLength(2);
    expect(run.answered).toEqual(["r4", "r5", "r6", "r7"]);
    expect(run.sent).toEqual(run.answered);
  });

  it.each([
    [403, "forbidden"],
    [404, "not_found"],
    [405, "method_not_allowed"],
    [418, "unexpected_status"],
  ])("%s stops the job", async (status, code) => {
    const run = await look((_, response) => send(response, status, {}), 40);
    expect(run.error).toMatchObject({ name: "StopJobError", code });
    expect(run.requests.length).toBeLessThanOrEqual(2);
    expect(run.sent).toEqual([]);
  });

  it("a redirect ends the run and reports no more than where it points to", async () => {
    const location = "https://elsewhere.example/First30.Last30/the-api-key?next=secret";
    const run = await look((_, response) => send(response, 308, "", { location }), 4);
    expect(run.error).toMatchObject({
      name: "StopRunError",
      code: "redirected",
      message: expect.stringMatching(
        /308 and points to https:\/\/elsewhere\.example\. Redirects .* Ask the service whether it has moved\.$/,
      ),
    });
  });
});
