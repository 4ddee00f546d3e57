import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { type FiredFault, distort } from "../faults/plan.ts";
import { lookupRoutes } from "../lookups/routes.ts";
import { contactJobRoutes } from "../search/contact-jobs.ts";
import { personSearchRoutes } from "../search/person-search.ts";
import { searchJobRoutes } from "../search/search-jobs.ts";
import { segmentRoutes } from "../segments/routes.ts";
import { usageRoutes } from "../usage/routes.ts";
import { stampText } from "../clock.ts";
import { checkRecords, isOrganizationOnly, organizationOf } from "../organizations.ts";
import type { World } from "../world.ts";
import { type ErrorShape, errorBody, notFound, type Outcome, refuse, type Refusal } from "./answer.ts";
import { listIn, type Route } from "./route.ts";
import { parseBody, readBody, send, SOUND_WIRE, type Wire } from "./transfer.ts";

/** Every route of the sandbox; other paths answer 404 `not_found`, also v1 paths of v2-only endpoints. */
const byPath = Map.groupBy(
  [
    ...lookupRoutes,
    ...segmentRoutes,
    ...usageRoutes,
    ...personSearchRoutes,
    ...searchJobRoutes,
    ...contactJobRoutes,
  ],
  ({ path }) => path,
);
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
  readonly url: URL;
  /** Routes of its path. */
  readonly routes: readonly Route[];
  /** Undefined for another method. */
  readonly route: Route | undefined;
  /** ID in its path. */
  readonly id: string;
  readonly fired: readonly FiredFault[];
  readonly body: Buffer | null;
  /** Refusal of a request beyond the rate limit. */
  readonly tooFast: Refusal | null;
  /** Number of records, once they are read. */
  records: number;
  /** Name of the fault that refused it. */
  refusedBy: string | null;
}

function checkKey(world: World, key: unknown): Refusal | null {
  const isAccepted =
    typeof key === "string" &&
    (world.apiKey === null ? key !== "" && !key.startsWith("revoked") : key === world.apiKey);
  return isAccepted ? null : refuse(401, "unauthorized", "The API key is invalid, revoked or missing.");
}

/** Error answer of the first fault that refuses the request. */
function refuseByFault(exchange: Exchange, records: readonly unknown[]): Refusal | null {
  for (const { name, fault, value, dice } of exchange.fired) {
    const refusal = fault.stage === "refusal" ? fault.refuse(value, records, dice) : null;
    if (!refusal) continue;
    exchange.refusedBy = name;
    return refusal;
  }
  return null;
}

/** Chooses the answer in the order gateway, validation, service. */
async function decide(world: World, exchange: Exchange): Promise<Outcome> {
  const { request, route, routes } = exchange;
  const key = request.headers["x-api-key"];
  const badKey = checkKey(world, key);
  if (badKey) return badKey;
  if (routes.length === 0) return notFound("resource");
  if (!route) {
    const allow = routes.map(({ method }) => method).join(", ");
    return refuse(405, null, "Method not allowed.", { headers: { allow } });
  }
  if (route.needsUserKey && isOrganizationOnly(key)) {
    return refuse(401, "unauthorized", "The API key has no associated user.");
  }
  if (exchange.tooFast) return exchange.tooFast;
  const hasBody = route.method === "POST" && !route.hasNoBody;
  const parsed = hasBody ? await parseBody(request, exchange.body) : { value: null };
  if ("kind" in parsed) return parsed;
  const { id, url } = exchange;
  const call = { organization: organizationOf(key), id, query: url.searchParams, body: parsed.value };
  const records = route.records === undefined ? [] : listIn(parsed.value, route.records);
  exchange.records = records.length;
  const refusal =
    refuseByFault(exchange, records) ??
    route.check(call) ??
    (route.needsCapacity ? checkRecords(world.capacity, records.length) : null);
  if (refusal) return refusal;
  const outcome = await route.answer(world, call);
  if (outcome.kind === "refusal") return outcome;
  if (route.needsCapacity && world.capacity.recordsLeft !== null)
    world.capacity.recordsLeft -= outcome.billed ?? 0;
  return { ...outcome, items: distort(exchange.fired, outcome.items) };
}

