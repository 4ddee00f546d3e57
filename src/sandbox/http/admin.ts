import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { FixConfigurationError, messageOf } from "../../errors.ts";
import { isLocalHost } from "../../postgres-address.ts";
import { faultPlanSchema, parseFaults } from "../faults/plan.ts";
import { chooseFields } from "../population/person-fields.ts";
import { contentOf } from "../routes/lookups.ts";
import type { World } from "../world.ts";
import { type Control, SEGMENT_CONTROLS } from "./admin-segments.ts";
import { SEARCH_CONTROLS } from "./admin-searches.ts";
import { readBody } from "./receive.ts";

/** Path of the sandbox's controls. */
export const ADMIN_PREFIX = "/_sandbox";

const everyField = chooseFields(null);
const clockBody = z.strictObject({ days: z.number() });
const capacityBody = z.strictObject({
  records: z.int().min(0).nullable(),
  code: z
    .enum(["insufficient_record_capacity", "insufficient_credits"])
    .default("insufficient_record_capacity"),
});
const rateBody = z.strictObject({
  requests_per_second: z.number().positive().nullable(),
  retry_after: z.number().min(0).nullable().default(null),
});
const faultsBody = z.strictObject({ faults: z.union([z.string(), faultPlanSchema]) });
const contentBody = z.strictObject({ endpoint: z.string(), record: z.unknown() });

const clockOf = (world: World) => ({
  now: new Date(world.clock.nowMs()).toISOString(),
  moved_days: world.clock.movedDays,
});

/** Every control: method and path below {@link ADMIN_PREFIX}. */
const CONTROLS: Readonly<Record<string, Control>> = {
  ...SEGMENT_CONTROLS,
  ...SEARCH_CONTROLS,
  "GET /": (world) => ({
    seed: world.seed,
    people: world.people.count,
    ...clockOf(world),
    capacity: world.capacity,
    faults: world.faults.plan,
  }),
  "GET /ledger": (world) => world.ledger.snapshot(),
  "POST /content": (world, { body }) => {
    const { endpoint, record } = contentBody.parse(body);
    return world.ledger.timesOf(endpoint, contentOf(record));
  },
  "POST /reset": (world) => {
    world.ledger.reset();
    world.clock.movedDays = 0;
    world.faults.reset();
    world.capacity.recordsLeft = null;
    world.rate.requestsPerSecond = null;
    world.segments.reset();
    world.searches.reset();
    world.usage.reset();
    world.deaths.byPid.clear();
    world.deaths.hidden.clear();
    return clockOf(world);
  },
  "POST /faults": (world, { body }) => {
    const { faults } = faultsBody.parse(body);
    world.faults.set(typeof faults === "string" ? parseFaults(faults) : faults);
    return { faults: world.faults.plan };
  },
  "POST /clock": (world, { body }) => {
    world.clock.movedDays += clockBody.parse(body).days;
    return clockOf(world);
  },
  "POST /capacity": (world, { body }) => {
    const { records, code } = capacityBody.parse(body);
    world.capacity.recordsLeft = records;
    world.capacity.code = code;
    return world.capacity;
  },
  "POST /rate": (world, { body }) => {
    const { requests_per_second: requestsPerSecond, retry_after: retryAfterSeconds } = rateBody.parse(body);
    Object.assign(world.rate, { requestsPerSecond, retryAfterSeconds });
    return { requests_per_second: requestsPerSecond, retry_after: retryAfterSeconds };
  },
  "GET /person": (world, { rest: pid }) => {
    const day = world.clock.today();
    const index = world.people.findByPid(decodeURIComponent(pid), day);
    if (index === null) return null;
    const fields = everyField.text(world.people, index, day);
    return JSON.parse(`{"index":${index},"service_pid":"${world.people.pidOf(index, day)}"${fields}}`);
  },
};

/** Answers a control; controls need no key and are not in the ledger. */
export async function serveAdmin(
  world: World,
  request: IncomingMessage,
  response: ServerResponse,
  { pathname, searchParams: query }: URL,
): Promise<void> {
  const [first = "", ...rest] = pathname.slice(ADMIN_PREFIX.length + 1).split("/");
  const control = CONTROLS[`${request.method ?? "GET"} /${first}`];
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const bytes = await readBody(request);
  // Browsers send the origin of a page; pages of other machines may not control the sandbox.
  const { origin } = request.headers;
  if (origin !== undefined && !(URL.canParse(origin) && isLocalHost(new URL(origin).hostname))) {
    return answer(403, { message: "The sandbox takes no requests of web pages." });
  }
  try {
    const body: unknown = bytes && bytes.length > 0 ? JSON.parse(bytes.toString("utf8")) : {};
    const result = control?.(world, { body, rest: rest.join("/"), query }) ?? null;
    if (result === null)
      answer(404, { message: "The sandbox has no such control, or nothing under that name." });
    else answer(200, result);
  } catch (error) {
    const problems = error instanceof FixConfigurationError ? error.problems : [];
    answer(400, { message: messageOf(error), problems });
  }
}
