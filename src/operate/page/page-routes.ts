import type { Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { html } from "hono/html";
import { secureHeaders } from "hono/secure-headers";
import { hasToken, isLoggedIn, logIn, type TokenSource } from "../access.ts";
import type { LivePage } from "./live-page.ts";
import { renderDocument } from "./render-page.ts";
import { script } from "./script.ts";
import { style } from "./style.ts";

const ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#2f6fdb"/><path d="M4 12V9m4 3V4m4 8V7" stroke="#fff" stroke-width="2" stroke-linecap="round"/></svg>`;

/** Adds the page, its login and its files. Nothing is loaded from elsewhere, and nothing is kept by the browser. */
export function addPageRoutes(app: Hono, live: LivePage, token: TokenSource): void {
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
  file("/icon.svg", "image/svg+xml", ICON);
}

function loginPage(isWrong: boolean) {
  return renderDocument(
    "person-etl: log in",
    html`<main><section class="login"><h1>person-etl</h1>
<form method="post" action="/login">
${isWrong ? html`<p role="alert" class="state bad">✗ This is not the token.</p>` : ""}
<label for="token">Token (<code>http.token</code> of the configuration)</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button type="submit">Log in</button>
</form></section></main>`,
  );
}

function unreachablePage() {
  return renderDocument(
    "person-etl",
    html`<main><section><h1>The warehouse doesn't answer.</h1>
<p>Reload this page later. The log has the cause, and <code>person-etl check</code> tests the connection.</p></section></main>`,
  );
}
