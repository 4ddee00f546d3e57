import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { addressItems, idsExcept, type LookupSetting, runLookup, someItems } from "./run-lookup.ts";
import {
  answerAll,
  envelope,
  fastClock,
  type Reply,
  resultOf,
  type ScriptedService,
  type SeenRequest,
  send,
  startService,
} from "./scripted-service.ts";

let service: ScriptedService | null = null;
afterEach(async () => {
  await service?.close();
  service = null;
});

/** Looks up so many records at a service that answers as given. */
async function look(reply: Reply, count: number, setting: LookupSetting = {}) {
  service = await startService(reply);
  const run = await runLookup(service.url, someItems(count), setting);
  return { ...run, requests: service.requests };
}

const sizesOf = (requests: readonly SeenRequest[]) => requests.map(({ records }) => records.length);
const has = (request: SeenRequest, n: number) => request.records.some((r) => r["record_id"] === `r${n}`);

describe("a lookup that goes well", () => {
  it("sends pages of any size in equal batches and yields every record with its own result", async () => {
    const run = await look(answerAll, 10, { pageSize: 3 });
    expect(run.error).toBeNull();
    expect(run.answered).toEqual(idsExcept(10));
    expect(sizesOf(run.requests).toSorted((a, b) => a - b)).toEqual([2, 4, 4]);
    for (const outcome of run.answers) {
      expect(outcome).toMatchObject({
        results: outcome.items.map((item) => ({ record_id: item.recordId, is_match: true })),
        apiRequestId: "req-1",
        answeredAt: "2026-11-20T01:02:03.123456+00:00",
      });
    }
    expect(run.sent).toEqual(idsExcept(10));
  });

  it("sends parameters beside the records, and records as they are", async () => {
    const run = await look(answerAll, 2, {
      parameters: { return_fields: ["age"], include_premium_fields: true },
    });
    expect(run.requests[0]?.body).toEqual({
      records: [
        { record_id: "r0", city: "c0" },
        { record_id: "r1", city: "c1" },
      ],
      return_fields: ["age"],
      include_premium_fields: true,
    });
  });

  it("keeps the ledger's entry of each call", async () => {
    const run = await look(({ records }, response) => {
      const results = records.map((r, i) => ({ ...resultOf(r), is_match: i !== 0 }));
      send(response, 200, envelope(results, "abc"));
    }, 3);
    expect(run.attempts).toEqual([
      {
        callId: expect.stringMatching(/^[0-9a-f-]{36}$/u),
        endpoint: "POST /v2/enrich",
        apiRequestId: "abc",
        startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/u),
        requestCompletedAt: "2026-11-20T01:02:03.123456+00:00",
        milliseconds: expect.any(Number),
        httpStatus: 200,
        attempt: 1,
        isSent: true,
        recordsSent: 3,
        recordsMatched: 2,
        responseBytes: expect.any(Number),
        possiblyBilled: false,
        possiblyBilledTwice: 0,
      },
    ]);
  });

  it("validates addresses, found by position and address", async () => {
    service = await startService(({ records }, response) => {
      send(response, 200, envelope(records.map(resultOf).toReversed()));
    });
    const run = await runLookup(service.url, addressItems(["a@x.org", "B@x.org"]));
    expect(service.requests[0]?.body).toEqual({ records: ["a@x.org", "B@x.org"] });
    expect(run.answers).toMatchObject([
      { results: [{ email_address: "a@x.org" }, { email_address: "B@x.org" }], items: [{}, {}] },
    ]);
  });

  it("does nothing without records", async () => {
    const run = await look(answerAll, 0);
    expect(run).toMatchObject({ answers: [], requests: [], error: null });
  });

  it("makes as many calls at a time as it may, and reads no further than that", async () => {
    let running = 0;
    let most = 0;
    const run = await look(
      async (request, response) => {
        most = Math.max(most, ++running);
        await delay(20);
        running -= 1;
        answerAll(request, response);
      },
      60,
      { concurrency: 3 },
    );
    expect(run.answered).toHaveLength(60);
    expect(most).toBe(3);
  });

  it("does not send further calls until answers are consumed", async () => {
    service = await startService(answerAll);
    const { requests, url } = service;
    const seen: number[] = [];
    await runLookup(url, someItems(80), {
      concurrency: 3,
      onAnswer: async () => {
        await delay(20);
        seen.push(requests.length);
      },
    });
    // The n-th answer is being looked at: it and at most two calls more were made since.
    for (const [n, count] of seen.entries()) expect(count).toBeLessThanOrEqual(n + 1 + 3);
  });

  it("makes batches smaller when answers grow beyond 4 MB", async () => {
    const run = await look(
      ({ records }, response) => {
        const results = records.map((record) => ({ ...resultOf(record), padding: "x".repeat(1024 * 1024) }));
        response.writeHead(200, { "content-encoding": "gzip" });
        response.end(gzipSync(JSON.stringify(envelope(results))));
      },
      31,
      { batchSize: 16, concurrency: 1, pageSize: 31 },
    );
    expect(run.answered).toHaveLength(31);
    expect(sizesOf(run.requests)).toEqual([16, 3, 3, 3, 3, 3]);
  });
});

