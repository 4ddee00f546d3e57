import { randomUUID } from "node:crypto";
import { z } from "zod";
import { notFound, refuse } from "../http/answer.ts";
import { checkAgainst, checkQuery, integerText, MAX_TEXT_LENGTH, type Route, uuid } from "../http/route.ts";
import { deathSignalsOf } from "../population/deaths.ts";
import { MAX_PEOPLE } from "../population/identifiers.ts";
import { microsText, stampText } from "../clock.ts";
import type { World } from "../world.ts";
import type { Segment, Segments } from "./segments.ts";

const text = z.string().max(MAX_TEXT_LENGTH, { error: "string_too_long" });
const newSegment = z.strictObject({
  name: text.min(1, { error: "string_too_short" }),
  description: text.nullable().optional(),
});
const memberChange = z.strictObject({ segment_id: uuid, service_pids: z.array(z.string()) });
const memberPage = z.strictObject({ segment_id: uuid, page: integerText(1).optional() });

/** `POST /v2/segments/create`. */
const createRoute: Route = {
  method: "POST",
  path: "/v2/segments/create",
  check({ body }) {
    const refusal = checkAgainst(newSegment, body);
    // Section 4.6: 400 for data types, 422 for missing fields.
    const details = Array.isArray(refusal?.details) ? refusal.details : [];
    const isTyped = details.some(({ type }) => type === "string_type" || type === "model_type");
    return isTyped ? refuse(400, "bad_request", "The request has fields of a wrong type.") : refusal;
  },
  answer({ segments }, { organization, body }) {
    const { name, description = null } = newSegment.parse(body);
    const segment = segments.create({ segmentId: randomUUID(), organization, name, description });
    if (!segment) return refuse(409, "conflict", "The organization has a segment of that name.");
    return {
      kind: "results",
      items: [],
      frame: (id, completed) => [`{${id},"segment_id":"${segment.segmentId}"`, `,${completed}}`],
    };
  },
};

/** `POST /v2/segments/members/add` and `…/remove`. */
function changeRoute(
  kind: "add" | "remove",
  countsOf: (result: ReturnType<Segments["add"]>) => Readonly<Record<string, number>>,
): Route {
  return {
    method: "POST",
    path: `/v2/segments/members/${kind}`,
    records: "service_pids",
    check: ({ body }) => checkAgainst(memberChange, body),
    answer({ segments }, { organization, body }) {
      // It passed the check.
      const { segment_id, service_pids } = body as z.infer<typeof memberChange>;
      const segment = segments.find(organization, segment_id);
      if (!segment) return notFound("segment");
      const result = segments[kind](segment, service_pids);
      const results = JSON.stringify({
        invalid_service_pids: result.invalid,
        ...countsOf(result),
        new_current_size: segment.members.size(),
      });
      return {
        kind: "results",
        items: [],
        matched: service_pids.length - result.invalid.length,
        frame: (id, completed) => [`{${id},"results":${results}`, `,${completed}}`],
      };
    },
  };
}

/** One page of members, newest first. */
function pageOfMembers(world: World, segment: Segment, page: number) {
  const { membersPerPage: perPage, segments } = world;
  const size = segment.members.size();
  const items = segment.members.list((page - 1) * perPage, perPage).map(({ pid, firstAddedUs: us }) => {
    const addedAt = microsText(us);
    return `{"service_pid":"${segments.pidText(pid)}","first_added_at":"${addedAt}"}`;
  });
  const rest = `"total_count":${size},"page":${page},"list_continues":${page * perPage < size}`;
  return { items, rest };
}

/** `GET /v2/segments/members`. */
const membersRoute: Route = {
  method: "GET",
  path: "/v2/segments/members",
  check: ({ query }) => checkQuery(memberPage, query),
  answer(world, { organization, query }) {
    const segment = world.segments.find(organization, query.get("segment_id") ?? "");
    if (!segment) return notFound("segment");
    const { items, rest } = pageOfMembers(world, segment, Number(query.get("page") ?? 1));
    world.segments.pageServed(segment);
    return {
      kind: "results",
      items,
      frame: (id, completed) => [`{${id},"results":{"items":[`, `],${rest}},${completed}}`],
    };
  },
};

/** JSON texts of the signals about one member. */
function signalsOf({ people, clock, segments }: World, pid: number): readonly string[] {
  const signals = deathSignalsOf(people, pid % MAX_PEOPLE, clock.nowMs())
    .filter((signal) => !segments.hiddenDeaths.has(signal.obituary_id))
    .map(({ observedMs, signal_metadata, ...signal }) =>
      JSON.stringify({
        service_pid: segments.pidText(pid),
        ...signal,
        first_observed_at: observedMs === null ? null : stampText(observedMs, observedMs % 997, "offset"),
        signal_metadata,
      }),
    );
  return [...signals, ...(segments.statedDeaths.get(pid)?.values() ?? [])];
}

/** `GET /v2/segments/signals/deaths`: every signal about the members of a segment. */
const deathSignalsRoute: Route = {
  method: "GET",
  path: "/v2/segments/signals/deaths",
  check({ query }) {
    if (!query.has("segment_id")) return refuse(400, "bad_request", "segment_id is missing.");
    return checkQuery(z.strictObject({ segment_id: uuid }), query);
  },
  answer(world, { organization, query }) {
    const segment = world.segments.find(organization, query.get("segment_id") ?? "");
    if (!segment) return notFound("segment");
    const present = segment.members.ever.filter(({ isMember }) => isMember);
    return { kind: "results", items: present.flatMap(({ pid }) => signalsOf(world, pid)) };
  },
};

/** Every path about segments. */
export const segmentRoutes: readonly Route[] = [
  createRoute,
  membersRoute,
  changeRoute("add", ({ changed, redundant }) => ({ n_redundant_additions: redundant, n_added: changed })),
  changeRoute("remove", ({ changed }) => ({ n_deleted: changed })),
  deathSignalsRoute,
];
