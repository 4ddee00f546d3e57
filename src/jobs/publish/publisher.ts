import type { Clock } from "../../clock.ts";
import { codeOf, isOwnError, JobLockedError, LimitReachedError, unexpectedMessage } from "../../errors.ts";
import type { Publication } from "./publication.ts";
import { publishDestination, type PublishOptions } from "./publish-destination.ts";
import {
  leaveTable,
  type PublicationDb,
  removeDestination,
  readFollowed,
} from "../../load/publication/registration.ts";

/** Result of publishing to one destination, printed by `publish --json`. */
export interface PublishResult {
  readonly destination: string;
  readonly status: "published" | "failed" | "refused" | "locked" | "interrupted";
  readonly batches: number;
  readonly rows: number;
  /** Tables that differed from Postgres and were republished; null if not compared. */
  readonly tables_differing: readonly string[] | null;
  readonly seconds: number;
  readonly error?: { readonly code: string | null; readonly message: string };
}

/** Publishes to the configured destinations, one publication at a time. */
export interface Publisher {
  /** Names of the destinations in configuration order. */
  readonly names: readonly string[];
  /** Publishes to the named destinations, or to all. A failure does not stop the others. */
  publish(names?: readonly string[], options?: PublishOptions): Promise<readonly PublishResult[]>;
  /** Publishes to each destination at its interval until `close`; logs failures. */
  startIntervals(clock: Clock): void;
  close(): Promise<void>;
}

export interface ScheduledPublication extends Publication {
  /** Interval while jobs run; null for none. */
  readonly everyMs: number | null;
}

/** Creates a publisher; connects on the first publication. */
export function createPublisher(publications: readonly ScheduledPublication[]): Publisher {
  const names = publications.map(({ destination }) => destination.name);
  let last: Promise<unknown> = Promise.resolve();
  const intervals: Promise<void>[] = [];
  const closed = new AbortController();
  const publisher: Publisher = {
    names,
    publish(wanted = names, options = {}) {
      const chosen = publications.filter(({ destination }) => wanted.includes(destination.name));
      const results = last.then(() => publishAll(chosen, options));
      last = results;
      return results;
    },
    startIntervals(clock) {
      for (const { destination, everyMs } of publications) {
        if (everyMs !== null)
          intervals.push(repeat(publisher, destination.name, everyMs, clock, closed.signal));
      }
    },
    async close() {
      closed.abort();
      await Promise.all(intervals);
      await last;
      await Promise.all(publications.map(({ destination }) => destination.close()));
    },
  };
  return publisher;
}

async function repeat(
  publisher: Publisher,
  name: string,
  everyMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      await clock.sleep(everyMs, signal);
    } catch {
      return;
    }
    await publisher.publish([name]);
  }
}

async function publishAll(
  publications: readonly Publication[],
  options: PublishOptions,
): Promise<readonly PublishResult[]> {
  const results: PublishResult[] = [];
  for (const publication of publications) results.push(await publishOne(publication, options));
  return results;
}

async function publishOne(publication: Publication, options: PublishOptions): Promise<PublishResult> {
  const startedAtMs = performance.now();
  const { destination, log, signal } = publication;
  const { name } = destination;
  let result: Omit<PublishResult, "destination" | "seconds">;
  try {
    const { tablesDiffering: differing, ...published } = await publishDestination(publication, options);
    result = { status: "published", ...published, tables_differing: differing };
  } catch (error) {
    const status = signal?.aborted ? "interrupted" : statusOf(error);
    const code = codeOf(error);
    const message = isOwnError(error) ? error.message : unexpectedMessage(error, `publishing to ${name}`);
    log.warn({ destination: name, status, code, error }, "publication_failed");
    result = { status, batches: 0, rows: 0, tables_differing: null, error: { code, message } };
  }
  return { destination: name, ...result, seconds: Math.round(performance.now() - startedAtMs) / 1000 };
}

function statusOf(error: unknown): PublishResult["status"] {
  if (error instanceof LimitReachedError) return "refused";
  return error instanceof JobLockedError ? "locked" : "failed";
}

/** Exit code of `publish`: a failure outranks a lock, a lock outranks a refusal. */
export function publishExitCode(results: readonly PublishResult[]): number {
  const has = (status: PublishResult["status"]) => results.some((result) => result.status === status);
  if (has("failed")) return 1;
  if (has("locked")) return 4;
  return has("refused") ? 3 : 0;
}

/** Stops recording changes for a destination. Keeps the tables in it. Returns false if it was unknown. */
export async function dropDestination(db: PublicationDb, name: string): Promise<boolean> {
  const followed = await db.transaction((session) => readFollowed(session, name));
  for (const table of followed.keys()) {
    await db.transaction((session) => leaveTable(session, name, table));
  }
  return db.transaction((session) => removeDestination(session, name));
}
