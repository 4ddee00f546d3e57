import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import { checkLookup } from "../http/check-request.ts";
import type { Outcome } from "../http/outcome.ts";
import type { World } from "../world.ts";
import { listIn, type Route } from "./route.ts";

/** A checked body of a path that takes batches of records. */
export interface LookupBody {
  readonly records: readonly unknown[];
  readonly [parameter: string]: unknown;
}

/** What is particular to a path that takes batches of records. */
interface Lookup extends Pick<Route, "stamp" | "resultsLast" | "needsCapacity"> {
  readonly endpoint: LookupEndpoint;
  /** Carries out a request whose body passed the endpoint's schema. */
  answer(world: World, body: LookupBody): Outcome;
}

/** The route of an endpoint that takes batches of records. */
export function lookupRoute(lookup: Lookup): Route {
  const { endpoint, ...rest } = lookup;
  return {
    ...rest,
    method: endpoint.method,
    path: endpoint.path,
    recordsOf: ({ body }) => listIn(body, "records"),
    check: ({ body }) => checkLookup(endpoint, body),
    // The check let it through, so it is an object with a list of records.
    answer: (world, { body }) => lookup.answer(world, body as LookupBody),
  };
}
