import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import { codeOf, FixConfigurationError, type Problem } from "../errors.ts";
import { hasToken, isAllowedHost, type TokenSource } from "./access.ts";
import type { LivePage } from "./page/live-page.ts";
import { addPageRoutes } from "./page/page-routes.ts";

/** Data of the pages. */
export interface PageSources {
  readonly page: LivePage;
  /** Data of `/readyz` and `/metrics`; null: not served. */
  readonly probes: {
    /** Readiness; the codes of all reasons against it. */
    readonly readiness: () => Promise<{ readonly ready: boolean; readonly reasons: readonly string[] }>;
    readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  } | null;
  /** Token for the page and `/metrics`. */
  readonly token: TokenSource;
}

/** Running pages. */
export interface Pages {
  /** `http://127.0.0.1:8080`. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves the page, `/healthz`, `/readyz` and `/metrics`. */
export async function servePages(
  { page, probes, token }: PageSources,
  address: { readonly bind: string; readonly port: number },
): Promise<Pages> {
  const app = new Hono();
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  if (probes) {
    app.get("/readyz", async (context) => {
      const { ready, reasons } = await probes.readiness();
      return context.json({ ready, reasons }, ready ? 200 : 503);
    });
  }
  app.use(async (context, next) => {
    if (!isAllowedHost(context, token)) return context.json({ error: "forbidden_host" }, 403);
    return next();
  });
  if (probes) {
    app.get("/metrics", async (context) => {
      if (!(await hasToken(context, token))) {
        context.header("WWW-Authenticate", "Bearer");
        return context.json({ error: "unauthorized" }, 401);
      }
      const { contentType, text } = await probes.metrics();
      return context.body(text, 200, { "Content-Type": contentType, "Cache-Control": "no-store" });
    });
  }
  addPageRoutes(app, page, token);
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