describe("results", () => {
  it("that are shuffled, repeated or unknown find their records", async () => {
    const run = await look(({ records }, response) => {
      const results = records.map(resultOf);
      send(response, 200, envelope([{ record_id: "who" }, ...results.toReversed(), ...results]));
    }, 4);
    expect(run.answers).toMatchObject([
      { results: [{ record_id: "r0" }, { record_id: "r1" }, { record_id: "r2" }, { record_id: "r3" }] },
    ]);
  });

  it("that were left out are requested a second time, in a separate call", async () => {
    const leftOut = new Set(["r1", "r6"]);
    const run = await look(({ records }, response) => {
      const results = records.map(resultOf).filter((result) => !leftOut.delete(String(result["record_id"])));
      send(response, 200, envelope(results));
    }, 8);
    expect(run.answered).toEqual(idsExcept(8));
    expect(
      run.requests
        .at(-1)
        ?.records.map((r) => r["record_id"])
        .toSorted(),
    ).toEqual(["r1", "r6"]);
    expect(run.attempts.map(({ attempt }) => attempt).toSorted((a, b) => a - b)).toEqual([1, 1, 2]);
    // The calls that left them out may have been charged for them.
    expect(run.attempts.map(({ possiblyBilledTwice }) => possiblyBilledTwice)).toEqual([0, 0, 2]);
    expect(run.sent).toEqual(idsExcept(8));
  });

  it("that are left out twice reject their records", async () => {
    const run = await look(({ records }, response) => {
      send(response, 200, envelope(records.filter((r) => r["record_id"] !== "r2").map(resultOf)));
    }, 8);
    expect(run.answered).toEqual(idsExcept(8, 2));
    expect(run.rejections).toContainEqual({
      items: [someItems(3)[2]],
      stage: "answer",
      code: "missing_result",
      message: "POST /v2/enrich: two answers had no result for this record.",
      details: null,
      apiRequestId: "req-1",
    });
    expect(run.requests).toHaveLength(3);
  });
});

const empty: Reply = (_, response) => send(response, 200, envelope([]));

describe("an answer without results", () => {
  it("is ambiguous: it may have been charged, and is retried once", async () => {
    const run = await look((request, response) => {
      if (request.index === 0) return empty(request, response);
      return answerAll(request, response);
    }, 4);
    expect(run.answered).toEqual(idsExcept(4));
    expect(run.attempts).toMatchObject([
      { possiblyBilled: true, possiblyBilledTwice: 0, recordsMatched: null },
      { possiblyBilled: false, possiblyBilledTwice: 4, recordsMatched: 4 },
    ]);
  });

  it.each([1, 2])(
    "for every batch stops the job and rejects no record (concurrency %s)",
    async (concurrency) => {
      const run = await look(empty, 200, { concurrency });
      expect(run.error).toMatchObject({ code: "service_failing" });
      expect(run.rejected).toEqual([]);
      expect(run.setAside.length).toBeLessThanOrEqual(24);
    },
  );

  it("that lacks most results leaves their records unanswered, and three of them stop the job", async () => {
    const run = await look(
      ({ records }, response) => send(response, 200, envelope(records.slice(0, 1).map(resultOf))),
      200,
      { batchSize: 8, concurrency: 1 },
    );
    expect(run.error).toMatchObject({ code: "similar_failures" });
    expect(run.rejected).toEqual([]);
    expect(run.answered.length + run.setAside.length).toBe(24);
  });
});

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
    service = await startService(answerAll);
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

  it("a redirect ends the run and reports its target", async () => {
    const location = "https://elsewhere.example/login?next=secret";
    const run = await look((_, response) => send(response, 308, "", { location }), 4);
    expect(run.error).toMatchObject({
      name: "StopRunError",
      code: "redirected",
      message: expect.stringContaining("308 and points to https://elsewhere.example/login."),
    });
  });
});

