import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { call, people, recordsOf, sandboxFor, today } from "./support.ts";

const pid = people.pidOf(1, today);

describe("the key", () => {
  it("is the one that is set", async () => {
    const strict = await sandboxFor({ apiKey: "the-key" });
    const status = async (key: string) =>
      (await call(strict, "/v2/enrich", { records: [] }, { headers: { "x-api-key": key } })).status;
    expect([await status("the-key"), await status("another")]).toEqual([200, 401]);
  });
});

describe("a body", () => {
  it("must have its content type", async () => {
    const sandbox = await sandboxFor();
    const headers = { "content-type": "text/plain" };
    const untold = await call(sandbox, "/v2/enrich", { records: [] }, { headers });
    expect([untold.status, untold.body.code]).toEqual([400, "bad_request"]);
  });

  it("may come compressed", async () => {
    const sandbox = await sandboxFor();
    const headers = { "content-encoding": "gzip" };
    const body = gzipSync(JSON.stringify({ records: [{ record_id: "a", service_pid: pid }] }));
    const answer = await call(sandbox, "/v2/enrich", body, { method: "POST", headers });
    expect(answer.body.results[0]?.service_pid).toBe(pid);
    const broken = await call(sandbox, "/v2/enrich", body.subarray(0, 20), { method: "POST", headers });
    expect(broken.status).toBe(400);
  });
});

describe("answers", () => {
  it("are compressed for clients that take gzip, unless that is switched off", async () => {
    const records = recordsOf(50);
    const raw = async (options: object) => {
      const sandbox = await sandboxFor(options);
      const response = await fetch(`${sandbox.url}/v2/enrich`, {
        method: "POST",
        headers: { "x-api-key": "k", "content-type": "application/json", "accept-encoding": "gzip" },
        body: JSON.stringify({ records }),
      });
      const { results } = JSON.parse(await response.text());
      return [response.headers.get("content-encoding"), results.length];
    };
    expect(await raw({})).toEqual(["gzip", 50]);
    expect(await raw({ compresses: false })).toEqual([null, 50]);
  });
});
