import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type HttpClient, type HttpClientOptions, openHttpClient } from "../../src/extract/http-client.ts";
import { startSecureServer } from "./company-network.ts";
import { makeSelfSigned } from "./self-signed.ts";
import { type Reply, type ScriptedService, send, startService } from "./scripted-service.ts";

function open(baseUrl: string, options: Partial<HttpClientOptions> = {}): HttpClient {
  const client = openHttpClient({ baseUrl, concurrency: 4, readKey: async () => "key-1", ...options });
  onTestFinished(() => client.close());
  return client;
}

async function service(reply: Reply): Promise<ScriptedService> {
  const started = await startService(reply);
  onTestFinished(() => started.close());
  return started;
}

const post = { method: "POST", path: "/v2/enrich", body: '{"records":[]}' } as const;

/** Path of a file that does not exist. */
async function makePath(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "http-client-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, "body");
}

describe("a body that is too large for the memory", () => {
  it.each([
    ["a stated", true],
    ["an unknown", false],
  ])("and has %s length is in a file, which only this user can read", async (_, isStated) => {
    const text = Array.from({ length: 30_000 }, (_, n) => String(n)).join(" ");
    const { url } = await service((_, response) => {
      response.writeHead(200, isStated ? { "content-length": text.length } : {});
      for (let at = 0; at < text.length; at += 7000) response.write(text.slice(at, at + 7000));
      response.end();
    });
    const path = await makePath();
    const reply = await open(url, { maxBodyBytes: 100_000 }).request({ ...post, overflowPath: path });
    expect(reply).toMatchObject({
      kind: "response",
      status: 200,
      body: { path, start: 0, length: text.length },
    });
    expect(await readFile(path, "utf8")).toBe(text);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
  });

  it("and can't be written ends the request with the error of the disk", async () => {
    const { url } = await service((_, response) => {
      send(response, 200, "x".repeat(5000));
    });
    const path = join(await makePath(), "nowhere");
    const sent = open(url, { maxBodyBytes: 1000 }).request({ ...post, overflowPath: path });
    await expect(sent).rejects.toMatchObject({ name: "OverflowError", cause: { code: "ENOENT" } });
  });

  it("and breaks off leaves no file", async () => {
    const { url } = await service((_, response) => {
      response.writeHead(200, { "content-length": 9000 });
      response.write("x".repeat(5000), () => response.destroy());
    });
    const path = await makePath();
    const reply = await open(url, { maxBodyBytes: 1000 }).request({ ...post, overflowPath: path });
    expect(reply).toMatchObject({ kind: "failure", sent: true, status: 200 });
    await expect(stat(path)).rejects.toMatchObject({ code: "ENOENT" });
  });
});

describe("a request", () => {
  it("carries the key, asks for gzip, and comes back as received", async () => {
    const { url, requests } = await service((_, response) => {
      send(response, 200, "", {});
    });
    await open(`${url}/prefix/`).request(post);
    expect(requests[0]).toMatchObject({
      method: "POST",
      path: "/prefix/v2/enrich",
      body: { records: [] },
      headers: { "x-api-key": "key-1", "accept-encoding": "gzip", "content-type": "application/json" },
    });
  });

  it("gives status, headers and the body still compressed", async () => {
    const body = gzipSync('{"results":[]}');
    const { url } = await service((_, response) => {
      response.writeHead(429, { "content-encoding": "gzip", "retry-after": "7" });
      response.end(body);
    });
    expect(await open(url).request(post)).toEqual({
      kind: "response",
      status: 429,
      retryAfter: "7",
      date: expect.stringMatching(/ GMT$/),
      location: null,
      contentEncoding: "gzip",
      body,
      keyVersion: 1,
      release: expect.any(Function),
    });
  });

  it("reuses connections, also after errors, and never more than the concurrency", async () => {
    const { url, requests, connections } = await service(({ index }, response) => {
      send(response, index % 2 === 0 ? 500 : 200, "x".repeat(100_000));
    });
    const client = open(url, { concurrency: 2 });
    for (let round = 0; round < 5; round++) {
      await Promise.all([client.request(post), client.request(post), client.request(post)]);
    }
    expect(requests).toHaveLength(15);
    expect(connections()).toBeLessThanOrEqual(2);
  });

  it("does not follow a redirect", async () => {
    const other = await service((_, response) => {
      send(response, 200, "");
    });
    const { url } = await service((_, response) => {
      send(response, 307, "", { location: `${other.url}/elsewhere` });
    });
    expect(await open(url).request(post)).toMatchObject({ status: 307, location: `${other.url}/elsewhere` });
    expect(other.requests).toEqual([]);
  });
});

