import { microsText, stampText } from "../population/calendar.ts";
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { notFound, type Outcome, refuse, textsOf } from "../http/answer.ts";
import { integerText, MAX_TEXT_LENGTH, type Route, route, uuid } from "../http/route.ts";
import { deathSignalsOf } from "../population/deaths.ts";
import { MAX_PEOPLE } from "../population/identifiers.ts";
import type { World } from "../world.ts";
import type { Segment, Segments } from "./segments.ts";

const text = z.string().max(MAX_TEXT_LENGTH, { error: "string_too_long" });

function aboutSegment(
  { segments }: World,
  organization: string,
  segmentId: string,
  answer: (segment: Segment) => Outcome,
): Outcome {
  const segment = segments.find(organization, segmentId);
  return segment ? answer(segment) : notFound("segment");
}

const createRoute = route({
  method: "POST",
  path: "/v2/segments/create",
  body: z.strictObject({
    name: text.min(1, { error: "string_too_short" }),
    description: text.nullable().default(null),
  }),
  // Section 4.6: 400 for data types, 422 for missing fields.
  badRequestFor: ["string_type", "model_type"],
  answer({ segments }, { organization, body }) {
    const segment = segments.create({ segmentId: randomUUID(), organization, ...body });
    if (!segment) return refuse(409, "conflict", "The organization has a segment of that name.");
    return {
      kind: "results",
      results: [],
      body: (_results, envelope) => ({ ...envelope, segment_id: segment.segmentId }),
    };
  },
});

/** `POST /v2/segments/members/add` and `…/remove`. */
function changeRoute(
  kind: "add" | "remove",
  countsOf: (result: ReturnType<Segments["add"]>) => Readonly<Record<string, number>>,
): Route {
  return route({
    method: "POST",
    path: `/v2/segments/members/${kind}`,
    records: "service_pids",
    body: z.strictObject({ segment_id: uuid, service_pids: z.array(z.string()) }),
    answer: (world, { organization, body: { segment_id: id, service_pids: pids } }) =>
      aboutSegment(world, organization, id, (segment) => {
        const result = world.segments[kind](segment, pids);
        const size = segment.members.size();
        return {
          kind: "results",
          results: [],
          matched: pids.length - result.invalid.length,
          body: (_results, envelope) => ({
            ...envelope,
            results: { invalid_service_pids: result.invalid, ...countsOf(result), new_current_size: size },
          }),
        };
      }),
  });
}

/** `GET /v2/segments/members`: one page, newest first. */
const membersRoute = route({
  method: "GET",
  path: "/v2/segments/members",
  query: z.strictObject({ segment_id: uuid, page: integerText(1).default(1) }),
  answer: (world, { organization, query: { segment_id: id, page } }) =>
    aboutSegment(world, organization, id, (segment) => {
      const { membersPerPage: perPage, segments } = world;
      const size = segment.members.size();
      const results = segment.members.list((page - 1) * perPage, perPage).map((member) => ({
        service_pid: segments.pidText(member.pid),
        first_added_at: microsText(member.firstAddedUs),
      }));
      segments.pageServed(segment);
      return {
        kind: "results",
        results: textsOf(results),
        body: (items, envelope) => ({
          ...envelope,
          results: { items, total_count: size, page, list_continues: page * perPage < size },
        }),
      };
    }),
});

function signalsOf({ people, clock, segments }: World, pid: number): readonly object[] {
  const signals = deathSignalsOf(people, pid % MAX_PEOPLE, clock.nowMs())
    .filter((signal) => !segments.hiddenDeaths.has(signal.obituary_id))
    .map(({ observedMs, signal_metadata, ...signal }) => ({
      service_pid: segments.pidText(pid),
      ...signal,
      first_observed_at: observedMs === null ? null : stampText(observedMs, observedMs % 997, "+00:00"),
      signal_metadata,
    }));
  return [...signals, ...(segments.statedDeaths.get(pid)?.values() ?? [])];
}

/** `GET /v2/segments/signals/deaths`: every signal about the members of a segment. */
const deathSignalsRoute = route({
  method: "GET",
  path: "/v2/segments/signals/deaths",
  query: z.strictObject({ segment_id: uuid }),
  badRequestFor: ["missing"],
  answer: (world, { organization, query }) =>
    aboutSegment(world, organization, query.segment_id, ({ members }) => {
      const present = members.ever.filter(({ isMember }) => isMember);
      return { kind: "results", results: textsOf(present.flatMap(({ pid }) => signalsOf(world, pid))) };
    }),
});

export const segmentRoutes: readonly Route[] = [
  createRoute,
  membersRoute,
  changeRoute("add", ({ changed, redundant }) => ({ n_redundant_additions: redundant, n_added: changed })),
  changeRoute("remove", ({ changed }) => ({ n_deleted: changed })),
  deathSignalsRoute,
];
