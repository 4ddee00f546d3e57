import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { breaksConnection, delayOf, distort, namesOf, refusalOf, shapeOf, wireOf } from "../faults/apply.ts";
import type { FiredFault } from "../faults/decide.ts";
import { outOfCapacity, outOfCredits } from "../faults/refusals.ts";
import { ROUTES } from "../routes/table.ts";
import type { Route, RouteCall } from "../routes/route.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { organizationOf } from "../organization.ts";
import { errorBody, type Outcome, refuse, type Refusal, type Results } from "./outcome.ts";
import { parseBody, readBody } from "./receive.ts";
import { send, SOUND_WIRE } from "./send.ts";

/** A request on its way through the checks. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly fired: readonly FiredFault[];
  readonly body: Buffer | null;
  /** Records of the request, once they are read. */
  records: number;
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
  const { recordsLeft, code } = world.capacity;
  if (!route.needsCapacity || recordsLeft === null || records <= recordsLeft) return null;
  return code === "insufficient_credits" ? outOfCredits(recordsLeft) : outOfCapacity(recordsLeft, records);
}

/** Decides what to answer, in the order in which a gateway, its checks and the service would. */
async function decide(world: World, exchange: Exchange): Promise<Outcome> {
  const { request, path, fired } = exchange;
  const badKey = checkKey(world, request);
  if (badKey) return badKey;
  const route = ROUTES.get(path);
  if (!route) return refuse(404, "not_found", "There is no such resource.");
  if (request.method !== route.method) {
    return refuse(405, null, "Method not allowed.", { headers: { allow: route.method } });
  }
  const parsed = route.method === "GET" ? { value: null } : await parseBody(request, exchange.body);
  if ("kind" in parsed) return parsed;
  const call: RouteCall = {
    organization: organizationOf(request.headers["x-api-key"]),
    query: exchange.query,
    body: parsed.value,
  };
  const records = route.recordsOf(call);
  exchange.records = records.length;
  const fault = refusalOf(fired, records);
  exchange.refusedBy = fault?.name ?? null;
  const refusal = fault?.refusal ?? route.check(call) ?? checkCapacity(world, route, records.length);
  if (refusal) return refusal;
  const outcome = route.answer(world, call);
  if (outcome.kind === "refusal") return outcome;
  if (route.needsCapacity && world.capacity.recordsLeft !== null)
    world.capacity.recordsLeft -= outcome.billed;
  return distort(fired, outcome);
}

/** The envelope of a success answer around its results. */
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

/** Answers one request of the service's own paths and writes it into the ledger. */
export async function serveRequest(
  world: World,
  request: IncomingMessage,
  response: ServerResponse,
  { pathname: path, searchParams: query }: URL,
): Promise<void> {
  const number = world.ledger.nextNumber();
  const fired = world.faults.fire(path);
  const exchange: Exchange = {
    request,
    path,
    query,
    fired,
    body: await readBody(request),
    records: 0,
    refusedBy: null,
  };
  const waitMs = world.latencyMs + delayOf(fired);
  if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
  const endpoint = ROUTES.has(path) ? `${request.method ?? "GET"} ${path}` : "other";
  if (breaksConnection(fired)) {
    const faults = fired.filter(({ fault }) => fault.stage === "connection").map(({ name }) => name);
    world.ledger.record({ number, endpoint, status: 0, records: 0, matched: 0, billed: 0, faults });
    request.socket.destroy();
    return;
  }
  const outcome = await decide(world, exchange);
  if (outcome.kind === "results") {
    const { matched, resolvable = exchange.records } = outcome;
    const organization = organizationOf(request.headers["x-api-key"]);
    const counts = { requests: 1, records: exchange.records, resolvable, matched };
    // As usage names it, without the first slash.
    world.usage.served.count(organization, path.slice(1), world.clock.nowMs(), counts);
  }
  const status = outcome.kind === "refusal" ? outcome.status : 200;
  const { matched, billed } = outcome.kind === "refusal" ? { matched: 0, billed: 0 } : outcome;
  const faults = namesOf(fired, outcome, exchange.refusedBy);
  world.ledger.record({ number, endpoint, status, records: exchange.records, matched, billed, faults });
  world.log.debug({ endpoint, status, records: exchange.records, matched, faults }, "sandbox_request");
  await sendOutcome(world, exchange, response, outcome);
}

async function sendOutcome(
  world: World,
  { request, path, fired }: Exchange,
  response: ServerResponse,
  outcome: Outcome,
): Promise<void> {
  const apiRequestId = randomUUID();
  const { compresses } = world;
  const json = { "content-type": "application/json", date: new Date(world.clock.nowMs()).toUTCString() };
  if (outcome.kind === "results") {
    const body = envelope(world, ROUTES.get(path), outcome, apiRequestId);
    await send(request, response, { status: 200, headers: json, body, compresses }, wireOf(fired));
    return;
  }
  const { status, html } = outcome;
  const text = html ?? errorBody(outcome, apiRequestId, shapeOf(fired));
  const headers = {
    ...outcome.headers,
    ...json,
    ...(html === undefined ? {} : { "content-type": "text/html" }),
  };
  // Damage on the way is for answers that were billed.
  await send(request, response, { status, headers, body: Buffer.from(text), compresses }, SOUND_WIRE);
}
