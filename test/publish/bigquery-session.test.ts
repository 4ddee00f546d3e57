import { generateKeyPairSync } from "node:crypto";
import { writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { afterEach, expect, inject, test, vi } from "vitest";
import { type ClientOptions, openClient } from "../../src/bigquery/client.ts";
import { BigQueryFailure } from "../../src/bigquery/failure.ts";
import { finishedJob, openSession } from "../../src/bigquery/session.ts";
import { serve } from "../support/serve.ts";
import { clientOf } from "./bigquery-client.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

const target: ClientOptions = { project: "p", credentialsFile: null, impersonate: null, apiEndpoint: null };

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

test("a stop doesn't wait for requests and uploads that nobody answers", async () => {
  let arrived = 0;
  const apiEndpoint = await serve(() => (arrived += 1));
  const reason = new Error("SIGTERM");
  const stop = new AbortController();
  const client = openClient({ ...target, apiEndpoint, signal: stop.signal });
  const ends = [
    client.send({ method: "POST", path: "/queries", body: { query: "SELECT 1" } }),
    client.fetch(client.uploadUrl, { method: "POST", body: "{}" }),
  ].map((request) => request.catch((error: unknown) => [error, performance.now()]));
  await expect.poll(() => arrived, { timeout: 30_000 }).toBe(2);
  const atMs = performance.now();
  stop.abort(reason);
  for (const end of await Promise.all(ends)) expect(end).toEqual([reason, expect.closeTo(atMs, -2.6)]);
  await expect(client.send({ method: "GET", path: "/jobs" })).rejects.toBe(reason);
  expect(arrived).toBe(2);
});

test.each([
  ["a key file", null],
  ["impersonation", "loader@p.iam.gserviceaccount.com"],
])("an emulator gets no credentials, and nobody is asked for any: %s", async (_, impersonate) => {
  const seen: IncomingMessage[] = [];
  const url = await serve((request, response) => {
    seen.push(request);
    response.setHeader("content-type", "application/json").end("{}");
  });
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = {
    type: "service_account",
    client_email: "a@b.test",
    private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
    token_uri: `${url}/token`,
  };
  const credentialsFile = join(inject("runFolder"), "emulated-key.json");
  await writeFile(credentialsFile, JSON.stringify(key));
  vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", credentialsFile);
  vi.stubEnv("BIGQUERY_EMULATOR_HOST", new URL(url).host);
  const client = openClient({ ...target, credentialsFile, impersonate });
  await client.send({ method: "GET", path: "/datasets/d" });
  await client.send({ method: "POST", path: "/queries", body: { query: "SELECT 1" } });
  await client.fetch(client.uploadUrl, { method: "POST", body: "{}" });
  expect(seen.map(({ url }) => url?.replace(/\?.*/, ""))).toEqual([
    "/bigquery/v2/projects/p/datasets/d",
    "/bigquery/v2/projects/p/queries",
    "/upload/bigquery/v2/projects/p/jobs",
  ]);
  const names = seen.flatMap(({ headers }) => Object.keys(headers));
  expect(names.filter((name) => /auth|token|cookie|user-project/.test(name))).toEqual([]);
  expect(seen.some((request) => JSON.stringify(request.headers).includes("b.test"))).toBe(false);
});
