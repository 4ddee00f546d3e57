import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { checkRecords } from "../capacity.ts";
import { breaksConnection, delayOf, distort, namesOf, refusalOf, shapeOf, wireOf } from "../faults/apply.ts";
import type { FiredFault } from "../faults/decide.ts";
import { endpointUsageRoute } from "../routes/endpoint-usage.ts";
import { contactJobRoutes } from "../routes/contact-jobs.ts";
import { lookupRoutes } from "../routes/lookups.ts";
import { personSearchRoutes } from "../routes/person-search.ts";
import { personSearchUsageRoute } from "../routes/person-search-usage.ts";
import { searchJobRoutes } from "../routes/search-jobs.ts";
import { segmentRoutes } from "../routes/segments.ts";
import type { Route, RouteCall } from "../routes/route.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { isOrganizationOnly, organizationOf } from "../organization.ts";
import { errorBody, type Outcome, refuse, type Refusal, type Results } from "./outcome.ts";
import { parseBody, readBody } from "./receive.ts";
import { send, SOUND_WIRE } from "./send.ts";

/** Every route of the sandbox; other paths answer 404 `not_found`, also v1 paths of v2-only endpoints. */
const ROUTES: readonly Route[] = [
  ...lookupRoutes,
  ...segmentRoutes,
  endpointUsageRoute,
  personSearchUsageRoute,
  ...personSearchRoutes,
  ...searchJobRoutes,
  ...contactJobRoutes,
];
const byPath = Map.groupBy(ROUTES, ({ path }) => path);
/** Paths with an ID. */
const patterns = [...byPath].flatMap(([path, routes]) =>
  path.includes("{") ? [{ routes, form: new RegExp(`^${path.replace(/\{\w+\}/, "([^/]+)")}$`) }] : [],
);

/** Routes of a path by method, and the ID in it. */
function findRoutes(path: string): { readonly routes: readonly Route[]; readonly id: string } {
  const routes = byPath.get(path);
  if (routes) return { routes, id: "" };
  for (const pattern of patterns) {
    const id = pattern.form.exec(path)?.[1];
    if (id !== undefined) return { routes: pattern.routes, id };
  }
  return { routes: [], id: "" };
}

/** A request and its state while it is served. */
interface Exchange {
  readonly request: IncomingMessage;
  /** Routes of its path. */
  readonly routes: readonly Route[];
  /** ID in its path. */
  readonly id: string;
  readonly query: URLSearchParams;
  readonly fired: readonly FiredFault[];
  readonly body: Buffer | null;
  /** Number of records, once they are read. */
  records: number;
  /** Refusal of a request beyond the rate limit. */
  readonly tooFast: Refusal | null;
  /** Name of the fault that refused it. */
  refusedBy: string | null;
}

function checkKey(world: World, request: IncomingMessage): Refusal | null {
  const key = request.headers["x-api-key"];
  const accepted =
    typeof key === "string" &&
    (world.apiKey === null ? key !== "" && !key.startsWith("revoked") : key === world.apiKey);
  return accepted ? null : refuse(401, "unauthorized", "The API key is invalid, revoked or missing.");
}

function checkCapacity(world: World, route: Route, records: number): Refusal | null {
  return route.needsCapacity ? checkRecords(world.capacity, records) : null;
}

/** Chooses the answer in the order gateway, validation, service. */
async function decide(world: World, exchange: Exchange): Promise<Outcome> {
  const { request, routes, fired } = exchange;
  const badKey = checkKey(world, request);
  if (badKey) return badKey;
  if (routes.length === 0) return refuse(404, "not_found", "There is no such resource.");
  const route = routeOf(exchange);
  if (!route) {
    const allow = routes.map(({ method }) => method).join(", ");
    return refuse(405, null, "Method not allowed.", { headers: { allow } });
  }
  if (route.needsUserKey && isOrganizationOnly(request.headers["x-api-key"])) {
    return refuse(401, "unauthorized", "The API key has no associated user.");
  }
  if (exchange.tooFast) return exchange.tooFast;
  const hasBody = route.method === "POST" && !route.hasNoBody;
  const parsed = hasBody ? await parseBody(request, exchange.body) : { value: null };
  if ("kind" in parsed) return parsed;
  const call: RouteCall = {
    organization: organizationOf(request.headers["x-api-key"]),
    id: exchange.id,
    query: exchange.query,
    body: parsed.value,
  };
  const records = route.recordsOf?.(call) ?? [];
  exchange.records = records.length;
  const fault = refusalOf(fired, records);
  exchange.refusedBy = fault?.name ?? null;
  const refusal = fault?.refusal ?? route.check(call) ?? checkCapacity(world, route, records.length);
  if (refusal) return refusal;
  const outcome = await route.answer(world, call);
  if (outcome.kind === "refusal") return outcome;
  if (route.needsCapacity && world.capacity.recordsLeft !== null)
    world.capacity.recordsLeft -= outcome.billed ?? 0;
  return distort(fired, outcome);
}

