import type { Outcome, Refusal } from "../http/outcome.ts";
import type { World } from "../world.ts";
import type { StampStyle } from "../world-clock.ts";

/** A request whose key and path were accepted. */
export interface RouteCall {
  /** Organization of the key; resources of another one are not found. */
  readonly organization: string;
  /** ID in the path; empty for paths without one. */
  readonly id: string;
  readonly query: URLSearchParams;
  /** Parsed body; null for GET. */
  readonly body: unknown;
}

/** A path of the service. */
export interface Route {
  readonly method: "GET" | "POST";
  /** May have one ID: `/person-search/v0/search/{search_id}`. */
  readonly path: string;
  /** Form of `request_completed_at`; `z` by default. */
  readonly stamp?: StampStyle;
  /** True if `results` is the envelope's last member. */
  readonly resultsLast?: boolean;
  /** Refused with 402 if the capacity can't cover the records (section 4.7 names it for enrich only). */
  readonly needsCapacity?: boolean;
  /** Refused with 401 for keys of an organization without a user (section 5). */
  readonly needsUserKey?: boolean;
  /** True for a POST without a body. */
  readonly hasNoBody?: boolean;
  /** Records of a request, for the ledger and for faults; none by default. */
  recordsOf?(call: RouteCall): readonly unknown[];
  /** Refuses malformed requests; null lets one pass. */
  check(call: RouteCall): Refusal | null;
  /** Carries out a request that passed its check. */
  answer(world: World, call: RouteCall): Outcome | Promise<Outcome>;
}

/** List under a member of a parsed body; empty if there is none. */
export function listIn(body: unknown, member: string): readonly unknown[] {
  const list: unknown = typeof body === "object" && body !== null ? Reflect.get(body, member) : null;
  return Array.isArray(list) ? list : [];
}
