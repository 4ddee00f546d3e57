import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import { faultPlanSchema, parseFaults } from "../faults/plan.ts";
import { chooseFields } from "../population/person-fields.ts";
import { messageOf, SandboxError } from "../sandbox-error.ts";
import { SEARCH_CONTROLS } from "../search/controls.ts";
import { SEGMENT_CONTROLS } from "../segments/controls.ts";
import type { World } from "../world.ts";
import type { Control } from "./route.ts";
import { readBody } from "./transfer.ts";

/** Path of the sandbox's controls. */
export const CONTROL_PREFIX = "/_sandbox";

/** Matches hosts of this machine. */
const LOCAL_HOST = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/;

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

const timeOf = ({ clock }: World) => ({
  now: new Date(clock.nowMs()).toISOString(),
  moved_days: clock.movedDays,
});

/** Every control: method and path below {@link CONTROL_PREFIX}. */
const CONTROLS: Readonly<Record<string, Control>> = {
  ...SEGMENT_CONTROLS,
  ...SEARCH_CONTROLS,
  "GET /": (world) => ({
    seed: world.seed,
    people: world.people.count,
    ...timeOf(world),
    capacity: world.capacity,
    faults: world.faults.current(),
  }),
  "GET /ledger": ({ ledger }) => ledger.snapshot(),
  "POST /reset": (world) => {
    for (const part of [world.ledger, world.faults, world.segments, world.searches, world.usage])
      part.reset();
    world.clock.movedDays = 0;
    world.capacity.recordsLeft = null;
    world.rate.requestsPerSecond = null;
    return timeOf(world);
  },
  "POST /faults": ({ faults }, { body }) => {
    const { faults: plan } = faultsBody.parse(body);
    faults.set(typeof plan === "string" ? parseFaults(plan) : plan);
    return { faults: faults.current() };
  },
  "POST /clock": (world, { body }) => {
    world.clock.movedDays += clockBody.parse(body).days;
    return timeOf(world);
  },
  "POST /capacity": ({ capacity }, { body }) => {
    const { records: recordsLeft, code } = capacityBody.parse(body);
    return Object.assign(capacity, { recordsLeft, code });
  },
  "POST /rate": ({ rate }, { body }) => {
    const wanted = rateBody.parse(body);
    rate.requestsPerSecond = wanted.requests_per_second;
    rate.retryAfterSeconds = wanted.retry_after;
    return wanted;
  },
  "GET /person": ({ people, clock }, { rest: pid }) => {
    const day = clock.today();
    const index = people.findByPid(decodeURIComponent(pid), day);
    if (index === null) return null;
    const fields = everyField.text(people, index, day);
    return JSON.parse(`{"index":${index},"service_pid":"${people.pidOf(index, day)}"${fields}}`);
  },
};

/** Answers a control; controls need no key and are not in the ledger. */
export async function serveControl(
  world: World,
  request: IncomingMessage,
  response: ServerResponse,
  { pathname, searchParams: query }: URL,
): Promise<void> {
  const [first = "", ...rest] = pathname.slice(CONTROL_PREFIX.length + 1).split("/");
  const control = CONTROLS[`${request.method ?? "GET"} /${first}`];
  const answer = (status: number, body: unknown): void => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  };
  const bytes = await readBody(request);
  // Browsers send the origin of a page; pages of other machines may not control the sandbox.
  const { origin } = request.headers;
  if (origin !== undefined && !LOCAL_HOST.test(URL.parse(origin)?.hostname ?? "")) {
    return answer(403, { message: "The sandbox takes no requests of web pages." });
  }
  try {
    const body: unknown = bytes && bytes.length > 0 ? JSON.parse(bytes.toString("utf8")) : {};
    const result = control?.(world, { body, rest: rest.join("/"), query }) ?? null;
    if (result !== null) return answer(200, result);
    answer(404, { message: "The sandbox has no such control, or nothing under that name." });
  } catch (error) {
    const problems = error instanceof SandboxError ? error.problems : [];
    answer(400, { message: messageOf(error), problems });
  }
}
