import { expect, test } from "vitest";
import { callFree } from "../../src/extract/free-call.ts";
import { openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import type { Attempt } from "../../src/extract/lookup.ts";
import { silentLog } from "../../src/log.ts";
import { fastClock, startService } from "./scripted-service.ts";

test("a call that got no answer tells whether it may have reached the service", async () => {
  const service = await startService(({ index }, response) => {
    if (index === 0) response.destroy();
    else response.end("{}");
  });
  const attempts: Attempt[] = [];
  const clock = fastClock(100);
  const http = openHttpClient({ baseUrl: service.url, readKey: async () => "key", concurrency: 1 });
  const ask = () =>
    callFree(
      {
        http,
        limiter: createLimiter({ concurrency: 1, requestsPerSecond: null, clock }),
        clock,
        log: silentLog,
        signal: new AbortController().signal,
        random: () => 0.5,
        onAttempt: (attempt) => void attempts.push(attempt),
      },
      { endpoint: "GET /usage", method: "GET", path: "/usage", body: null, read: () => "read" },
    );
  try {
    await ask();
    await service.close();
    await expect(ask()).rejects.toMatchObject({ code: "service_unreachable" });
  } finally {
    await http.close();
  }
  expect(attempts.slice(0, 3).map(({ httpStatus, isSent }) => [httpStatus, isSent])).toEqual([
    [null, true],
    [200, true],
    [null, false],
  ]);
});
