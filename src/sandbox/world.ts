import type { Log } from "../log.ts";
import type { Capacity } from "./capacity.ts";
import type { Faults } from "./faults/decide.ts";
import type { Ledger } from "./ledger.ts";
import type { People } from "./population/people.ts";
import type { Rate } from "./rate.ts";
import type { Searches } from "./search/searches.ts";
import type { Segments } from "./segments/segments.ts";
import type { Usage } from "./usage/usage.ts";
import type { WorldClock } from "./world-clock.ts";

/** Death signals set by the controls. */
interface StatedDeaths {
  /** JSON texts of signals by PID number and id. */
  readonly byPid: Map<number, Map<string, string>>;
  /** Ids of signals of the population that are removed or replaced. */
  readonly hidden: Set<string>;
}

/** State of a running sandbox; passed to every route. */
export interface World {
  readonly seed: number;
  readonly people: People;
  readonly clock: WorldClock;
  readonly segments: Segments;
  readonly searches: Searches;
  readonly deaths: StatedDeaths;
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
