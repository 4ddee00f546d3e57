import type { Outcome, Refusal } from "../http/outcome.ts";
import type { World } from "../world.ts";
import type { StampStyle } from "../world-clock.ts";

/** A request that passed the key and has a path of the service. */
export interface RouteCall {
  /** Organization of the key; what belongs to another one is not found. */
  readonly organization: string;
  readonly query: URLSearchParams;
  /** The parsed body; null for GET. */
  readonly body: unknown;
}

/** A path of the service. */
export interface Route {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** How `request_completed_at` is written. */
  readonly stamp: StampStyle;
  /** The envelope's members in this endpoint's order. */
  readonly resultsLast: boolean;
  /** Refused with 402 when the organization's capacity can't cover the records (section 4.7 names it for enrich only). */
  readonly needsCapacity: boolean;
  /** What the request is about, for the ledger and for faults; nothing where it can't be told. */
  recordsOf(call: RouteCall): readonly unknown[];
  /** Refuses what is malformed; null lets it pass. */
  check(call: RouteCall): Refusal | null;
  /** Carries out a request that passed its check. */
  answer(world: World, call: RouteCall): Outcome;
}

/** The list under a member of a parsed body; empty where there is none. */
export function listIn(body: unknown, member: string): readonly unknown[] {
  if (typeof body !== "object" || body === null) return [];
  const list: unknown = Reflect.get(body, member);
  return Array.isArray(list) ? list : [];
}
