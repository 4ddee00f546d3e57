import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { openClient } from "../../src/bigquery/client.ts";
import { fixedSecret } from "../../src/config/secrets.ts";
import { openHttpClient } from "../../src/extract/http-client.ts";
import { openAgent, proxyOf } from "../../src/http-agent.ts";
import { postToWebhook } from "../../src/operate/alerts.ts";
import { startProxy, startSecureServer } from "./company-network.ts";
import { send, startService } from "./scripted-service.ts";
import { makeAuthority } from "./self-signed.ts";

const HOST = "api.company.test";
const post = { method: "POST", path: "/v2/enrich", body: '{"records":[]}' } as const;

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "proxy-"));
  for (const name of ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"]) vi.stubEnv(name, "");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

/** A service behind a proxy, with a certificate of an authority that Node.js doesn't trust. */
async function openNetwork(status = 200) {
  const authority = makeAuthority("Company CA");
  const caFile = join(folder, "ca.pem");
  await writeFile(caFile, authority.cert);
  const server = await startSecureServer(authority.certify(HOST));
  const proxy = await startProxy(server.port, status);
  return { caFile, server, proxy };
}

async function callService(baseUrl: string, caFile: string | null = null) {
  const client = openHttpClient({ baseUrl, concurrency: 2, readKey: async () => "key-1", caFile });
  onTestFinished(() => client.close());
  return client.request(post);
}

test("calls are tunneled through HTTPS_PROXY with its credentials, and service.ca verifies the service's certificate", async () => {
  const { caFile, server, proxy } = await openNetwork();
  vi.stubEnv("HTTPS_PROXY", proxy.url.replace("//", "//me:s%40fe@"));
  expect(await callService(`https://${HOST}`, caFile)).toMatchObject({ kind: "response", status: 200 });
  expect(proxy.asked).toEqual([
    { target: `${HOST}:443`, credentials: `Basic ${Buffer.from("me:s@fe").toString("base64")}` },
  ]);
  expect(server.paths).toEqual(["POST /v2/enrich"]);
});

test("a call through a proxy to a service without a trusted certificate, or with that of another host, was not sent", async () => {
  const { caFile, server, proxy } = await openNetwork();
  vi.stubEnv("HTTPS_PROXY", proxy.url);
  const notSent = { kind: "failure", sent: false };
  expect(await callService(`https://${HOST}`)).toMatchObject({
    ...notSent,
    code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  });
  expect(await callService("https://other.company.test", caFile)).toMatchObject({
    ...notSent,
    code: "ERR_TLS_CERT_ALTNAME_INVALID",
  });
  expect(server.paths).toEqual([]);
});

test("a call that the proxy refuses, or that no proxy takes, was not sent", async () => {
  const { proxy } = await openNetwork(407);
  vi.stubEnv("HTTPS_PROXY", proxy.url);
  expect(await callService(`https://${HOST}`)).toMatchObject({ sent: false, code: "PROXY_407" });
  vi.stubEnv("HTTPS_PROXY", "http://127.0.0.1:1");
  expect(await callService(`https://${HOST}`)).toMatchObject({ sent: false, code: "ECONNREFUSED" });
});

test("the webhook and BigQuery with its uploads take the same way, and no token leaves for another host", async () => {
  const { caFile, server, proxy } = await openNetwork();
  vi.stubEnv("HTTPS_PROXY", proxy.url);
  vi.stubEnv("BIGQUERY_EMULATOR_HOST", `https://${HOST}`);
  const client = openClient({ project: "lake", credentialsFile: null, impersonate: null, apiEndpoint: null });
  const webhook = fixedSecret("test", `https://${HOST}/T0/secret`);
  const alert = () =>
    postToWebhook(
      { webhook, format: "json" },
      { alerts: [], runId: "", warehouse: "w", at: "2026-01-01T00:00:00Z" },
    );
  await expect(client.fetch(client.uploadUrl, { method: "POST" })).rejects.toMatchObject({
    code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  });
  const trusted = getCACertificates("default");
  // As NODE_EXTRA_CA_CERTS does at the start of a process.
  setDefaultCACertificates([...trusted, await readFile(caFile, "utf8")]);
  onTestFinished(() => setDefaultCACertificates(trusted));
  await alert();
  expect(
    await client.send({ method: "GET", path: "/jobs/j", query: { location: "EU", none: null } }),
  ).toEqual({});
  await client.fetch(client.uploadUrl, { method: "POST", body: "{}" });
  await expect(client.fetch("https://elsewhere.test/upload", { method: "PUT" })).rejects.toMatchObject({
    code: "another_host",
  });
  expect(server.paths).toEqual([
    "POST /T0/secret",
    "GET /bigquery/v2/projects/lake/jobs/j?location=EU&prettyPrint=false",
    "POST /upload/bigquery/v2/projects/lake/jobs",
  ]);
  expect(new Set(proxy.asked.map(({ target }) => target))).toEqual(new Set([`${HOST}:443`]));
});

test("BigQuery behind a proxy that refuses says so, for requests and tokens", async () => {
  const { proxy } = await openNetwork(407);
  vi.stubEnv("HTTPS_PROXY", proxy.url);
  // The proxy of the library's rules.
  vi.stubEnv("HTTP_PROXY", "http://127.0.0.1:1");
  const list = { method: "GET", path: "/jobs" } as const;
  const target = { project: "lake", credentialsFile: null, impersonate: null, apiEndpoint: null };
  vi.stubEnv("BIGQUERY_EMULATOR_HOST", `https://${HOST}`);
  await expect(openClient(target).send(list)).rejects.toMatchObject({ code: "PROXY_407" });
  vi.stubEnv("BIGQUERY_EMULATOR_HOST", undefined);
  const credentialsFile = join(folder, "key.json");
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  await writeFile(credentialsFile, JSON.stringify({ client_email: "a@b.test", private_key: key }));
  await expect(openClient({ ...target, credentialsFile }).send(list)).rejects.toMatchObject({
    code: "PROXY_407",
  });
  const targets = new Set(proxy.asked.map((asked) => asked.target));
  expect(targets).toEqual(new Set([`${HOST}:443`, "oauth2.googleapis.com:443"]));
  // An endpoint of one's own takes credentials.
  const asked = proxy.asked.length;
  const own = openClient({ ...target, credentialsFile, apiEndpoint: `https://${HOST}` });
  await expect(own.send(list)).rejects.toMatchObject({ code: "PROXY_407" });
  expect(new Set(proxy.asked.slice(asked).map((one) => one.target))).toEqual(
    new Set(["oauth2.googleapis.com:443"]),
  );
});

test.each([
  ["", "a.company.test", true],
  ["company.test", "a.company.test", false],
  [".company.test", "company.test", false],
  ["*.company.test", "company.test", true],
  ["*.company.test", "a.company.test", false],
  ["mycompany.test pany.test", "company.test", true],
  ["x.test, COMPANY.test.", "company.test.", false],
  ["company.test:8443", "company.test", true],
  ["company.test:443", "company.test", false],
  ["*:80", "company.test", true],
  ["*", "company.test", false],
  ["[fd00::1]:443", "[fd00::1]", false],
  ["fd00::1", "[fd00::1]", false],
  ["", "localhost", false],
  ["", "[::1]", false],
])(
  "with NO_PROXY=%j, BigQuery's library gets the proxy for %s like all others: %s",
  async (noProxy, host, isProxied) => {
    const proxy = await startProxy(1, 403);
    vi.stubEnv("HTTPS_PROXY", proxy.url);
    vi.stubEnv("NO_PROXY", noProxy);
    const agent = openAgent({ connections: 1, connectTimeoutMs: 1000 });
    onTestFinished(() => agent.close());
    await expect(agent.fetch(`https://${host}`, {})).rejects.toThrow("fetch failed");
    expect(proxy.asked).toHaveLength(isProxied ? 1 : 0);
    expect(proxyOf(`https://${host}`)).toBe(isProxied ? proxy.url : null);
  },
);

test("http:// is tunneled through HTTP_PROXY; hosts of NO_PROXY and this machine are called directly", async () => {
  const { url } = await startService((_, response) => send(response, 200, "{}", {}));
  const proxy = await startProxy(Number(new URL(url).port));
  vi.stubEnv("HTTP_PROXY", proxy.url);
  expect(await callService(`http://${HOST}`)).toMatchObject({ status: 200 });
  expect(proxy.asked).toMatchObject([{ target: `${HOST}:80` }]);
  vi.stubEnv("NO_PROXY", "db.internal,.company.test");
  expect(await callService(`http://${HOST}`)).toMatchObject({ sent: false, code: "ENOTFOUND" });
  expect(await callService(url)).toMatchObject({ status: 200 });
  expect(proxy.asked).toHaveLength(1);
});

test("other kinds of proxies, and a service.ca without a certificate, are refused before a call", async () => {
  const { caFile } = await openNetwork();
  await writeFile(caFile, "no certificate");
  await expect(callService(`https://${HOST}`, caFile)).rejects.toMatchObject({
    code: "unreadable_certificate",
  });
  for (const proxy of ["socks5://me:secret@proxy:1080", "http://me:secret%off@proxy:1080"]) {
    vi.stubEnv("HTTPS_PROXY", proxy);
    await expect(callService(`https://${HOST}`)).rejects.toMatchObject({
      code: "unusable_proxy",
      message: expect.not.stringContaining("secret"),
    });
  }
});