describe("records that the service refuses", () => {
  const bad = { code: "unprocessable_entity", message: "Ann Lee is bad", api_request_id: "x-1" };

  it("and names are rejected, and the others are retried", async () => {
    const run = await look(({ records }, response) => {
      const details = records.flatMap((r, i) =>
        ["r1", "r6"].includes(String(r["record_id"]))
          ? [{ loc: ["body", "records", String(i), "emails"], type: "string_too_long" }]
          : [],
      );
      if (details.length > 0) send(response, 422, { ...bad, details });
      else send(response, 200, envelope(records.map(resultOf)));
    }, 12);
    expect(run.error).toBeNull();
    expect(run.answered).toEqual(idsExcept(12, 1, 6));
    expect(run.rejected).toEqual(["r1", "r6"]);
    expect(run.requests).toHaveLength(5);
    expect(run.rejections[0]).toMatchObject({
      stage: "send",
      code: "string_too_long",
      message: expect.stringMatching(
        /^POST \/v2\/enrich: the service rejected this record \(422 unprocessable_entity\): emails \(string_too_long\)\.$/u,
      ),
      details: [{ path: "emails", type: "string_too_long" }],
      apiRequestId: "x-1",
    });
  });

  it.each([400, 422])(
    "and doesn't name (%s) are found by halving, with their neighbours answered",
    async (status) => {
      const run = await look(
        (request, response) => {
          if (has(request, 37)) send(response, status, bad);
          else answerAll(request, response);
        },
        192,
        { batchSize: 64 },
      );
      expect(run.error).toBeNull();
      expect(run.rejected).toEqual(["r37"]);
      expect(run.answered).toEqual(idsExcept(192, 37));
      // One call for each whole batch, two for each of the six halvings.
      expect(run.requests).toHaveLength(3 + 12);
    },
  );

  it("cost at most 64 calls a batch; what is left then is set aside", async () => {
    const run = await look(
      (request, response) => {
        const isBad = request.records.some((r) => Number(String(r["record_id"]).slice(1)) % 2 === 0);
        if (isBad) send(response, 422, bad);
        else answerAll(request, response);
      },
      200,
      { batchSize: 200, concurrency: 1, pageSize: 200 },
    );
    expect(run.requests).toHaveLength(64);
    expect(run.error).toBeNull();
    const { answered, rejected, setAside } = run;
    expect([...answered, ...rejected, ...setAside].toSorted()).toEqual(idsExcept(200).toSorted());
    expect(rejected.every((id) => Number(id.slice(1)) % 2 === 0)).toBe(true);
    expect(setAside.length).toBeGreaterThan(0);
  });

  it("for a fault outside them stop the job at once", async () => {
    const details = [{ loc: ["body", "match_condition_fields", 0], type: "enum" }];
    const run = await look((_, response) => send(response, 422, { ...bad, details }), 4);
    expect(run.requests).toHaveLength(1);
    expect(run.error).toMatchObject({
      name: "StopJobError",
      code: "request_refused",
      message: expect.stringContaining("body.match_condition_fields.0 (enum)"),
    });
    expect(String(run.error)).not.toContain("Ann");
  });

  it.each([true, false])(
    "in three batches in a row stop the job as a wrong mapping (named: %s)",
    async (isNamed) => {
      const run = await look(
        ({ records }, response) => {
          const details = records.map((_, i) => ({ loc: ["records", i, "city"], type: "string_type" }));
          send(response, 422, isNamed ? { ...bad, details } : bad);
        },
        400,
        { concurrency: 1 },
      );
      expect(run.error).toMatchObject({ name: "StopJobError", code: "similar_failures" });
      expect(run.rejected).toHaveLength(12);
      expect(run.requests).toHaveLength(isNamed ? 3 : 21);
    },
  );

  it("in large batches that can't be isolated stop the job too", async () => {
    const run = await look((_, response) => send(response, 400, bad), 2000, {
      batchSize: 500,
      concurrency: 1,
      pageSize: 500,
    });
    expect(run.error).toMatchObject({ code: "similar_failures" });
    expect(run.requests).toHaveLength(192);
    expect(run.rejected.length + run.setAside.length).toBe(1500);
  });

  it("now and then do not stop the job", async () => {
    const run = await look(
      (request, response) => {
        const isBad = request.records.some((r) => Number(String(r["record_id"]).slice(1)) % 8 === 0);
        if (isBad) send(response, 422, bad);
        else answerAll(request, response);
      },
      80,
      { batchSize: 8 },
    );
    expect(run.error).toBeNull();
    expect(run.rejected).toHaveLength(10);
    expect(run.answered).toHaveLength(70);
  });
});

