import type { Client } from "pg";
import { codeOf, messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { findPackagedBinaries, prepareBinaries } from "./binaries.ts";
import { ensureCluster } from "./cluster.ts";
import { describeConnection } from "./describe-connection.ts";
import { findPlace, makeControlFolder } from "./place.ts";
import { readPostmaster } from "./postmaster.ts";
import { connectOrStart, stopServer } from "./run-server.ts";
import type { Server } from "./server.ts";
import { boundLog } from "./server-log.ts";
import { connect, type Session } from "./session.ts";
import { DATABASE, HOLD_KEY, ROLE, SUPERVISED } from "./settings.ts";
import { describeFailure } from "./startup-failure.ts";
import { takeStartLock } from "./start-lock.ts";

/** A running Postgres of our own, held open by this process. */
export interface EmbeddedServer {
  /** For the database `warehouse`, as the role that owns everything in it. Holds the password: never log it. */
  readonly connectionString: string;
  /** On 127.0.0.1. */
  readonly port: number;
  /** Lines for people: how psql and BI tools connect, where the data lives. They name the password's file only. */
  readonly howToConnect: readonly string[];
  /** Releases this process's hold; stops the server if nobody else holds it. Close your own sessions before. */
  close(): Promise<void>;
}

/** What {@link openEmbedded} needs. */
export interface EmbeddedOptions {
  /** The server lives in `<dataDir>/postgres`. */
  readonly dataDir: string;
  readonly log: Log;
  /** Aborts the opening; close() isn't affected. */
  readonly signal?: AbortSignal;
  /** The `native` folder of the Postgres package; default: the one that npm installed. */
  readonly binaries?: string;
}

const BOUND_LOG_EVERY_MS = 10 * 60_000;

/** Makes the embedded database if need be, starts its server or joins the running one, and holds it open. */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { log, signal } = options;
  const native = options.binaries ?? findPackagedBinaries();
  const control = await makeControlFolder(options.dataDir);

  /** One process at a time decides whether there is a server, and makes it so. */
  const acquire = async (signal?: AbortSignal): Promise<{ server: Server; session: Session }> => {
    const lock = await takeStartLock(control, signal);
    try {
      const place = await findPlace(control, log, signal);
      const binaries = await prepareBinaries(native, place, signal);
      const password = await ensureCluster(place, binaries, signal);
      const server: Server = { place, binaries, password, log };
      const session = await connectOrStart(server, signal);
      try {
        await session.client.query(`SELECT pg_advisory_lock_shared(${HOLD_KEY})`);
        await ensureDatabase(session.client);
      } catch (error) {
        await releaseHold(server, session.client).catch(() => {});
        throw describeFailure("opening the embedded database", messageOf(error), error);
      }
      return { server, session };
    } finally {
      lock.release();
    }
  };

  const { server, session } = await acquire(signal);
  const { port } = session;
  let client: Client | null = session.client;
  let closed: Promise<void> | null = null;
  let restoring: Promise<void> = Promise.resolve();

  /** After a crash of the server, or of any of its processes, takes the hold anew; starts the server if it died. */
  const restore = async (): Promise<void> => {
    log.warn({}, "embedded database lost its sessions; restoring it");
    try {
      const { session } = await acquire();
      client = session.client;
      watch(session.client);
      if (session.port !== port) log.warn({ port: session.port }, "embedded database moved to another port");
    } catch (error) {
      log.error({ reason: messageOf(error) }, "embedded database can't be restored");
    }
  };
  const watch = (held: Client): void => {
    let stoppedOnPurpose = false;
    held.on("error", (error) => {
      stoppedOnPurpose ||= isStopOrder(error);
    });
    held.once("end", () => {
      if (closed) return;
      client = null;
      if (stoppedOnPurpose) log.warn({}, "embedded database was stopped by somebody else");
      else restoring = restore();
    });
  };
  watch(session.client);

  const bounding = setInterval(() => void boundLog(server.place).catch(() => {}), BOUND_LOG_EVERY_MS);
  bounding.unref();

  const release = async (): Promise<void> => {
    clearInterval(bounding);
    await restoring;
    const lock = await takeStartLock(control);
    try {
      await releaseHold(server, client);
    } catch (error) {
      log.warn({ reason: messageOf(error) }, "embedded database could not be stopped");
    } finally {
      lock.release();
    }
  };

  const embedded: EmbeddedServer = {
    connectionString: `postgresql://${ROLE}:${server.password}@127.0.0.1:${port}/${DATABASE}?sslmode=disable`,
    port,
    howToConnect: describeConnection(server, port),
    close: () => (closed ??= release()),
  };
  if (signal?.aborted) {
    await embedded.close();
    signal.throwIfAborted();
  }
  return embedded;
}

/** A server that is told to stop says so; one that died, or lost a process, ends the sessions for other reasons. */
function isStopOrder(error: Error): boolean {
  return codeOf(error) === "57P01" && error.message.includes("administrator command");
}

/** Gives the hold back and, if it was the last one, stops the server. Call it under the start lock. */
async function releaseHold(server: Server, held: Client | null): Promise<void> {
  const client = held ?? (await reconnect(server));
  if (client === null) return;
  try {
    const { rows } = await client.query<{ last: boolean; supervised: string | null }>(
      `SELECT pg_advisory_unlock_all(), pg_try_advisory_lock(${HOLD_KEY}) AS last,
              current_setting('${SUPERVISED}', true) AS supervised`,
    );
    // Who started the server by hand wants it to stay.
    if (rows[0]?.last === true && rows[0].supervised === "on") await stopServer(server);
  } finally {
    await client.end().catch(() => {});
  }
}

/** A session for closing, if the hold was lost but a server runs. */
async function reconnect(server: Server): Promise<Client | null> {
  const state = await readPostmaster(server.place);
  return state.kind === "alive" ? await connect(state.port, server.password).catch(() => null) : null;
}

async function ensureDatabase(client: Client): Promise<void> {
  const { rowCount } = await client.query("SELECT 1 FROM pg_database WHERE datname = $1", [DATABASE]);
  if (rowCount === 0) await client.query(`CREATE DATABASE ${DATABASE}`);
}
