import { getRequestListener } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { getSignedCookie, setSignedCookie } from "hono/cookie";
import { html } from "hono/html";
import { secureHeaders } from "hono/secure-headers";
import { createHash, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { codeOf, FixConfigurationError, type Problem } from "../errors.ts";
import { icon, script, style } from "./page/assets.ts";
import { type LivePage, renderDocument } from "./page/render-page.ts";
import { isLocalHost } from "../postgres-address.ts";

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

/** Adds the page, its login and its files. Nothing is loaded from elsewhere, and nothing is kept by the browser. */
function addPageRoutes(app: Hono, live: LivePage, token: TokenSource): void {
  app.use(
    secureHeaders({
      contentSecurityPolicy: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'"],
        imgSrc: ["'self'"],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
      xFrameOptions: "DENY",
      // The name may also serve other pages without TLS.
      strictTransportSecurity: false,
    }),
  );
  app.use(async (context, next) => {
    await next();
    context.header("Cache-Control", "no-store");
  });
  const mayRead = async (context: Context) => (await isLoggedIn(context, token)) || hasToken(context, token);

  app.get("/", async (context) => {
    if (!(await mayRead(context))) return context.html(loginPage(false), 401);
    const page = await live.page();
    return page === null ? context.html(unreachablePage(), 503) : context.html(page);
  });
  app.get("/running", async (context) => {
    if (!(await mayRead(context))) return context.json({ error: "unauthorized" }, 401);
    return context.html(await live.running());
  });
  app.post("/login", bodyLimit({ maxSize: 4096 }), async (context) => {
    if (token === null) return context.redirect("/", 303);
    const given = (await context.req.parseBody())["token"];
    if (!(await logIn(context, token, typeof given === "string" ? given : ""))) {
      return context.html(loginPage(true), 401);
    }
    return context.redirect("/", 303);
  });
  const file = (path: string, type: string, text: string) =>
    app.get(path, (context) => context.body(text, 200, { "Content-Type": type }));
  file("/page.css", "text/css; charset=utf-8", style);
  file("/page.js", "text/javascript; charset=utf-8", script);
  file("/icon.svg", "image/svg+xml", icon);
}

function loginPage(isWrong: boolean) {
  return renderDocument(
    "person-etl: log in",
    html`<main><section class="login"><h1>person-etl</h1>
<form method="post" action="/login">
${isWrong ? html`<p role="alert" class="state bad">✗ Wrong token.</p>` : ""}
<label for="token">Token (<code>http.token</code> of the configuration)</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form></section></main>`,
  );
}

function unreachablePage() {
  return renderDocument(
    "person-etl",
    html`<main><section><h1>The warehouse doesn't respond.</h1>
<p>Reload this page later. The log has the cause, and <code>person-etl check</code> tests the connection.</p></section></main>`,
  );
}

/** Reads the token for each request, so that it can be rotated; null: none required. */
type TokenSource = (() => Promise<string>) | null;

const COOKIE = "person_etl";

/** Time after which a browser has to log in again. */
const SESSION_SECONDS = 12 * 60 * 60;

/** False without a token for names of other machines: a web page whose name leads here by DNS must not read anything. */
function isAllowedHost(context: Context, token: TokenSource): boolean {
  return token !== null || isOfThisMachine(context.req.header("host") ?? "");
}

/** True if the request has the token as a bearer token, or if none is required. */
async function hasToken(context: Context, token: TokenSource): Promise<boolean> {
  if (token === null) return true;
  return isSame(context.req.header("authorization") ?? "", `Bearer ${await token()}`);
}

/** True if the browser has logged in with the current token, or if none is required. */
async function isLoggedIn(context: Context, token: TokenSource): Promise<boolean> {
  if (token === null) return true;
  const endMs = await getSignedCookie(context, await token(), COOKIE);
  return typeof endMs === "string" && Number(endMs) > Date.now();
}

/** Logs the browser in if it gives the token; false for a wrong one. */
async function logIn(context: Context, token: NonNullable<TokenSource>, given: string): Promise<boolean> {
  const wanted = await token();
  if (!isSame(given, wanted)) return false;
  const endMs = Date.now() + SESSION_SECONDS * 1000;
  // The cookie holds the end of the session, signed with the token: a new token ends all sessions.
  await setSignedCookie(context, COOKIE, String(endMs), wanted, {
    httpOnly: true,
    sameSite: "Strict",
    path: "/",
    maxAge: SESSION_SECONDS,
  });
  return true;
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
