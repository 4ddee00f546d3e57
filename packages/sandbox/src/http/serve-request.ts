import { stampText } from "../population/calendar.ts";
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import type { Wire } from "../faults/catalog.ts";
import { type FiredFault, distort } from "../faults/plan.ts";
import { lookupRoutes } from "../lookups/routes.ts";
import { organizationOf } from "../organizations.ts";
import { contactJobRoutes } from "../search/contact-jobs.ts";
import { personSearchRoutes } from "../search/person-search.ts";
import { searchJobRoutes } from "../search/search-jobs.ts";
import { segmentRoutes } from "../segments/routes.ts";
import { usageRoutes } from "../usage/routes.ts";
import type { World } from "../world.ts";
import {
  type ErrorShape,
  errorBody,
  notFound,
  type Outcome,
  refuse,
  type Refusal,
  RESULTS,
} from "./answer.ts";
import { listIn, readCall, type Route } from "./route.ts";

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** Maximum size of a request's body, compressed and decompressed. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Bodies below are not worth compressing. */
const MIN_GZIP_BYTES = 1024;
/** Output pieces of this size save trips to zlib's threads. */
const GZIP_CHUNK_BYTES = 512 * 1024;

/** Routes of each path; other paths answer 404 `not_found`, also v1 paths of v2-only endpoints. */
const paths = [
  ...Map.groupBy(
    [
      ...lookupRoutes,
      ...segmentRoutes,
      ...usageRoutes,
      ...personSearchRoutes,
      ...searchJobRoutes,
      ...contactJobRoutes,
    ],
    ({ path }) => path,
  ),
].map(([path, routes]) => ({
  path,
  routes,
  form: new RegExp(`^${path.replace(/\{\w+\}/, "(?<id>[^/]+)")}$`),
}));

interface Exchange {
  readonly request: IncomingMessage;
  readonly url: URL;
  /** Routes of its path, one for each method. */
  readonly routes: readonly Route[];
  /** ID in its path. */
  readonly id: string;
  readonly fired: readonly FiredFault[];
  readonly bytes: Buffer | null;
  /** Refusal of a request beyond the rate limit. */
  readonly tooFast: Refusal | null;
  /** Number of records, once they are read. */
  records: number;
}

/** Reads a body to its end; null if it is too large. */
export async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return bytes > MAX_BODY_BYTES ? null : Buffer.concat(chunks);
}

async function parseBody({ request: { headers }, bytes }: Exchange): Promise<{ value: unknown } | Refusal> {
  if (bytes === null) return refuse(413, "payload_too_large", "The request body is too large.");
  if (!/^application\/json\b/i.test(headers["content-type"] ?? "")) {
    return refuse(400, "bad_request", "The Content-Type header has to be application/json.");
  }
  const encoding = (headers["content-encoding"] ?? "identity").toLowerCase();
  if (encoding !== "identity" && encoding !== "gzip") {
    return refuse(400, "bad_request", "The Content-Encoding header has to be gzip or absent.");
  }
  try {
    const plain = encoding === "gzip" ? await decompress(bytes, { maxOutputLength: MAX_BODY_BYTES }) : bytes;
    return { value: JSON.parse(plain.toString("utf8")) };
  } catch {
    return refuse(400, "bad_request", "The request body is not valid JSON.");
  }
}

const keyOf = ({ headers }: IncomingMessage): string => String(headers["x-api-key"] ?? "");

/** Error answer of the first fault that refuses the request. */
function refuseByFault(fired: readonly FiredFault[], records: readonly unknown[]): Refusal | null {
  for (const { name, fault, value, dice } of fired) {
    const refusal = fault.stage === "refusal" ? fault.refuse(value, records, dice) : null;
    if (refusal) return { ...refusal, fault: name };
  }
  return null;
}

/** Chooses the answer in the order gateway, validation, service. */
async function decide(world: World, exchange: Exchange): Promise<Outcome> {
  const { request, routes, id, url } = exchange;
  const key = keyOf(request);
  if (world.apiKey === null ? key === "" || key.startsWith("revoked") : key !== world.apiKey) {
    return refuse(401, "unauthorized", "The API key is invalid, revoked or missing.");
  }
  if (routes.length === 0) return notFound("resource");
  const route = routes.find(({ method }) => method === request.method);
  if (!route) {
    const allow = routes.map(({ method }) => method).join(", ");
    return refuse(405, null, "Method not allowed.", { headers: { allow } });
  }
  // A key without a user, with which asynchronous person search is refused (section 5).
  if (route.needsUserKey && /(^|-)organization-only$/.test(key)) {
    return refuse(401, "unauthorized", "The API key has no associated user.");
  }
  if (exchange.tooFast) return exchange.tooFast;
  const parsed = route.body ? await parseBody(exchange) : { value: null };
  if ("kind" in parsed) return parsed;
  const records = listIn(parsed.value, route.records);
  exchange.records = records.length;
  const refusal = refuseByFault(exchange.fired, records);
  if (refusal) return refusal;
  const sent = { organization: organizationOf(key), id, query: url.searchParams, body: parsed.value };
  const call = readCall(route, sent);
  if ("kind" in call) return call;
  const outcome = await route.answer(world, call);
  if (outcome.kind === "refusal") return outcome;
  return { ...outcome, results: distort(exchange.fired, outcome.results) };
}

