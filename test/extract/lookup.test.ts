import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { addressItems, idsExcept, runLookup, someItems } from "./run-lookup.ts";
import { answerAll, envelope, type Reply, resultOf, send } from "./scripted-service.ts";
import { look, serve, sizesOf } from "./look.ts";

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

  it("sends parameters with the records, and records unchanged", async () => {
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
    const service = await serve(({ records }, response) => {
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
    const service = await serve(answerAll);
    const { requests, url } = service;
    const seen: number[] = [];
    await runLookup(url, someItems(80), {
      concurrency: 3,
      onAnswer: async () => {
        await delay(20);
        seen.push(requests.length);
      },
    });
    // While the n-th answer is read, at most two more calls were made.
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
    // The calls without them may have been billed for them.
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
