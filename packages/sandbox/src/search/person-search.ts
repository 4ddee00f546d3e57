import { stampText } from "../population/calendar.ts";
import { randomUUID } from "node:crypto";
import {
  MAX_SEARCH_SIZE,
  personSearchEndpoints,
  personSearchRequest,
  searchChannels,
} from "../../../../src/schemas/person-search.ts";
import { notFound, plainBody, refuse, textsOf, tooFast } from "../http/answer.ts";
import { type Route, route } from "../http/route.ts";
import { deliveredToday } from "../usage/routes.ts";
import type { World } from "../world.ts";
import { countChannels, findAudience } from "./audience.ts";
import { parseQuery } from "./parse-query.ts";
import { normalizeQuery, ownOf } from "./searches.ts";

async function coverageOf({ people }: World, day: number, indexes: readonly number[]) {
  const counts = await countChannels({ people, day, indexes }, searchChannels);
  const percent = (count: number) => (indexes.length === 0 ? 0 : (count / indexes.length) * 100);
  return Object.fromEntries(counts.map(([channel, count]) => [channel, { count, percent: percent(count) }]));
}

const searchRoute = route({
  ...personSearchEndpoints.create,
  body: personSearchRequest,
  async answer(world, { organization, body }) {
    const { people, searches, clock } = world;
    const query = normalizeQuery(body.query);
    const { isMet } = parseQuery(query, searches.lexicon);
    if (!isMet) return refuse(400, "no_filters_extracted", "The query yields no usable filters.");
    const day = clock.today();
    const found = await findAudience(people, day, isMet);
    const returned = found.slice(0, body.size ?? MAX_SEARCH_SIZE);
    const total = await coverageOf(world, day, found);
    const ofReturned = await coverageOf(world, day, returned);
    // Nothing waits from here on: two requests can't pass the limit together.
    if (deliveredToday(world, organization) + returned.length > searches.dailyRecordLimit) return tooFast();
    const searchId = randomUUID();
    const results = returned.map((index) => people.pidOf(index, day));
    const createdAt = stampText(clock.nowMs(), 0);
    const answer = (pids: unknown) => ({
      search_id: searchId,
      query,
      results: pids,
      total_count: found.length,
      result_count: returned.length,
      total_contact_coverage: total,
      results_contact_coverage: ofReturned,
      created_at: createdAt,
    });
    const payload = JSON.stringify(answer(results));
    searches.stored.set(searchId, { searchId, organization, payload });
    return { kind: "results", results: textsOf(results), body: answer, delivered: results.length };
  },
});

const storedSearchRoute = route({
  ...personSearchEndpoints.read,
  answer({ searches }, call) {
    const found = ownOf(searches.stored, call);
    return found ? plainBody(JSON.parse(found.payload)) : notFound("search");
  },
});

export const personSearchRoutes: readonly Route[] = [searchRoute, storedSearchRoute];