/** Number of a request's batch of four. */
const batchOf = ({ records }: SeenRequest) =>
  Math.floor(Number(String(records[0]?.["record_id"]).slice(1)) / 4);
const refuse = (request: SeenRequest, response: Parameters<Reply>[1], type: string) => {
  const details = request.records.map((_, i) => ({ loc: ["records", i, "city"], type }));
  send(response, 422, { code: "unprocessable_entity", details });
};

describe("batches that fail", () => {
  it("with good ones between them do not stop the job, whether refused or unanswered", async () => {
    const setting = { concurrency: 1, clock: fastClock(1000) };
    const refused = await look(
      (request, response) => {
        if (batchOf(request) % 2 === 0) refuse(request, response, "string_type");
        else answerAll(request, response);
      },
      48,
      setting,
    );
    expect(refused.error).toBeNull();
    expect(refused.rejected).toHaveLength(24);
    await service?.close();
    const unanswered = await look(
      (request, response) => {
        if (batchOf(request) % 2 === 0) send(response, 500, {});
        else answerAll(request, response);
      },
      48,
      setting,
    );
    expect(unanswered.error).toBeNull();
    expect(unanswered.setAside).toHaveLength(24);
    expect(unanswered.answered).toHaveLength(24);
  });

  it("for different reasons do not stop the job", async () => {
    const run = await look(
      (request, response) =>
        refuse(request, response, batchOf(request) % 2 === 0 ? "string_type" : "list_type"),
      32,
      { concurrency: 1 },
    );
    expect(run.error).toBeNull();
    expect(run.rejected).toHaveLength(32);
  });
});

describe("413", () => {
  it("halves batches until they fit, for the rest of the run", async () => {
    const run = await look(
      (request, response) => {
        if (request.records.length > 10) send(response, 413, { code: "payload_too_large" });
        else answerAll(request, response);
      },
      160,
      { batchSize: 40, concurrency: 1, pageSize: 160 },
    );
    expect(run.answered).toEqual(idsExcept(160));
    expect(sizesOf(run.requests)).toEqual([40, 20, ...Array.from({ length: 16 }, () => 10)]);
  });

  it("rejects a record that is too large on its own", async () => {
    const run = await look((request, response) => {
      if (has(request, 2)) send(response, 413, { code: "payload_too_large" });
      else answerAll(request, response);
    }, 8);
    expect(run.rejected).toEqual(["r2"]);
    expect(run.answered).toEqual(idsExcept(8, 2));
  });
});

/** A plan that covers so many records more, told in the given form. */
function plan(capacity: number, tell: (left: number) => object, chargeOnlyEven = false): Reply {
  let left = capacity;
  return (request, response) => {
    if (request.records.length > left) {
      send(response, 402, { code: "insufficient_record_capacity", ...tell(left) });
      return;
    }
    left -= chargeOnlyEven ? Math.floor(request.records.length / 2) : request.records.length;
    answerAll(request, response);
  };
}

