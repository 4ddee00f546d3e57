import { z } from "zod";
import { checkAgainst, parametersOf } from "../http/check-request.ts";
import { refuse } from "../http/outcome.ts";
import { writeResults } from "../http/result-list.ts";
import { deathSignalsOf } from "../population/deaths.ts";
import { MAX_PEOPLE } from "../population/identifiers.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import type { Route } from "./route.ts";
import { noSuchSegment, segmentIdField } from "./segment-query.ts";

const request = z.strictObject({ segment_id: segmentIdField });

/** JSON texts of the signals about one member. */
function signalsOf(world: World, pid: number): readonly string[] {
  const { people, clock, deaths } = world;
  const signals = deathSignalsOf(people, pid % MAX_PEOPLE, clock.nowMs())
    .filter((signal) => !deaths.hidden.has(signal.obituary_id))
    .map(({ observedMs, ...signal }) =>
      JSON.stringify({
        service_pid: world.segments.pidText(pid),
        obituary_id: signal.obituary_id,
        date_of_death: signal.date_of_death,
        publication_last_update_date: signal.publication_last_update_date,
        first_observed_at: observedMs === null ? null : stampText(observedMs, observedMs % 997, "offset"),
        signal_metadata: signal.signal_metadata,
      }),
    );
  return [...signals, ...(deaths.byPid.get(pid)?.values() ?? [])];
}

/** `GET /v2/segments/signals/deaths`: every signal about the members of a segment, in one answer. */
export const deathSignalsRoute: Route = {
  method: "GET",
  path: "/v2/segments/signals/deaths",
  stamp: "z",
  resultsLast: false,
  needsCapacity: false,
  recordsOf: () => [],
  check({ query }) {
    if (!query.has("segment_id")) return refuse(400, "bad_request", "segment_id is missing.");
    return checkAgainst(request, parametersOf(query), "query");
  },
  answer(world, { organization, query }) {
    const segment = world.segments.find(organization, query.get("segment_id") ?? "");
    if (!segment) return noSuchSegment();
    const results = writeResults(1024);
    for (const pid of segment.members.livingPids()) {
      for (const text of signalsOf(world, pid)) results.add(text);
    }
    return { kind: "results", results: results.finish(), matched: 0, billed: 0 };
  },
};
