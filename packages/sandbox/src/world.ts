import type { WorldClock } from "./clock.ts";
import type { Faults } from "./faults/plan.ts";
import type { Ledger } from "./ledger.ts";
import type { Capacity, Rate } from "./organizations.ts";
import type { People } from "./population/people.ts";
import type { Searches } from "./search/searches.ts";
import type { Segments } from "./segments/segments.ts";
import type { Usage } from "./usage/usage.ts";

/** Receives events of the sandbox. */
export interface Log {
  debug(fields: object, event: string): void;
  warn(fields: object, event: string): void;
  error(fields: object, event: string): void;
}

/** State of a running sandbox; passed to every route. */
export interface World {
  readonly seed: number;
  readonly people: People;
  readonly clock: WorldClock;
  readonly segments: Segments;
  readonly searches: Searches;
  readonly usage: Usage;
  readonly ledger: Ledger;
  readonly faults: Faults;
  readonly capacity: Capacity;
  readonly rate: Rate;
  /** The only key accepted; null accepts any but those that start with `revoked`. */
  readonly apiKey: string | null;
  readonly latencyMs: number;
  readonly membersPerPage: number;
  /** True if answers are compressed for clients that accept gzip. */
  readonly compresses: boolean;
  readonly log: Log;
}
