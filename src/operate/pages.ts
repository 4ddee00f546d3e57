import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { codeOf, FixConfigurationError, type Problem } from "../errors.ts";
import { isLocalHost } from "../postgres-address.ts";

/** Data of the pages. */
export interface PageSources {
  /** Readiness; the codes of all reasons against it. */
  readonly readiness: () => Promise<{ readonly ready: boolean; readonly reasons: readonly string[] }>;
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** Token for `/metrics`; null: none required. Read for each request, so that it can be rotated. */
  readonly token: (() => Promise<string>) | null;
}

/** Running pages. */
export interface Pages {
  /** `http://127.0.0.1:8080`. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves `/healthz`, `/readyz` and `/metrics`. */
export async function servePages(
  sources: PageSources,
  address: { readonly bind: string; readonly port: number },
): Promise<Pages> {
  const app = new Hono();
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", async (context) => {
    const { ready, reasons } = await sources.readiness();
    return context.json({ ready, reasons }, ready ? 200 : 503);
  });
  app.get("/metrics", async (context) => {
    // Without a token, a name that leads here by DNS must not let a web page read them.
    if (sources.token === null && !isOfThisMachine(context.req.header("host") ?? "")) {
      return context.json({ error: "forbidden_host" }, 403);
    }
    const given = context.req.header("authorization") ?? "";
    if (sources.token !== null && !isSame(given, `Bearer ${await sources.token()}`)) {
      context.header("WWW-Authenticate", "Bearer");
      return context.json({ error: "unauthorized" }, 401);
    }
    const { contentType, text } = await sources.metrics();
    return context.body(text, 200, { "Content-Type": contentType, "Cache-Control": "no-store" });
  });
  app.notFound((context) => context.json({ error: "not_found" }, 404));
  // Responses contain no error details.
  app.onError((_error, context) => context.json({ error: "internal" }, 500));

  const answer = getRequestListener(app.fetch, { overrideGlobalObjects: false });
  const server = createServer((request, response) => void answer(request, response));
  server.headersTimeout = 10_000;
  server.requestTimeout = 10_000;
  server.listen(address.port, address.bind);
  try {
    await once(server, "listening");
  } catch (error) {
    const problem = problemOf(codeOf(error) ?? "unknown error", address);
    throw new FixConfigurationError("http_unavailable", "The pages can't be served:", [problem], {
      cause: error,
    });
  }
  // A server that listens on a port has an address with a port.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${address.bind.includes(":") ? `[${address.bind}]` : address.bind}:${port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
}

function isOfThisMachine(host: string): boolean {
  const url = `http://${host}`;
  return URL.canParse(url) && isLocalHost(new URL(url).hostname.replace(/^\[(.+)\]$/, "$1"));
}

/** Compares in constant time. */
function isSame(given: string, wanted: string): boolean {
  return timingSafeEqual(digestOf(given), digestOf(wanted));
}

function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** Problem of an address that the system refuses. */
function problemOf(code: string, { bind, port }: { readonly bind: string; readonly port: number }): Problem {
  const isPort = code === "EADDRINUSE" || code === "EACCES";
  const causes: Readonly<Record<string, string>> = {
    EADDRINUSE: `port ${port} of ${bind} is in use`,
    EACCES: `port ${port} requires root`,
    EADDRNOTAVAIL: `${bind} is not an address of this machine`,
    ENOTFOUND: `${bind} is unknown`,
  };
  return {
    path: isPort ? "http.port" : "http.bind",
    message: causes[code] ?? `can't listen on port ${port} of ${bind} (${code})`,
    hint: isPort
      ? "set another port, or 0 for any free one; `ss -ltnp` lists the processes that use a port"
      : "use 127.0.0.1, or 0.0.0.0 with a token for all addresses of this machine",
  };
}