/** Names of the faults that affected an outcome. */
function appliedFaults({ fired, refusedBy }: Exchange, outcome: Outcome): readonly string[] {
  const applied = fired.filter(({ name, fault: { stage } }) => {
    if (stage === "delay") return true;
    if (stage === "refusal") return name === refusedBy;
    return (stage === "shape") === (outcome.kind === "refusal");
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
  const { routes, id } = findRoutes(url.pathname);
  const method = request.method ?? "GET";
  const template = routes[0]?.path;
  const endpoint = template === undefined ? "other" : `${method} ${template}`;
  const fired = world.faults.fire(method, template ?? url.pathname);
  const exchange: Exchange = {
    request,
    url,
    routes,
    route: routes.find((route) => route.method === method),
    id,
    fired,
    body: await readBody(request),
    tooFast: world.rate.take(),
    records: 0,
    refusedBy: null,
  };
  const waitMs = fired.reduce(
    (sum, { fault, value }) => sum + (fault.stage === "delay" ? fault.delayMs(value) : 0),
    world.latencyMs,
  );
  if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
  const cuts = fired.filter(({ fault }) => fault.stage === "connection").map(({ name }) => name);
  if (cuts.length > 0) {
    world.ledger.record({
      number,
      endpoint,
      status: 0,
      records: 0,
      matched: 0,
      billed: 0,
      faults: cuts,
    });
    request.socket.destroy();
    return;
  }
  const outcome = await decide(world, exchange);
  const { records } = exchange;
  const counted = outcome.kind === "results" ? outcome : null;
  const { matched = 0, billed = 0, resolvable = records, delivered = records } = counted ?? {};
  if (counted && template !== undefined) {
    const counts = { requests: 1, records: delivered, resolvable, matched };
    // Usage names endpoints without the first slash.
    const subject = template.slice(1);
    world.usage.count(organizationOf(request.headers["x-api-key"]), subject, world.clock.nowMs(), counts);
  }
  const status = outcome.status ?? 200;
  const faults = appliedFaults(exchange, outcome);
  world.ledger.record({ number, endpoint, status, records, matched, billed, faults });
  world.log.debug({ endpoint, status, records, matched, faults }, "sandbox_request");
  await sendOutcome(world, exchange, response, outcome);
}

/** Body of an answer: the results in their envelope, or an error. */
function bodyOf(world: World, route: Route | undefined, outcome: Outcome, fired: readonly FiredFault[]) {
  const apiRequestId = randomUUID();
  if (outcome.kind === "refusal") {
    let shape: ErrorShape = { form: "current", deprecatedFields: false };
    for (const { fault } of fired) if (fault.stage === "shape") shape = { ...shape, ...fault.shape };
    return Buffer.from(outcome.html ?? errorBody(outcome, apiRequestId, shape));
  }
  const micros = Number(process.hrtime.bigint() % 1000n);
  const id = `"api_request_id":"${apiRequestId}"`;
  const completed = `"request_completed_at":"${stampText(world.clock.nowMs(), micros, route?.stamp ?? "z")}"`;
  const [start, end] =
    outcome.frame?.(id, completed) ??
    (route?.resultsLast
      ? [`{${id},${completed},"results":[`, "]}"]
      : [`{${id},"results":[`, `],${completed}}`]);
  // Encoded one by one: a single Chinese name would double the bytes of the whole text.
  const items = outcome.items.map((item, i) => Buffer.from(i === 0 ? item : `,${item}`));
  return Buffer.concat([Buffer.from(start), ...items, Buffer.from(end)]);
}

async function sendOutcome(
  world: World,
  { request, route, fired }: Exchange,
  response: ServerResponse,
  outcome: Outcome,
): Promise<void> {
  const isRefusal = outcome.kind === "refusal";
  let wire: Wire = SOUND_WIRE;
  for (const { fault, value } of fired) {
    // Only results are damaged in transit: they were billed.
    if (fault.stage === "wire" && !isRefusal) wire = { ...wire, ...fault.damage(value) };
  }
  const headers = {
    ...(isRefusal ? outcome.headers : {}),
    "content-type": isRefusal && outcome.html !== undefined ? "text/html" : "application/json",
    date: new Date(world.clock.nowMs()).toUTCString(),
  };
  const body = bodyOf(world, route, outcome, fired);
  const answer = { status: outcome.status ?? 200, headers, body, compresses: world.compresses };
  await send(request, response, answer, wire);
}