/** Route of a request; undefined for another method. */
function routeOf({ request, routes }: Exchange): Route | undefined {
  return routes.find(({ method }) => method === request.method);
}

/** Puts the envelope around the results. */
function envelope(world: World, route: Route | undefined, results: Results, apiRequestId: string): Buffer {
  const micros = Number(process.hrtime.bigint() % 1000n);
  const id = `"api_request_id":"${apiRequestId}"`;
  const completed = `"request_completed_at":"${stampText(world.clock.nowMs(), micros, route?.stamp ?? "z")}"`;
  const usual = (): readonly [string, string] =>
    route?.resultsLast
      ? [`{${id},${completed},"results":[`, "]}"]
      : [`{${id},"results":[`, `],${completed}}`];
  const [start, end] = results.wrap?.(id, completed) ?? usual();
  return Buffer.concat([Buffer.from(start), results.results.bytes, Buffer.from(end)]);
}

/** Answers one request and records it in the ledger. */
export async function serveRequest(
  world: World,
  request: IncomingMessage,
  response: ServerResponse,
  { pathname: path, searchParams: query }: URL,
): Promise<void> {
  const number = world.ledger.nextNumber();
  const { routes, id } = findRoutes(path);
  const method = request.method ?? "GET";
  const template = routes[0]?.path;
  const fired = world.faults.fire(method, template ?? path);
  const exchange: Exchange = {
    request,
    routes,
    id,
    query,
    fired,
    body: await readBody(request),
    records: 0,
    tooFast: world.rate.take(),
    refusedBy: null,
  };
  const waitMs = world.latencyMs + delayOf(fired);
  if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
  const endpoint = template === undefined ? "other" : `${method} ${template}`;
  if (breaksConnection(fired)) {
    const faults = fired.filter(({ fault }) => fault.stage === "connection").map(({ name }) => name);
    world.ledger.record({ number, endpoint, status: 0, records: 0, matched: 0, billed: 0, faults });
    request.socket.destroy();
    return;
  }
  const outcome = await decide(world, exchange);
  const { records } = exchange;
  const status = outcome.status ?? 200;
  const {
    matched = 0,
    billed = 0,
    resolvable = records,
    delivered = records,
  } = outcome.kind === "refusal" ? {} : outcome;
  if (outcome.kind === "results" && template !== undefined) {
    const organization = organizationOf(request.headers["x-api-key"]);
    const counts = { requests: 1, records: delivered, resolvable, matched };
    // Usage names endpoints without the first slash.
    world.usage.count(organization, template.slice(1), world.clock.nowMs(), counts);
  }
  const faults = namesOf(fired, outcome, exchange.refusedBy);
  world.ledger.record({ number, endpoint, status, records, matched, billed, faults });
  world.log.debug({ endpoint, status, records, matched, faults }, "sandbox_request");
  await sendOutcome(world, exchange, response, outcome);
}

async function sendOutcome(
  world: World,
  exchange: Exchange,
  response: ServerResponse,
  outcome: Outcome,
): Promise<void> {
  const { request, fired } = exchange;
  const apiRequestId = randomUUID();
  const { compresses } = world;
  const date = new Date(world.clock.nowMs()).toUTCString();
  if (outcome.kind === "results") {
    const body = envelope(world, routeOf(exchange), outcome, apiRequestId);
    const headers = { "content-type": "application/json", date };
    await send(
      request,
      response,
      { status: outcome.status ?? 200, headers, body, compresses },
      wireOf(fired),
    );
    return;
  }
  const { status, html } = outcome;
  const body = Buffer.from(html ?? errorBody(outcome, apiRequestId, shapeOf(fired)));
  const type = html === undefined ? "application/json" : "text/html";
  const headers = { ...outcome.headers, "content-type": type, date };
  // Only results are damaged in transit: they were billed.
  await send(request, response, { status, headers, body, compresses }, SOUND_WIRE);
}
