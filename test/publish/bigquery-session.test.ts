import { expect, test } from "vitest";
import { BigQueryFailure } from "../../src/bigquery/failure.ts";
import { finishedJob, openSession } from "../../src/bigquery/session.ts";
import { clientOf } from "./bigquery-client.ts";

const running = () => ({ jobReference: { jobId: "j" }, status: { state: "RUNNING" } });

test("a job that does not end is given up at its deadline", async () => {
  const error = await finishedJob(clientOf(running, { jobDeadlineMs: 50 }), { jobId: "j" }).catch((e) => e);
  expect(error).toBeInstanceOf(BigQueryFailure);
  expect(error).toMatchObject({ code: "ETIMEDOUT", message: expect.stringContaining("job j has not ended") });
});

test("a stop ends the waiting for a job with its reason", async () => {
  const reason = new Error("SIGTERM");
  const stop = new AbortController();
  const waiting = finishedJob(clientOf(running, { signal: stop.signal }), { jobId: "j" });
  setTimeout(() => stop.abort(reason), 100);
  await expect(waiting).rejects.toBe(reason);
});

test("each job of a query has a request id of its own, so that a repeated request runs once", async () => {
  const ids: unknown[] = [];
  const client = clientOf((request) => {
    const { body } = request as { readonly body: { readonly requestId?: string } };
    ids.push(body.requestId);
    if (ids.length === 1) throw new BigQueryFailure("jobBackendError", "again", null);
    return { jobComplete: true, jobReference: { jobId: "j" }, rows: [] };
  });
  const session = openSession({ client, dataset: null, location: null, maximumBytesBilled: null });
  expect(await session.rows({ text: "SELECT 1" })).toEqual([]);
  expect(ids).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), expect.stringMatching(/^[0-9a-f-]{36}$/)]);
  expect(new Set(ids).size).toBe(2);
});

test("a query that may still run after its deadline is not started again", async () => {
  let started = 0;
  const client = clientOf(
    (request) => {
      const { method } = request as { readonly method: string };
      if (method === "POST") started += 1;
      return { jobComplete: false, ...running() };
    },
    { jobDeadlineMs: 50 },
  );
  const session = openSession({ client, dataset: null, location: null, maximumBytesBilled: null });
  await expect(session.rows({ text: "SELECT 1" })).rejects.toMatchObject({ code: "ETIMEDOUT" });
  expect(started).toBe(1);
});
