import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { idsExcept } from "./run-lookup.ts";
import {
  answerAll,
  envelope,
  fastClock,
  type Reply,
  resultOf,
  type SeenRequest,
  send,
} from "./scripted-service.ts";
import { has, look, sizesOf } from "./look.ts";

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
      // One call per whole batch, two per each of the six halvings.
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

describe("an answer with far more results than records", () => {
  const flood = gzipSync(`{"results":[${"{},".repeat(1000)}{}]}`);
  const floodWith = (n: number): Reply => {
    return (request, response) => {
      if (!has(request, n)) return answerAll(request, response);
      response.writeHead(200, { "content-encoding": "gzip" });
      response.end(flood);
    };
  };

  it("is asked for again record by record, and the record that is to blame is rejected", async () => {
    const run = await look(floodWith(2), 40, { batchSize: 20, concurrency: 1 });
    expect(run.error).toBeNull();
    expect(run.rejections).toMatchObject([{ stage: "answer", code: "answer_too_large" }]);
    expect(run.rejected).toEqual(["r2"]);
    expect(run.answered).toEqual(idsExcept(40, 2));
    expect(sizesOf(run.requests)).toEqual([20, ...Array.from({ length: 20 }, () => 1), 10, 10]);
  });

  it("rejects nothing while no other record is answered", async () => {
    const run = await look(floodWith(0), 1);
    expect([run.rejected, run.setAside, run.requests.length]).toEqual([[], ["r0"], 2]);
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
