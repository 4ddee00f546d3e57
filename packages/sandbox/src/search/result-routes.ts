import { z } from "zod";
import { RESULTS_PAGE_SIZE } from "../../../../src/schemas/audience-search.ts";
import { notFound, type Outcome, refuse } from "../http/answer.ts";
import { integerText, type Route, route } from "../http/route.ts";
import type { World } from "../world.ts";
import { canBeUnlocked, type Job, ownOf } from "./searches.ts";

const pageQuery = z.strictObject({
  limit: integerText(1, RESULTS_PAGE_SIZE).default(RESULTS_PAGE_SIZE),
  offset: integerText(0).default(0),
});

export type Page = z.output<typeof pageQuery>;

/** Declares the results of a kind of job: POST unlocks and returns a page, GET pages after that. */
export function resultRoutes<Kind extends Job>(
  endpoints: Readonly<Record<"unlock" | "results", Pick<Route, "method" | "path">>>,
  kind: {
    readonly thing: "search" | "job";
    readonly needsUserKey?: boolean;
    jobsOf(world: World): ReadonlyMap<string, Kind>;
    answerPage(world: World, job: Kind, page: Page): Outcome | Promise<Outcome>;
  },
): readonly Route[] {
  const { thing, needsUserKey = false } = kind;
  const resultRoute = (isUnlock: boolean): Route =>
    route({
      ...endpoints[isUnlock ? "unlock" : "results"],
      needsUserKey,
      query: pageQuery,
      answer(world, call) {
        const job = ownOf(kind.jobsOf(world), call);
        if (!job) return notFound(thing);
        if (isUnlock && !canBeUnlocked(job, world.clock.nowMs()))
          return refuse(409, null, `The ${thing} is not completed.`);
        if (!isUnlock && job.unlockedMs === null) return refuse(409, null, "The results are not unlocked.");
        return kind.answerPage(world, job, call.query);
      },
    });
  return [resultRoute(true), resultRoute(false)];
}
