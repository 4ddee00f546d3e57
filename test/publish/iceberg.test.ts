import { mkdtemp, readFile, stat, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inject, onTestFinished, test, expect } from "vitest";
import { catalogOf } from "../../src/publish/destination.ts";
import { openCatalog } from "../../src/publish/iceberg/catalog.ts";
import { openIcebergDestination } from "../../src/publish/iceberg/destination.ts";
import type { IcebergTarget } from "../../src/publish/iceberg/workspace.ts";
import { openStorage, openStorageAgent, type StorageOptions } from "../../src/object-store.ts";
import { serve as serveHttp } from "../support/serve.ts";
import { unusedPort } from "../support/unused-port.ts";

interface Answer {
  readonly status?: number;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A request as the server saw it. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Starts a server that remembers its requests. */
async function serve(answer: (request: Seen) => Answer) {
  const seen: Seen[] = [];
  const url = await serveHttp((request, response, content) => {
    const { method = "", url: path = "", headers } = request;
    const asked = { method, url: path, headers, body: content };
    seen.push(asked);
    const { status = 200, body = "{}", headers: own = {} } = answer(asked);
    response.writeHead(status, { "content-type": "application/json", ...own }).end(body);
  });
  return { url, seen };
}

const secret = (value: string) => ({ read: async () => value });

const targetAt = (catalog: string): IcebergTarget => ({
  name: "lake",
  catalog,
  warehouse: "wh",
  token: null,
  credential: null,
  tokenUrl: null,
  scope: "catalog",
  localFolder: null,
  s3Endpoint: null,
  s3Region: null,
  accessKeyId: null,
  secretAccessKey: null,
  namespace: "person_data",
  opsNamespace: "person_data_ops",
  folder: join(inject("runFolder"), "iceberg-unused"),
});

async function findings(answer: (request: Seen) => Answer) {
  const { url } = await serve(answer);
  const destination = openIcebergDestination(targetAt(url));
  onTestFinished(() => destination.close());
  return destination.check(catalogOf(["person"]));
}

const withoutTables = (answer: (request: Seen) => Answer) => (request: Seen) =>
  request.url.includes("/tables/") ? { status: 404 } : answer(request);
const listed = (endpoints: readonly string[]) =>
  withoutTables(() => ({ body: JSON.stringify({ endpoints }) }));
const older = (status: number) => withoutTables((request) => (request.method === "POST" ? { status } : {}));

test("check refuses a catalog that doesn't commit several tables at once", async () => {
  const refused = [{ ok: false, message: expect.stringContaining("can't commit several tables at once") }];
  expect(await findings(listed(["GET /v1/{prefix}/namespaces"]))).toMatchObject(refused);
  expect(await findings(listed(["POST /v1/{prefix}/transactions/commit"]))).toMatchObject([{ ok: true }]);
  // A catalog that doesn't list what it answers is asked to commit nothing.
  expect(await findings(older(404))).toMatchObject(refused);
  expect(await findings(older(400))).toMatchObject([{ ok: true }]);
  expect(await findings(older(403))).toMatchObject([
    { ok: false, message: expect.stringContaining("access is refused") },
  ]);
});

test("check reports a catalog that can't be reached, and one that refuses the token", async () => {
  expect(await findings(() => ({ status: 401 }))).toMatchObject([
    { ok: false, message: expect.stringContaining("access is refused") },
  ]);
  const destination = openIcebergDestination(targetAt(`http://127.0.0.1:${await unusedPort()}`));
  expect(await destination.check(catalogOf(["person"]))).toMatchObject([
    { ok: false, message: expect.stringContaining("can't be reached (ECONNREFUSED)") },
  ]);
  await destination.close();
});

test("client credentials are exchanged for a token, once", async () => {
  const { url, seen } = await serve(({ url: path }) =>
    path === "/token" ? { body: '{"access_token":"granted","expires_in":3600}' } : {},
  );
  const catalog = openCatalog({ ...targetAt(url), credential: secret("me:a:b"), tokenUrl: `${url}/token` });
  await catalog.createNamespace("one");
  await catalog.createNamespace("two");
  await catalog.close();
  expect(seen.map(({ url: path }) => path)).toEqual([
    "/token",
    "/v1/config?warehouse=wh",
    "/v1/namespaces",
    "/v1/namespaces",
  ]);
  const form = new URLSearchParams(seen[0]?.body);
  expect([form.get("client_id"), form.get("client_secret"), form.get("scope")]).toEqual([
    "me",
    "a:b",
    "catalog",
  ]);
  expect(seen[2]?.headers.authorization).toBe("Bearer granted");
});

test("numbers of 64 bits are read and sent back unchanged", async () => {
  const { url, seen } = await serve(({ url: path }) =>
    path.includes("/tables/")
      ? { body: '{"metadata":{"current-snapshot-id":9223372036854775807,"last-column-id":3}}' }
      : {},
  );
  const catalog = openCatalog(targetAt(url));
  const loaded = await catalog.loadTable({ namespace: "n", name: "t" });
  const id = loaded?.metadata["current-snapshot-id"];
  await catalog.commit([
    { identifier: { namespace: ["n"], name: "t" }, requirements: [{ "snapshot-id": id }], updates: [] },
  ]);
  await catalog.close();
  expect(seen.at(-1)?.body).toContain('"snapshot-id":9223372036854775807');
});

const noKeys: StorageOptions = {
  localFolder: null,
  s3Endpoint: null,
  s3Region: null,
  accessKeyId: null,
  secretAccessKey: null,
};

test("a local folder holds, lists and loses files", async () => {
  const folder = await mkdtemp(join(inject("runFolder"), "iceberg-local-"));
  const agent = openStorageAgent();
  const storage = openStorage({ ...noKeys, localFolder: folder }, {}, agent);
  const base = pathToFileURL(join(folder, "a table é")).href;
  expect(await storage.list(base)).toEqual([]);
  await storage.write(`${base}/data/one`, Buffer.from("1"));
  await writeFile(join(folder, "copied"), "22");
  await storage.upload(join(folder, "copied"), `${base}/data/deep/two`);
  expect(await storage.read(`${base}/data/one`)).toEqual(Buffer.from("1"));
  await storage.download(`${base}/data/deep/two`, join(folder, "back"));
  expect(await readFile(join(folder, "back"), "utf8")).toBe("22");
  expect((await stat(join(folder, "a table é", "data", "one"))).mode & 0o777).toBe(0o600);
  const listed = await storage.list(base);
  expect(listed.map(({ address }) => address).toSorted()).toEqual([
    `${base}/data/deep/two`,
    `${base}/data/one`,
  ]);
  await storage.remove(`${base}/data/one`);
  await storage.remove(`${base}/data/one`);
  expect((await storage.list(base)).length).toBe(1);
  await agent.close();
});

test("objects are addressed and signed with the catalog's keys, and failures that pass are repeated", async () => {
  let failures = 2;
  const { url, seen } = await serve(({ url: path }) => {
    if (path.includes("continuation-token=t%26"))
      return {
        body: "<Contents><Key>p/data/&lt;b&#233;&gt;</Key><LastModified>2026-11-27T00:00:00.000Z</LastModified></Contents>",
      };
    if (path.includes("list-type"))
      return {
        body: "<Contents><Key>p/data/a</Key><LastModified>2026-11-27T00:00:00.000Z</LastModified></Contents><NextContinuationToken>t&amp;</NextContinuationToken>",
      };
    failures -= 1;
    return failures >= 0 ? { status: 503, body: "<Code>SlowDown</Code>" } : { body: "content" };
  });
  const agent = openStorageAgent();
  const granted = {
    "s3.access-key-id": "AK",
    "s3.secret-access-key": "SK",
    "s3.session-token": "ST",
    "s3.region": "eu-central-1",
  };
  const storage = openStorage({ ...noKeys, s3Endpoint: url }, granted, agent);
  expect(await storage.read("s3://bucket/p/data/a file+é")).toEqual(Buffer.from("content"));
  expect(seen.map(({ url: path }) => path)).toEqual(
    Array.from({ length: 3 }, () => "/bucket/p/data/a%20file%2B%C3%A9"),
  );
  expect(seen[0]?.headers.authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AK\/\d{8}\/eu-central-1\/s3\/aws4_request/u,
  );
  expect(seen[0]?.headers["x-amz-security-token"]).toBe("ST");
  expect((await storage.list("s3://bucket/p")).map(({ address }) => address)).toEqual([
    "s3://bucket/p/data/a",
    "s3://bucket/p/data/<bé>",
  ]);
  const google = openStorage({ ...noKeys, s3Endpoint: url }, { "gcs.oauth2.token": "T" }, agent);
  await google.read("gs://bucket/x");
  expect(seen.at(-1)?.headers.authorization).toBe("Bearer T");
  // Google's token is for Google alone.
  await google.read("s3://bucket/x");
  expect(seen.at(-1)?.headers.authorization).toBeUndefined();
  await agent.close();
});

test("an endpoint that the catalog names is used only if the connection is encrypted or stays on this machine", async () => {
  const { url, seen } = await serve(() => ({ body: "content" }));
  const agent = openStorageAgent();
  const named = (endpoint: string) => openStorage(noKeys, { "s3.endpoint": endpoint }, agent);
  expect(await named(url).read("s3://bucket/x")).toEqual(Buffer.from("content"));
  await expect(named("http://storage.example.com").read("s3://bucket/x")).rejects.toThrow(/isn't encrypted/u);
  expect(seen).toHaveLength(1);
  await agent.close();
});

const redirect = {
  status: 301,
  body: "<Code>PermanentRedirect</Code>",
  headers: { location: "https://elsewhere.example.com", "x-amz-bucket-region": "eu-west-1" },
};

test.each([
  ["a bucket in another region", redirect, "destination_refused", /the bucket is in eu-west-1.*s3_region/su],
  [
    "a bucket that can't be reached, by its host",
    null,
    "database_unreachable",
    /127\.0\.0\.1:\d+ can't be reached \(ECONNREFUSED\)\. Check the s3_ settings of publish\./u,
  ],
  // No wrong keys: the catalog granted them for a time.
  [
    "expired keys",
    { status: 403, body: "<Code>ExpiredToken</Code>" },
    "database_unreachable",
    /ExpiredToken/u,
  ],
])("%s is named as the reason", async (_, answer, code, message) => {
  const url = answer ? (await serve(() => answer)).url : `http://127.0.0.1:${await unusedPort()}`;
  const agent = openStorageAgent();
  onTestFinished(() => agent.close());
  const destination = openIcebergDestination(targetAt(url));
  onTestFinished(() => destination.close());
  const storage = openStorage({ ...noKeys, s3Endpoint: url }, {}, agent);
  const failure = await storage.read("s3://bucket/x").catch((error: unknown) => destination.explain(error));
  expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
});

test("a token that the catalog no longer takes is replaced once", async () => {
  let exchanges = 0;
  const { url, seen } = await serve(({ url: path, headers }) => {
    if (path === "/token") {
      exchanges += 1;
      return { body: `{"access_token":"token-${exchanges}","expires_in":3600}` };
    }
    return headers.authorization === "Bearer token-1" && seen.length > 3 ? { status: 401 } : {};
  });
  const catalog = openCatalog({ ...targetAt(url), credential: secret("me:a"), tokenUrl: `${url}/token` });
  await catalog.createNamespace("one");
  await catalog.createNamespace("two");
  await catalog.close();
  expect(exchanges).toBe(2);
  expect(seen.at(-1)?.headers.authorization).toBe("Bearer token-2");
});
