import { createHash, timingSafeEqual } from "node:crypto";
import type { Context } from "hono";
import { getSignedCookie, setSignedCookie } from "hono/cookie";
import { isLocalHost } from "../postgres-address.ts";

/** Reads the token for each request, so that it can be rotated; null: none required. */
export type TokenSource = (() => Promise<string>) | null;

const COOKIE = "person_etl";
/** Time after which a browser has to log in again. */
const SESSION_SECONDS = 12 * 60 * 60;

/** False without a token for names of other machines: a web page whose name leads here by DNS must not read anything. */
export function isAllowedHost(context: Context, token: TokenSource): boolean {
  return token !== null || isOfThisMachine(context.req.header("host") ?? "");
}

/** True if the request has the token as a bearer token, or if none is required. */
export async function hasToken(context: Context, token: TokenSource): Promise<boolean> {
  if (token === null) return true;
  return isSame(context.req.header("authorization") ?? "", `Bearer ${await token()}`);
}

/** True if the browser has logged in with the current token, or if none is required. */
export async function isLoggedIn(context: Context, token: TokenSource): Promise<boolean> {
  if (token === null) return true;
  const endMs = await getSignedCookie(context, await token(), COOKIE);
  return typeof endMs === "string" && Number(endMs) > Date.now();
}

/** Logs the browser in if it gives the token; false for a wrong one. */
export async function logIn(
  context: Context,
  token: NonNullable<TokenSource>,
  given: string,
): Promise<boolean> {
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