/** Names of the faults that affected an outcome. */
function appliedFaults(fired: readonly FiredFault[], outcome: Outcome): readonly string[] {
  const isRefusal = outcome.kind === "refusal";
  const applied = fired.filter(({ name, fault: { stage } }) => {
    if (stage === "delay") return true;
    if (stage === "refusal") return isRefusal && name === outcome.fault;
    return (stage === "shape") === isRefusal;
  });
  return applied.map(({ name }) => name);
}

/** Answers one request and records it in the ledger. */
export async function serveRequest(
  world: World,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  const number = world.ledger.nextNumber();
  const { path = null, routes = [], form } = paths.find((one) => one.form.test(url.pathname)) ?? {};
  const id = form?.exec(url.pathname)?.groups?.["id"] ?? "";
  const method = request.method ?? "GET";
  const endpoint = path === null ? "other" : `${method} ${path}`;
  const fired = world.faults.fire(method, path ?? url.pathname);
  const bytes = await readBody(request);
  const tooFast = world.rate.take();
  const exchange: Exchange = { request, url, routes, id, fired, bytes, tooFast, records: 0 };
  let waitMs = world.latencyMs;
  for (const { fault, value } of fired) if (fault.stage === "delay") waitMs += fault.delayMs(value);
  if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
  const cuts = fired.filter(({ fault }) => fault.stage === "connection").map(({ name }) => name);
  if (cuts.length > 0) {
    world.ledger.record({ number, endpoint, status: 0, records: 0, matched: 0, billed: 0, faults: cuts });
    request.socket.destroy();
    return;
  }
  const outcome = await decide(world, exchange);
  const { records } = exchange;
  const counted = outcome.kind === "results" ? outcome : null;
  const { matched = 0, billed = 0, resolvable = records, delivered = records } = counted ?? {};
  if (counted && path !== null) {
    // Usage names endpoints without the first slash.
    world.usage.count(organizationOf(keyOf(request)), path.slice(1), world.clock.nowMs(), {
      requests: 1,
      records: delivered,
      resolvable,
      matched,
    });
  }
  const status = outcome.status ?? 200;
  const faults = appliedFaults(fired, outcome);
  world.ledger.record({ number, endpoint, status, records, matched, billed, faults });
  await send(world, exchange, response, outcome);
}

/** Body of an answer: the results in their envelope, or an error. */
function bodyOf({ clock }: World, outcome: Outcome, fired: readonly FiredFault[]): Buffer {
  const api_request_id = randomUUID();
  if (outcome.kind === "refusal") {
    let shape: ErrorShape = { form: "current", deprecatedFields: false };
    for (const { fault } of fired) if (fault.stage === "shape") shape = { ...shape, ...fault.shape };
    return Buffer.from(outcome.html ?? errorBody(outcome, api_request_id, shape));
  }
  const request_completed_at = stampText(clock.nowMs(), Number(process.hrtime.bigint() % 1000n));
  const body = outcome.body?.(RESULTS, { api_request_id, request_completed_at }) ?? {
    api_request_id,
    results: RESULTS,
    request_completed_at,
  };
  const [before = "", after] = JSON.stringify(body).split(`"${RESULTS}"`);
  if (after === undefined) return Buffer.from(before);
  // Encoded one by one: a single Chinese name would double the bytes of the whole text.
  const results = outcome.results.map((text, i) => Buffer.from(i === 0 ? text : `,${text}`));
  return Buffer.concat([Buffer.from(`${before}[`), ...results, Buffer.from(`]${after}`)]);
}

/** Sends an answer, compressed if it may be and the client accepts it, and damaged by faults. */
async function send(
  world: World,
  { request, fired }: Exchange,
  response: ServerResponse,
  outcome: Outcome,
): Promise<void> {
  const { headers = {}, html } = outcome.kind === "refusal" ? outcome : {};
  let { damage, bodyDelayMs }: Wire = { damage: "none", bodyDelayMs: 0 };
  for (const { fault, value } of fired) {
    // Only results are damaged in transit: they were billed.
    if (fault.stage !== "wire" || outcome.kind === "refusal") continue;
    ({ damage = damage, bodyDelayMs = bodyDelayMs } = fault.damage(value));
  }
  if (damage === "lost") {
    response.socket?.resetAndDestroy();
    return;
  }
  let body = bodyOf(world, outcome, fired);
  if (damage === "truncated") body = body.subarray(0, body.length >> 1);
  const takesGzip = world.compresses && /\bgzip\b/i.test(request.headers["accept-encoding"] ?? "");
  const isCompressed = takesGzip && body.length >= MIN_GZIP_BYTES;
  if (isCompressed) body = await compress(body, { level: 1, chunkSize: GZIP_CHUNK_BYTES });
  response.writeHead(outcome.status ?? 200, {
    ...headers,
    "content-type": html === undefined ? "application/json" : "text/html",
    date: new Date(world.clock.nowMs()).toUTCString(),
    ...(isCompressed ? { "content-encoding": "gzip" } : {}),
    "content-length": String(body.length),
  });
  if (bodyDelayMs > 0) {
    response.flushHeaders();
    await delay(bodyDelayMs, undefined, { ref: false });
  }
  if (damage === "cut_body") {
    response.write(body.subarray(0, body.length >> 1), () => response.destroy());
    return;
  }
  response.end(body);
}
