import { randomUUID } from "node:crypto";
import type { z } from "zod";
import {
  MAX_SEARCH_SIZE,
  personSearchEndpoints,
  personSearchRequest,
  searchChannels,
} from "../../schemas/person-search.ts";
import { checkAgainst } from "../http/check-request.ts";
import { refuse } from "../http/outcome.ts";
import { listOf, writeResults } from "../http/result-list.ts";
import { countChannels, findAudience } from "../search/audience.ts";
import { parseQuery } from "../search/parse-query.ts";
import { ownOf } from "../search/searches.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { deliveredToday } from "./person-search-usage.ts";
import { checkId } from "./result-pages.ts";
import type { Route } from "./route.ts";

async function coverageOf({ people }: World, day: number, indexes: readonly number[]) {
  const counts = await countChannels(people, day, indexes, searchChannels);
  return Object.fromEntries(
    searchChannels.map((channel) => {
      const count = counts[channel];
      return [channel, { count, percent: indexes.length === 0 ? 0 : (count / indexes.length) * 100 }];
    }),
  );
}

/** Text of a normalized query: single spaces, none around. */
export function normalizeQuery(query: string): string {
  return query.trim().replaceAll(/\s+/g, " ");
}

/** `POST /person-search/v0/search`. */
const searchRoute: Route = {
  ...personSearchEndpoints.create,
  check: ({ body }) => checkAgainst(personSearchRequest, body),
  async answer(world, { organization, body }) {
    // It passed the check.
    const sent = body as z.infer<typeof personSearchRequest>;
    const query = normalizeQuery(sent.query);
    const { expression } = parseQuery(query, world.searches.lexicon);
    if (!expression) return refuse(400, "no_filters_extracted", "The query yields no usable filters.");
    const day = world.clock.today();
    const found = await findAudience(world.people, day, expression);
    const returned = found.slice(0, sent.size ?? MAX_SEARCH_SIZE);
    const total = await coverageOf(world, day, found);
    const ofReturned = await coverageOf(world, day, returned);
    // Nothing waits from here on: two requests can't pass the limit together.
    if (deliveredToday(world, organization) + returned.length > world.searches.dailyRecordLimit) {
      return refuse(429, "rate_limit_reached", "Request rate limit or plan quota exceeded.");
    }
    const searchId = randomUUID();
    const pids = returned.map((index) => JSON.stringify(world.people.pidOf(index, day)));
    const head = `{"search_id":"${searchId}","query":${JSON.stringify(query)},"results":[`;
    const rest = JSON.stringify({
      total_count: found.length,
      result_count: returned.length,
      total_contact_coverage: total,
      results_contact_coverage: ofReturned,
      created_at: stampText(world.clock.nowMs(), 0, "z"),
    });
    const tail = `],${rest.slice(1)}`;
    world.searches.stored.set(searchId, { searchId, organization, payload: head + pids.join(",") + tail });
    return {
      kind: "results",
      results: listOf(pids),
      delivered: pids.length,
      wrap: () => [head, tail],
    };
  },
};

/** `GET /person-search/v0/search/{search_id}`: the stored answer. */
const storedSearchRoute: Route = {
  ...personSearchEndpoints.read,
  check: (call) => checkId("search_id", call),
  answer({ searches }, { organization, id }) {
    const found = ownOf(searches.stored, organization, id);
    if (!found) return refuse(404, "not_found", "There is no such search.");
    return { kind: "results", results: writeResults(0).finish(), wrap: () => [found.payload, ""] };
  },
};

/** Every path of synchronous person search. */
export const personSearchRoutes: readonly Route[] = [searchRoute, storedSearchRoute];