describe("402", () => {
  it.each([
    ["in details", (left: number) => ({ details: { records_available: left, records_requested: 4 } })],
    ["as text at the top", (left: number) => ({ records_remaining: String(left) })],
  ])("uses up what is left (reported %s) and stops as limited", async (_name, tell) => {
    const run = await look(plan(27, tell), 100, { concurrency: 4 });
    expect(run.error).toMatchObject({ name: "LimitReachedError", code: "credits" });
    expect(run.answered).toHaveLength(27);
    expect(run.sent).toEqual(run.answered);
    expect(run.requests.length).toBeLessThanOrEqual(7 + 4 + 3);
  });

  it("makes one call at a time from then on", async () => {
    let running = 0;
    const runningAtStart: number[] = [];
    const run = await look(
      async (request, response) => {
        running += 1;
        runningAtStart.push(running);
        if (request.index > 0) await delay(request.index < 4 ? 50 : 5);
        running -= 1;
        if (request.index === 0) send(response, 402, { records_remaining: 50 });
        else answerAll(request, response);
      },
      60,
      { concurrency: 4 },
    );
    expect(run.answered).toHaveLength(60);
    expect(runningAtStart.slice(4).every((count) => count === 1)).toBe(true);
  });

  it("does not count answers that were under way against what is left", async () => {
    const run = await look(
      async (request, response) => {
        if (request.index > 0) await delay(50);
        if (request.index === 0) send(response, 402, { records_remaining: 3 });
        else if (request.index > 4) send(response, 402, { records_remaining: 0 });
        else answerAll(request, response);
      },
      60,
      { concurrency: 4 },
    );
    expect(sizesOf(run.requests)).toEqual([4, 4, 4, 4, 3, 1]);
  });

  it("cancels calls that still wait for the rate limit", async () => {
    const run = await look(
      (request, response) => {
        if (request.index !== 1) send(response, 402, { records_remaining: request.index === 0 ? 2 : 0 });
        else answerAll(request, response);
      },
      60,
      { concurrency: 4, requestsPerSecond: 1 },
    );
    expect(sizesOf(run.requests)).toEqual([4, 2, 2]);
    expect(run.answered).toEqual(["r0", "r1"]);
  });

  it("continues while the plan covers more, such as when only matches are charged", async () => {
    const run = await look(
      plan(20, (left) => ({ details: { records_available: left } }), true),
      200,
      { batchSize: 10, concurrency: 1 },
    );
    expect(run.error).toMatchObject({ code: "credits" });
    expect(run.answered.length).toBeGreaterThanOrEqual(38);
  });

  it("stops immediately if it doesn't report what is left", async () => {
    const run = await look(
      plan(8, () => ({})),
      100,
      { concurrency: 1 },
    );
    expect(run.error).toMatchObject({ code: "credits" });
    expect(run.requests).toHaveLength(3);
    expect(run.answered).toEqual(idsExcept(8));
  });
});

describe("the end", () => {
  it("comes early at a signal: calls in flight complete and are yielded, nothing else is sent", async () => {
    const stop = new AbortController();
    const run = await look(
      async (request, response) => {
        if (request.index === 1) stop.abort();
        await delay(50);
        answerAll(request, response);
      },
      100,
      { signal: stop.signal },
    );
    expect(run.error).toBeNull();
    expect(run.requests).toHaveLength(2);
    expect(run.answered).toEqual(idsExcept(8));
  });

  it("sends nothing if the signal came before it started", async () => {
    const run = await look(answerAll, 100, { signal: AbortSignal.abort() });
    expect(run).toMatchObject({ answers: [], requests: [], error: null });
  });

  it("does not wait out a long pause at a signal", async () => {
    const stop = new AbortController();
    const began = performance.now();
    const run = await look(
      (_, response) => {
        setTimeout(() => {
          stop.abort();
        }, 50);
        send(response, 429, {}, { "retry-after": "300" });
      },
      100,
      { signal: stop.signal, concurrency: 3, clock: systemClock },
    );
    expect(run.error).toBeNull();
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  it.each([
    [402, 403],
    [403, 402],
  ])("names the failure when a limit is met as well (%s, then %s)", async (first, second) => {
    const run = await look(async (request, response) => {
      if (!has(request, 0)) await delay(50);
      send(response, has(request, 0) ? first : second, {});
    }, 8);
    expect(run.error).toMatchObject({ name: "StopJobError", code: "forbidden" });
  });

  it("comes after what is in flight when an answer can't be taken, and nothing else is sent", async () => {
    let answers = 0;
    const run = await look(
      async (request, response) => {
        await delay(30 * request.index);
        answerAll(request, response);
      },
      100,
      {
        onAnswer: () => {
          answers += 1;
          if (answers === 1) throw new Error("no room on disk");
        },
      },
    );
    expect(run.error).toMatchObject({ message: "no room on disk" });
    expect(run.requests).toHaveLength(2);
    expect(run.answered).toHaveLength(8);
  });

  it("is what the source threw, after what is in flight was yielded", async () => {
    service = await startService(answerAll);
    const items = someItems(4);
    const broken = new Proxy(items, {
      get: (target, key, receiver) => {
        if (key === "slice") {
          return (from: number, to?: number) => {
            if (from > 0) throw new Error("the input is gone");
            return target.slice(from, to);
          };
        }
        return Reflect.get(target, key, receiver) as unknown;
      },
    });
    Object.defineProperty(broken, "length", { value: 10 });
    const run = await runLookup(service.url, broken, { pageSize: 4 });
    expect(run.error).toMatchObject({ message: "the input is gone" });
    expect(run.answered).toEqual(idsExcept(4));
  });
});
