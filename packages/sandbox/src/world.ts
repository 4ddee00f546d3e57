import { createWorldClock } from "./population/calendar.ts";
import { createFaults, type FaultPlan } from "./faults/plan.ts";
import { createLedger } from "./ledger.ts";
import { validateEmailsEndpoint } from "../../../src/schemas/validate-emails.ts";
import { createCapacity, createRate } from "./organizations.ts";
import { createPeople } from "./population/people.ts";
import { createSearches } from "./search/searches.ts";
import { createSegments } from "./segments/segments.ts";
import { createUsage } from "./usage/usage.ts";

export const DEFAULT_PEOPLE = 100_000;
/** Members of one page (section 8). */
const MEMBERS_PER_PAGE = 5000;

/** Options of a world; all have a default. */
export interface WorldOptions {
  /** Seed of the population and of faults; 1 by default. */
  readonly seed?: number;
  /** Size of the population, {@link DEFAULT_PEOPLE} by default. */
  readonly people?: number;
  /** The only valid key; by default any key that doesn't start with `revoked`. */
  readonly apiKey?: string;
  readonly faults?: FaultPlan;
  readonly latencyMs?: number;
  /** Members per page, {@link MEMBERS_PER_PAGE} by default; for tests of many pages. */
  readonly membersPerPage?: number;
  /** Counts in the ledger how often each record's content was billed (true by default). */
  readonly countsContents?: boolean;
  /** Compresses answers for clients that accept gzip (true by default). */
  readonly compresses?: boolean;
}

/** State of a running sandbox; passed to every route. */
export type World = ReturnType<typeof createWorld>;

export function createWorld(options: WorldOptions) {
  const { seed = 1, people: count = DEFAULT_PEOPLE } = options;
  const people = createPeople(seed, count);
  const makeState = () => {
    const clock = createWorldClock();
    const capacity = createCapacity();
    return {
      clock,
      capacity,
      /** Paths whose records are all billed, others by match: the interface leaves it open. */
      billing: { perRecord: new Set<string>([validateEmailsEndpoint.path]) },
      rate: createRate(),
      segments: createSegments(seed, people, clock),
      searches: createSearches(people.careers.companies, capacity),
      usage: createUsage(seed, clock),
      ledger: createLedger({ countsContents: options.countsContents ?? true }),
      faults: createFaults(options.faults ?? [], seed),
    };
  };
  const world = {
    seed,
    people,
    ...makeState(),
    apiKey: options.apiKey ?? null,
    latencyMs: options.latencyMs ?? 0,
    membersPerPage: options.membersPerPage ?? MEMBERS_PER_PAGE,
    compresses: options.compresses ?? true,
    /** Starts over, as after a start without a state file. */
    reset: (): void => void Object.assign(world, makeState()),
  };
  return world;
}
