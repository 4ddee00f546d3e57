import { expect, onTestFinished, test } from "vitest";
import { callFree, type FreeCall } from "../../src/extract/free-call.ts";
import { openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import { silentLog } from "../../src/log.ts";
import { fastClock, type Reply, send, startService } from "./scripted-service.ts";
import type { Attempt } from "../../src/schemas/ledger.ts";

const USAGE = { name: "GET /usage", method: "GET", path: "/usage" } as const;

/** Makes free calls to a service, without waits between attempts. */
function openCaller(
  baseUrl: string,
  {
    callTimeoutMs = 60_000,
    onAttempt = () => {},
  }: { readonly callTimeoutMs?: number; readonly onAttempt?: (attempt: Attempt) => void } = {},
) {
  const clock = fastClock(100);
  const http = openHttpClient({ baseUrl, readKey: async () => "key", concurrency: 1, callTimeoutMs });
  onTestFinished(() => http.close());
  const limiter = createLimiter({ concurrency: 1, requestsPerSecond: null, clock });
  const signal = new AbortController().signal;
  const options = { http, limiter, clock, log: silentLog, signal, random: () => 0.5, onAttempt };
  return (call: Partial<FreeCall<string>> = {}) =>
    callFree(options, { endpoint: USAGE, read: () => "read", ...call });
}

/** Error of a call with only this answer. */
async function failureOf(reply: Reply, call: Partial<FreeCall<string>> = {}, callTimeoutMs = 60_000) {
  const service = await startService(reply);
  onTestFinished(() => service.close());
  return await openCaller(service.url, { callTimeoutMs })(call).catch((error: unknown) => error);
}

const NO_REPLY: Reply = () => {};
const REFUSAL: Reply = (_, response) => send(response, 422, { code: "validation_error" });

test.each<[string, Reply, RegExp]>([
  [
    "breaks off before the answer",
    (_, response) => void response.destroy(),
    /^GET \/usage: the connection was lost \((UND_ERR_SOCKET|ECONNRESET)\)\. Run again later\./u,
  ],
  [
    "breaks off in the middle of the answer",
    (_, response) => {
      response.writeHead(200, { "content-length": "1000" });
      response.write("{", () => response.destroy());
    },
    /^GET \/usage: the connection was lost \((UND_ERR_SOCKET|ECONNRESET)\)\. Run again later\./u,
  ],
  [
    "brings nothing",
    NO_REPLY,
    /^GET \/usage: no complete response was received in time \(CALL_TIMEOUT\)\. Run again later\./u,
  ],
  [
    "brings a failure",
    (_, response) => send(response, 500, {}),
    /^GET \/usage: the service returned 500\. Run again later\./u,
  ],
])("the message describes a connection that %s", async (_, reply, words) => {
  const failure = await failureOf(reply, {}, reply === NO_REPLY ? 100 : undefined);
  expect(failure).toMatchObject({ code: "no_answer", message: expect.stringMatching(words) });
});

test.each([
  [0, "It rejects the whole call: correct the job's settings."],
  [2, "It rejects the whole call: correct the job's settings or its query."],
])("a refused call with %i records names the response's fields to look at", async (recordsSent, words) => {
  expect(await failureOf(REFUSAL, { recordsSent })).toMatchObject({
    code: "request_refused",
    message: expect.stringContaining(`returned 422 validation_error. ${words}`),
  });
});

test("an unanswered call reports whether it may have reached the service", async () => {
  const service = await startService(({ index }, response) => {
    if (index === 0) response.destroy();
    else response.end("{}");
  });
  const attempts: Attempt[] = [];
  const ask = openCaller(service.url, { onAttempt: (attempt) => void attempts.push(attempt) });
  await ask();
  await service.close();
  await expect(ask()).rejects.toMatchObject({ code: "service_unreachable" });
  expect(attempts.slice(0, 3).map(({ httpStatus, isSent }) => [httpStatus, isSent])).toEqual([
    [null, true],
    [200, true],
    [null, false],
  ]);
});