describe("what fails", () => {
  it("before a connection came about was not sent", async () => {
    const { url, close } = await startService(() => undefined);
    await close();
    expect(await open(url).request(post)).toMatchObject({
      kind: "failure",
      sent: false,
      code: "ECONNREFUSED",
    });
    expect(await open("http://no-such-host.invalid").request(post)).toMatchObject({
      kind: "failure",
      sent: false,
    });
  });

  it("while agreeing on TLS was not sent", async () => {
    const { url } = await service(() => undefined);
    expect(await open(url.replace("http:", "https:")).request(post)).toMatchObject({
      kind: "failure",
      sent: false,
    });
  });

  it("because the certificate can't be trusted was not sent, even if the environment turns verification off", async () => {
    const { port, paths } = await startSecureServer(makeSelfSigned());
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    onTestFinished(() => void vi.unstubAllEnvs());
    const reply = await open(`https://localhost:${port}`).request(post);
    expect(reply).toMatchObject({ kind: "failure", sent: false, code: "DEPTH_ZERO_SELF_SIGNED_CERT" });
    expect(paths).toEqual([]);
  });

  const CODES: readonly [string, Reply, Partial<HttpClientOptions>, object][] = [
    [
      "when no response comes in time",
      () => undefined,
      { readTimeoutMs: 50 },
      { status: null, code: "UND_ERR_HEADERS_TIMEOUT" },
    ],
    [
      "when a body stops coming",
      (_, response) => void response.writeHead(200).write("{"),
      { readTimeoutMs: 1000 },
      { status: 200, code: "UND_ERR_BODY_TIMEOUT" },
    ],
    [
      "when a body arrives too slowly",
      (_, response) => {
        response.writeHead(200);
        const timer = setInterval(() => response.write(" "), 10);
        response.on("close", () => clearInterval(timer));
      },
      { callTimeoutMs: 2000 },
      { status: 200, code: "CALL_TIMEOUT" },
    ],
    ["when the connection is cut", (_, response) => void response.destroy(), {}, { status: null }],
    [
      "when the connection is cut in the body",
      (_, response) => {
        response.writeHead(200, { "content-length": "100" });
        response.write("{", () => response.destroy());
      },
      {},
      { status: 200 },
    ],
    [
      "for the size of its body",
      (_, response) => send(response, 200, "x".repeat(5000)),
      { maxBodyBytes: 1000 },
      { code: "BODY_TOO_LARGE" },
    ],
    [
      "for the size of an endless body",
      (_, response) => {
        response.writeHead(200);
        const write = () => {
          while (!response.destroyed && response.write("x".repeat(10_000)));
          if (!response.destroyed) response.once("drain", write);
        };
        write();
      },
      { maxBodyBytes: 100_000 },
      { code: "BODY_TOO_LARGE" },
    ],
    [
      "that is not awaited any longer after a stop",
      () => undefined,
      { stop: AbortSignal.abort(), abandonAfterMs: 100 },
      { code: "ABANDONED" },
    ],
  ];
  it.each(CODES)("%s was sent", async (_title, reply, options, expected) => {
    const { url } = await service(reply);
    expect(await open(url, options).request(post)).toMatchObject({
      kind: "failure",
      sent: true,
      ...expected,
    });
  });

  it("by an abort of the caller was sent", async () => {
    const { url } = await service(() => undefined);
    const giveUp = new AbortController();
    const reply = open(url).request({ ...post, signal: giveUp.signal });
    setTimeout(() => {
      giveUp.abort();
    }, 50);
    expect(await reply).toMatchObject({ kind: "failure", sent: true, status: null });
  });
});

describe("the key", () => {
  it("is read once, and again only when it was rejected", async () => {
    let reads = 0;
    const { url, requests } = await service((_, response) => {
      send(response, 200, "");
    });
    const client = open(url, { readKey: async () => (++reads < 3 ? "old" : "new") });
    await Promise.all([client.request(post), client.request(post)]);
    expect(reads).toBe(1);
    expect(await client.renewKey(1)).toBe(false);
    expect(await Promise.all([client.renewKey(1), client.renewKey(1)])).toEqual([true, true]);
    expect(await client.renewKey(1)).toBe(true);
    expect(reads).toBe(3);
    await client.request(post);
    expect(requests.map(({ headers }) => headers["x-api-key"])).toEqual(["old", "old", "new"]);
  });

  it("that no header can carry is refused before anything is sent, and not shown", async () => {
    const client = open("http://127.0.0.1:9", { readKey: async () => "two\nlines" });
    await expect(client.request(post)).rejects.toMatchObject({ code: "api_key_unusable" });
    await expect(client.request(post)).rejects.not.toThrow(/lines/u);
  });
});

it("sends a call to the path that replaced a declared one", async () => {
  const { url, requests } = await service((_, response) => send(response, 200, {}));
  const client = open(`${url}/api`, { endpoints: { "/v1/resolve": "/v2/resolve" } });
  await client.request({ ...post, path: "/v1/resolve" });
  await client.request(post);
  expect(requests.map(({ path }) => path)).toEqual(["/api/v2/resolve", "/api/v2/enrich"]);
});
