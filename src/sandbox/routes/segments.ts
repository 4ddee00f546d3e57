import { randomUUID } from "node:crypto";
import { z } from "zod";
import { checkAgainst, MAX_TEXT_LENGTH, parametersOf } from "../http/check-request.ts";
import { refuse, type Refusal, type Results } from "../http/outcome.ts";
import { writeResults } from "../http/result-list.ts";
import { deathSignalsOf } from "../population/deaths.ts";
import { MAX_PEOPLE } from "../population/identifiers.ts";
import { pageServed } from "../segments/page-hooks.ts";
import type { ChangeResult, Segment, Segments } from "../segments/segments.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { listIn, type Route } from "./route.ts";

const segmentId = z.string().regex(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, { error: "uuid_parsing" });
const noSuchSegment = (): Refusal => refuse(404, "not_found", "There is no such segment.");
const NO_RESULTS = writeResults(0).finish();

const text = z.string().max(MAX_TEXT_LENGTH, { error: "string_too_long" });
const newSegment = z.strictObject({
  name: text.min(1, { error: "string_too_short" }),
  description: text.nullable().optional(),
});

/** `POST /v2/segments/create`. */
const createSegmentRoute: Route = {
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
    // It passed the check.
    const { name, description = null } = body as z.infer<typeof newSegment>;
    const segment = segments.create({ segmentId: randomUUID(), organization, name, description });
    if (!segment) return refuse(409, "conflict", "The organization has a segment of that name.");
    return {
      kind: "results",
      results: NO_RESULTS,
      wrap: (id, completed) => [`{${id},"segment_id":"${segment.segmentId}"`, `,${completed}}`],
    };
  },
};

const memberChange = z.strictObject({ segment_id: segmentId, service_pids: z.array(z.string()) });

function changeRoute(
  path: string,
  change: (segments: Segments, segment: Segment, pids: readonly string[]) => ChangeResult,
  countsOf: (result: ChangeResult) => Readonly<Record<string, number>>,
): Route {
  return {
    method: "POST",
    path,
    recordsOf: ({ body }) => listIn(body, "service_pids"),
    check: ({ body }) => checkAgainst(memberChange, body),
    answer({ segments }, { organization, body }) {
      // It passed the check.
      const { segment_id, service_pids } = body as z.infer<typeof memberChange>;
      const segment = segments.find(organization, segment_id);
      if (!segment) return noSuchSegment();
      const result = change(segments, segment, service_pids);
      const results = JSON.stringify({
        invalid_service_pids: result.invalid,
        ...countsOf(result),
        new_current_size: segment.members.size,
      });
      return {
        kind: "results",
        results: NO_RESULTS,
        matched: service_pids.length - result.invalid.length,
        wrap: (id, completed) => [`{${id},"results":${results}`, `,${completed}}`],
      };
    },
  };
}

/** `POST /v2/segments/members/add`. */
const addMembersRoute = changeRoute(
  "/v2/segments/members/add",
  (segments, segment, pids) => segments.add(segment, pids),
  ({ changed, redundant }) => ({ n_redundant_additions: redundant, n_added: changed }),
);

/** `POST /v2/segments/members/remove`. */
const removeMembersRoute = changeRoute(
  "/v2/segments/members/remove",
  (segments, segment, pids) => segments.remove(segment, pids),
  ({ changed }) => ({ n_deleted: changed }),
);

const memberPage = z.strictObject({
  segment_id: segmentId,
  page: z
    .string()
    .regex(/^[+-]?\d{1,15}$/, { error: "int_parsing" })
    .refine((page) => !(Number(page) < 1), { error: "greater_than_equal" })
    .optional(),
});

/** `GET /v2/segments/members`: one page, newest first. */
const segmentMembersRoute: Route = {
  method: "GET",
  path: "/v2/segments/members",
  check: ({ query }) => checkAgainst(memberPage, parametersOf(query), "query"),
  answer(world, { organization, query }) {
    const segment = world.segments.find(organization, query.get("segment_id") ?? "");
    if (!segment) return noSuchSegment();
    const page = Number(query.get("page") ?? 1);
    const { size } = segment.members;
    const perPage = world.membersPerPage;
    const members = segment.members.list((page - 1) * perPage, perPage);
    const results = writeResults(members.length * 100);
    for (const { pid, firstAddedUs: us } of members) {
      const addedAt = stampText(Math.floor(us / 1000), us % 1000, "z");
      results.add(`{"service_pid":"${world.segments.pidText(pid)}","first_added_at":"${addedAt}"}`);
    }
    pageServed(world, segment);
    return {
      kind: "results",
      results: results.finish(),
      wrap: (id, completed) => [
        `{${id},"results":{"items":[`,
        `],"total_count":${size},"page":${page},"list_continues":${page * perPage < size}},${completed}}`,
      ],
    };
  },
};

/** JSON texts of the signals about one member. */
function signalsOf({ people, clock, deaths, segments }: World, pid: number): readonly string[] {
  const signals = deathSignalsOf(people, pid % MAX_PEOPLE, clock.nowMs())
    .filter((signal) => !deaths.hidden.has(signal.obituary_id))
    .map(({ observedMs, signal_metadata, ...signal }) =>
      JSON.stringify({
        service_pid: segments.pidText(pid),
        ...signal,
        first_observed_at: observedMs === null ? null : stampText(observedMs, observedMs % 997, "offset"),
        signal_metadata,
      }),
    );
  return [...signals, ...(deaths.byPid.get(pid)?.values() ?? [])];
}

/** `GET /v2/segments/signals/deaths`: every signal about the members of a segment. */
const deathSignalsRoute: Route = {
  method: "GET",
  path: "/v2/segments/signals/deaths",
  check({ query }) {
    if (!query.has("segment_id")) return refuse(400, "bad_request", "segment_id is missing.");
    return checkAgainst(z.strictObject({ segment_id: segmentId }), parametersOf(query), "query");
  },
  answer(world, { organization, query }): Results | Refusal {
    const segment = world.segments.find(organization, query.get("segment_id") ?? "");
    if (!segment) return noSuchSegment();
    const results = writeResults(1024);
    for (const pid of segment.members.livingPids()) {
      for (const signal of signalsOf(world, pid)) results.add(signal);
    }
    return { kind: "results", results: results.finish() };
  },
};

/** Every path about segments. */
export const segmentRoutes: readonly Route[] = [
  createSegmentRoute,
  segmentMembersRoute,
  addMembersRoute,
  removeMembersRoute,
  deathSignalsRoute,
];
