import { once } from "node:events";
import { request } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { servePages } from "../../src/operate/pages.ts";

/** Status of `/metrics` for a Host header. */
async function statusFor(url: string, host: string): Promise<number | undefined> {
  const asked = request(`${url}/metrics`, { headers: { host } }).end();
  const [response] = await once(asked, "response");
  response.resume();
  return response.statusCode;
}

test("metrics without a token are for this machine's names only", async () => {
  const sources = {
    readiness: async () => ({ ready: true, reasons: [] }),
    metrics: async () => ({ contentType: "text/plain", text: "m 1" }),
    token: null,
  };
  const pages = await servePages(sources, { bind: "127.0.0.1", port: 0 });
  onTestFinished(() => pages.close());
  expect(await statusFor(pages.url, "localhost:8080")).toBe(200);
  expect(await statusFor(pages.url, "[::1]:8080")).toBe(200);
  expect(await statusFor(pages.url, "evil.example:8080")).toBe(403);
});

test("a port in use is reported with the setting and what to do", async () => {
  const sources = {
    readiness: async () => ({ ready: true, reasons: [] }),
    metrics: async () => ({ contentType: "text/plain", text: "m 1" }),
    token: null,
  };
  const pages = await servePages(sources, { bind: "127.0.0.1", port: 0 });
  onTestFinished(() => pages.close());
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
