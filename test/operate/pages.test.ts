import { once } from "node:events";
import { request } from "node:http";
import { html } from "hono/html";
import { expect, onTestFinished, test } from "vitest";
import { type Pages, type PageSources, servePages } from "../../src/operate/pages.ts";

const sources: PageSources = {
  page: { page: async () => html`<p>the page</p>`, running: async () => html`<p>running</p>` },
  probes: {
    readiness: async () => ({ ready: true, reasons: [] }),
    metrics: async () => ({ contentType: "text/plain", text: "m 1" }),
  },
  token: null,
};

/** Serves pages for one test. */
async function open(more: Partial<PageSources> = {}): Promise<Pages> {
  const pages = await servePages({ ...sources, ...more }, { bind: "127.0.0.1", port: 0 });
  onTestFinished(() => pages.close());
  return pages;
}

/** Status of a page for a Host header. */
async function statusFor(url: string, host: string): Promise<number | undefined> {
  const asked = request(url, { headers: { host } }).end();
  const [response] = await once(asked, "response");
  response.resume();
  return response.statusCode;
}

/** Sends the login form. */
function logIn(url: string, token: string): Promise<Response> {
  return fetch(`${url}/login`, { method: "POST", body: new URLSearchParams({ token }), redirect: "manual" });
}

test.each(["/", "/running", "/metrics", "/page.js"])(
  "without a token, %s is for this machine's names only",
  async (path) => {
    const { url } = await open();
    expect(await statusFor(url + path, "localhost:8080")).toBe(200);
    expect(await statusFor(url + path, "[::1]:8080")).toBe(200);
    expect(await statusFor(url + path, "evil.example:8080")).toBe(403);
  },
);

test("with a token, a browser logs in once, until the token changes", async () => {
  let token = "first";
  const { url } = await open({ token: async () => token });
  const refused = await fetch(url);
  expect(refused.status).toBe(401);
  expect(await refused.text()).toContain('<form method="post" action="/login">');
  expect((await fetch(`${url}/running`)).status).toBe(401);

  const wrong = await logIn(url, "firs");
  expect([wrong.status, wrong.headers.get("set-cookie")]).toEqual([401, null]);
  expect(await wrong.text()).toContain("Wrong token.");

  const right = await logIn(url, "first");
  expect([right.status, right.headers.get("location")]).toEqual([303, "/"]);
  const cookie = right.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/^person_etl=[^;]+; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/);
  expect(cookie).not.toContain("first");

  const headers = { cookie: cookie.split(";")[0] ?? "" };
  expect(await (await fetch(url, { headers })).text()).toBe("<p>the page</p>");
  expect((await fetch(`${url}/running`, { headers })).status).toBe(200);
  // Prometheus sends the token itself; a browser's session is no key to the metrics.
  expect((await fetch(`${url}/metrics`, { headers })).status).toBe(401);
  token = "second";
  expect((await fetch(url, { headers })).status).toBe(401);
});

test("a session ends after twelve hours, and its end can't be changed", async () => {
  const { url } = await open({ token: async () => "first" });
  const cookie = (await logIn(url, "first")).headers.get("set-cookie")?.split(";")[0] ?? "";
  const [end = "", signature = ""] = cookie.replace("person_etl=", "").split(".");
  expect(Number(end) - Date.now()).toBeGreaterThan(43_100_000);
  expect(Number(end) - Date.now()).toBeLessThanOrEqual(43_200_000);
  const later = `person_etl=${Number(end) + 1}.${signature}`;
  expect((await fetch(url, { headers: { cookie: later } })).status).toBe(401);
});

test("with a token, a program sends it as a bearer token", async () => {
  const { url } = await open({ token: async () => "first" });
  const statusWith = async (path: string, authorization: string) =>
    (await fetch(url + path, { headers: { authorization } })).status;
  expect(await statusWith("/metrics", "Bearer first")).toBe(200);
  expect(await statusWith("/", "Bearer first")).toBe(200);
  expect(await statusWith("/metrics", "Bearer second")).toBe(401);
  expect(await statusWith("/", "Bearer second")).toBe(401);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

test("the page allows no script or style of its own text, no frame, no other host and no copy", async () => {
  const { url } = await open();
  const { headers } = await fetch(url);
  expect(headers.get("content-security-policy")).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  );
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("x-frame-options")).toBe("DENY");
  expect(headers.get("referrer-policy")).toBe("no-referrer");
  expect(headers.get("cache-control")).toBe("no-store");
});

test("a warehouse without an answer is reported as such", async () => {
  const { url } = await open({ page: { ...sources.page, page: async () => null } });
  const response = await fetch(url);
  expect([response.status, (await response.text()).includes("The warehouse doesn't respond.")]).toEqual([
    503,
    true,
  ]);
});

test("without a scheduler there are no metrics", async () => {
  const { url } = await open({ probes: null });
  expect((await fetch(`${url}/metrics`)).status).toBe(404);
  expect((await fetch(`${url}/readyz`)).status).toBe(404);
  expect((await fetch(url)).status).toBe(200);
});

test("a port in use is reported with the setting and what to do", async () => {
  const pages = await open();
  const port = Number(new URL(pages.url).port);
  await expect(servePages(sources, { bind: "127.0.0.1", port })).rejects.toMatchObject({
    message: "The pages can't be served:",
    problems: [
      {
        path: "http.port",
        message: `port ${port} of 127.0.0.1 is in use`,
        hint: "set another port, or 0 for any free one; `ss -ltnp` lists the processes that use a port",
      },
    ],
  });
  await expect(servePages(sources, { bind: "203.0.113.1", port: 0 })).rejects.toMatchObject({
    problems: [{ path: "http.bind", message: "203.0.113.1 is not an address of this machine" }],
  });
});
