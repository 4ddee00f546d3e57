import type { LookupEndpoint } from "../../schemas/endpoint.ts";
import type { Outcome } from "../http/outcome.ts";
import type { World } from "../world.ts";
import type { StampStyle } from "../world-clock.ts";

/** A checked request body. */
export interface LookupBody {
  readonly records: readonly unknown[];
  readonly [parameter: string]: unknown;
}

/** A path of the service that takes batches of records. */
export interface Route {
  readonly endpoint: LookupEndpoint;
  /** How `request_completed_at` is written. */
  readonly stamp: StampStyle;
  /** The envelope's members in this endpoint's order. */
  readonly resultsLast: boolean;
  /** Refused with 402 when the organization's capacity can't cover the records (section 4.7 names it for enrich only). */
  readonly needsCapacity: boolean;
  /** Carries out a request whose body passed the endpoint's schema. */
  answer(world: World, body: LookupBody): Outcome;
}
