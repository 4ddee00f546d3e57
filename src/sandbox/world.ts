import type { Log } from "../log.ts";
import type { Faults } from "./faults/decide.ts";
import type { Ledger } from "./ledger.ts";
import type { People } from "./population/people.ts";
import type { Segments } from "./segments/segments.ts";
import type { StatedDeaths } from "./segments/stated-deaths.ts";
import type { Usage } from "./usage/usage.ts";
import type { WorldClock } from "./world-clock.ts";

/** What the organization may still have enriched, and which 402 says that it may not (section 7.2). */
export interface Capacity {
  /** Records left; null without a limit. Goes down with what is billed. */
  recordsLeft: number | null;
  code: "insufficient_record_capacity" | "insufficient_credits";
}

/** Everything that a running sandbox is made of; passed to every route. */
export interface World {
  readonly seed: number;
  readonly people: People;
  readonly clock: WorldClock;
  readonly segments: Segments;
  readonly deaths: StatedDeaths;
  readonly usage: Usage;
  readonly ledger: Ledger;
  readonly faults: Faults;
  readonly capacity: Capacity;
  /** The only key accepted; null accepts any but those that start with `revoked`. */
  readonly apiKey: string | null;
  readonly latencyMs: number;
  readonly membersPerPage: number;
  /** Whether answers are compressed for clients that take gzip. */
  readonly compresses: boolean;
  readonly log: Log;
}
