import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createFaults, type FaultPlan } from "./faults/plan.ts";
import { CONTROL_PREFIX, serveControl } from "./http/serve-control.ts";
import { serveRequest } from "./http/serve-request.ts";
import { createLedger } from "./ledger.ts";
import { MAX_PEOPLE } from "./population/identifiers.ts";
import { createPeople } from "./population/people.ts";
import { messageOf, SandboxError } from "./sandbox-error.ts";
import { createSearches } from "./search/searches.ts";
import { createSegments } from "./segments/segments.ts";
import { keepState } from "./state-file.ts";
import { createUsage } from "./usage/usage.ts";
import { createWorldClock } from "./clock.ts";
import { type Capacity, createRate } from "./organizations.ts";
import type { Log, World } from "./world.ts";

export { parseFaults } from "./faults/plan.ts";

/** Default size of the population. */
export const DEFAULT_PEOPLE = 1_000_000;
/** Members of one page (section 8). */
const MEMBERS_PER_PAGE = 5000;

/** Options of a sandbox; all have a default. */
export interface SandboxOptions {
  /** 0 (the default) takes a free port. */
  readonly port?: number;
  /** 127.0.0.1 by default: the sandbox's controls need no key. */
  readonly host?: string;
  /** Seed of the population and of faults; 1 by default. */
  readonly seed?: number;
  /** Size of the population, {@link DEFAULT_PEOPLE} by default. */
  readonly people?: number;
  /** The only valid key; by default any key that doesn't start with `revoked`. */
  readonly apiKey?: string;
  /** Initial faults. */
  readonly faults?: FaultPlan;
  /** Delay of every answer. */
  readonly latencyMs?: number;
  /** Members per page, {@link MEMBERS_PER_PAGE} by default; for tests of many pages. */
  readonly membersPerPage?: number;
  /** Counts in the ledger how often each record's content was billed (true by default). */
  readonly countsContents?: boolean;
  /** Compresses answers for clients that accept gzip (true by default). */
  readonly compresses?: boolean;
  /** File that keeps segments and usage for the next process. */
  readonly stateFile?: string;
  readonly log?: Log;
}

/** A running sandbox. */
export interface Sandbox {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** Closes every connection, answered or not. */
  close(): Promise<void>;
}

function createWorld(options: SandboxOptions): World {
  const seed = options.seed ?? 1;
  const count = options.people ?? DEFAULT_PEOPLE;
  if (!Number.isSafeInteger(seed) || !Number.isInteger(count) || count < 1 || count > MAX_PEOPLE) {
    throw new SandboxError(`The sandbox needs an integer as seed, and 1 to ${MAX_PEOPLE} people.`);
  }
  const people = createPeople(seed, count);
  const clock = createWorldClock();
  const capacity: Capacity = { recordsLeft: null, code: "insufficient_record_capacity" };
  return {
    seed,
    people,
    clock,
    segments: createSegments(seed, people, clock),
    searches: createSearches(people.careers.companies, capacity),
    usage: createUsage(seed, clock),
    ledger: createLedger({ countsContents: options.countsContents ?? true }),
    faults: createFaults(options.faults ?? [], seed),
    capacity,
    rate: createRate(),
    apiKey: options.apiKey ?? null,
    latencyMs: options.latencyMs ?? 0,
    membersPerPage: options.membersPerPage ?? MEMBERS_PER_PAGE,
    compresses: options.compresses ?? true,
    log: options.log ?? { debug() {}, warn() {}, error() {} },
  };
}

/** Starts the service of the interface over a synthetic population; resolves when it answers. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const world = createWorld(options);
  const keeper = options.stateFile === undefined ? null : await keepState(world, options.stateFile);
  const host = options.host ?? "127.0.0.1";
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const url = new URL(request.url ?? "/", "http://sandbox");
      const isControl = url.pathname === CONTROL_PREFIX || url.pathname.startsWith(`${CONTROL_PREFIX}/`);
      await (isControl ? serveControl : serveRequest)(world, request, response, url);
      keeper?.touch();
    } catch (error) {
      // Disconnected clients are not reported; anything else is a bug in the sandbox.
      if (!request.socket.destroyed) world.log.error({ message: messageOf(error) }, "sandbox_failed");
      request.socket.destroy();
    }
  };
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    void serve(request, response);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject).listen(options.port ?? 0, host, resolve);
  await promise;
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : (options.port ?? 0);
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    port,
    async close() {
      const closed = Promise.withResolvers<void>();
      server.close(() => closed.resolve());
      server.closeAllConnections();
      await closed.promise;
      await keeper?.close();
    },
  };
}
