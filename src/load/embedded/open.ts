import { randomBytes } from "node:crypto";
import { constants } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "pg";
import { codeOf, messageOf } from "../../errors.ts";
import { findPackagedBinaries, prepareBinaries } from "./binaries.ts";
import { DATABASE, ensureCluster, HOLD_KEY, OWNER, READER, SUPERUSER, SUPERVISED } from "./cluster.ts";
import { findFolders, makeControlFolder, openPlainFile, readSmallFile, writeSmallFile } from "./folders.ts";
import { describeFailure } from "./programs.ts";
import { connect, connectOrStart, portOfServer, type Server, type Session, stopServer } from "./server.ts";
import type { Log } from "../../log.ts";
import { lockFile } from "../../process-state.ts";

const HOLD_TIMEOUT = "60s";
/** SQLSTATE of a lock wait that timed out. */
const LOCK_NOT_AVAILABLE = "55P03";

/** Running embedded database, held open by this process. */
interface EmbeddedServer {
  /** Address of the role that owns the database. Contains the password: never log it. */
  readonly connectionString: string;
  /** Address of the superuser, for tests and benchmarks. */
  readonly superuserUrl: string;
  /** Port on 127.0.0.1. */
  readonly port: number;
  /** Lines for the user: addresses for psql and BI tools, and the data folder. */
  readonly howToConnect: readonly string[];
  /** Lets people and BI tools read schemas created since the start; done at the end anyway. */
  grantReading(): Promise<void>;
  /** Releases this process's hold; stops the server if no other process holds it. Close other sessions first. */
  close(): Promise<void>;
}

interface EmbeddedOptions {
  /** Folder of the data; the server uses `<dataDir>/postgres`. */
  readonly dataDir: string;
  readonly log: Log;
  /** Schemas that the reader may read; none by default. */
  readonly readableSchemas?: readonly string[];
  /** Aborts the opening, not the closing. */
  readonly signal?: AbortSignal;
  /** `native` folder of the Postgres package; by default the one that npm installed. */
  readonly binaries?: string;
}

/** Creates the embedded database if necessary, starts or joins its server, and holds it open. */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { log, signal, readableSchemas = [] } = options;
  const native = options.binaries ?? findPackagedBinaries();
  const control = await makeControlFolder(options.dataDir);

  /** Starts or joins the server; one process at a time. */
  const acquire = async (signal?: AbortSignal): Promise<{ server: Server; session: Session }> => {
    const lock = await takeStartLock(control, signal);
    try {
      const folders = await findFolders(control, log, signal);
      const binaries = await prepareBinaries(native, folders, signal);
      const password = await ensureCluster(folders, binaries, signal);
      const server: Server = { folders, binaries, password, log };
      const session = await connectOrStart(server, signal);
      try {
        await takeHold(session.client);
        await ensureDatabase(server, session);
        await grantReading(session.port, password, readableSchemas);
      } catch (error) {
        await releaseHold(server, session.client).catch(() => {});
        throw describeFailure("opening the embedded database", error);
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

  /** Restores the hold after a crash of the server; starts the server if it died. */
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
    let isStopped = false;
    held.on("error", (error) => {
      isStopped ||= isStopOrder(error);
    });
    held.once("end", () => {
      if (closed) return;
      client = null;
      if (isStopped) log.warn({}, "embedded database was stopped by another process");
      else restoring = restore();
    });
  };
  watch(session.client);

  const release = async (): Promise<void> => {
    await restoring;
    const lock = await takeStartLock(control);
    try {
      // Schemas may have been created since.
      if (client) await grantReading(port, server.password, readableSchemas);
      await releaseHold(server, client);
    } catch (error) {
      log.warn({ reason: messageOf(error) }, "embedded database could not be stopped");
    } finally {
      lock.release();
    }
  };

  const urlOf = (role: string) =>
    `postgresql://${role}:${server.password}@127.0.0.1:${port}/${DATABASE}?sslmode=disable`;
  const embedded: EmbeddedServer = {
    connectionString: urlOf(OWNER),
    superuserUrl: urlOf(SUPERUSER),
    port,
    howToConnect: describeConnection(server, port),
    grantReading: () => grantReading(port, server.password, readableSchemas),
    close: () => (closed ??= release()),
  };
  if (signal?.aborted) {
    await embedded.close();
    signal.throwIfAborted();
  }
  return embedded;
}

/** Takes the hold. Only the superuser can enter its database, and closing processes hold it for a moment. */
async function takeHold(client: Client): Promise<void> {
  await client.query(`SET lock_timeout = '${HOLD_TIMEOUT}'`);
  try {
    await client.query(`SELECT pg_advisory_lock_shared(${HOLD_KEY})`);
  } catch (error) {
    if (codeOf(error) !== LOCK_NOT_AVAILABLE) throw error;
    const { rows } = await client.query<{ pid: number; role: string }>(
      `SELECT pid, usename AS role FROM pg_locks JOIN pg_stat_activity USING (pid)
       WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock'`,
    );
    const holders = rows.map(({ pid, role }) => `session ${pid} of role ${role}`).join(", ");
    throw new Error(
      `${holders} has kept its advisory lock for ${HOLD_TIMEOUT}. End it: SELECT pg_terminate_backend(PID)`,
      { cause: error },
    );
  }
  await client.query("RESET lock_timeout");
}

function describeConnection({ folders }: Server, port: number): readonly string[] {
  const file = join(folders.control, "reader-password");
  const path = /^[\w./@:+=-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`;
  return [
    `psql:          PGREQUIREAUTH=scram-sha-256 PGPASSWORD=$(cat ${path}) psql -h 127.0.0.1 -p ${port} -U ${READER} ${DATABASE}`,
    `BI tools:      PostgreSQL, host 127.0.0.1, port ${port}, database ${DATABASE}, user ${READER}, no SSL, password: see ${file}`,
    `data:          ${folders.data} (kept between runs)`,
  ];
}

/** True if the server was stopped on purpose; a crash ends its sessions with other errors. */
function isStopOrder(error: Error): boolean {
  return codeOf(error) === "57P01" && error.message.includes("administrator command");
}

/** Releases the hold and, if it was the last one, stops the server. Requires the start lock. */
async function releaseHold(server: Server, held: Client | null): Promise<void> {
  const client = held ?? (await reconnect(server));
  if (client === null) return;
  try {
    const { rows } = await client.query<{ last: boolean; supervised: string | null }>(
      `SELECT pg_advisory_unlock_all(), pg_try_advisory_lock(${HOLD_KEY}) AS last,
              current_setting('${SUPERVISED}', true) AS supervised`,
    );
    // A server started manually keeps running.
    if (rows[0]?.last === true && rows[0].supervised === "on") await stopServer(server);
  } finally {
    await client.end().catch(() => {});
  }
}

/** Reconnects for closing, if the hold was lost but a server runs. */
async function reconnect(server: Server): Promise<Client | null> {
  const port = await portOfServer(server.folders);
  return port === null ? null : await connect(port, server.password).catch(() => null);
}

/** Sessions of the reader: most of the server's stay free for runs. */
const READER_SESSIONS = 60;

/** Creates a large object: any role may, without limit. */
const MAKERS = ["lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)"];

/**
 * Creates the database, its owner (no superuser), and the reader for people and BI tools; `admin` is a session of the
 * superuser in the database of the hold, which no other role may enter. Takes back what the reader changed on itself.
 */
async function ensureDatabase(server: Server, { client: admin, port }: Session): Promise<void> {
  const readerFile = join(server.folders.control, "reader-password");
  const readerPassword = (await readSmallFile(readerFile)) ?? randomBytes(24).toString("base64url");
  await writeSmallFile(readerFile, readerPassword, 0o600);
  const roles = await admin.query("SELECT 1 FROM pg_roles WHERE rolname = $1", [READER]);
  if (roles.rowCount === 0) {
    await admin.query(
      `BEGIN; CREATE ROLE ${OWNER} LOGIN PASSWORD ${admin.escapeLiteral(server.password)}; CREATE ROLE ${READER} LOGIN; COMMIT`,
    );
  }
  const exists = await admin.query("SELECT 1 FROM pg_database WHERE datname = $1", [DATABASE]);
  if (exists.rowCount === 0) await admin.query(`CREATE DATABASE ${DATABASE} OWNER ${OWNER}`);
  await admin.query(
    `BEGIN;
     ALTER ROLE ${READER} CONNECTION LIMIT ${READER_SESSIONS} PASSWORD ${admin.escapeLiteral(readerPassword)};
     ALTER ROLE ${READER} RESET ALL;
     ALTER ROLE ${READER} IN DATABASE ${DATABASE} RESET ALL;
     ALTER ROLE ${READER} SET default_transaction_read_only = on;
     ALTER ROLE ${READER} SET temp_file_limit = '4GB';
     REVOKE CONNECT, TEMPORARY ON DATABASE postgres, template1 FROM PUBLIC;
     REVOKE TEMPORARY ON DATABASE ${DATABASE} FROM PUBLIC;
     COMMIT`,
  );
  const inside = await connect(port, server.password, { database: DATABASE });
  try {
    await inside.query(`REVOKE EXECUTE ON FUNCTION ${MAKERS.join(", ")} FROM PUBLIC`);
  } finally {
    await inside.end();
  }
}

/** Grants the reader some schemas, if they exist. */
async function grantReading(port: number, password: string, schemas: readonly string[]): Promise<void> {
  const owner = await connect(port, password, { user: OWNER, database: DATABASE });
  try {
    const { rows } = await owner.query<{ name: string }>(
      "SELECT quote_ident(nspname) AS name FROM pg_namespace WHERE nspname = ANY ($1) AND nspowner = $2::regrole",
      [schemas, OWNER],
    );
    for (const { name } of rows) {
      await owner.query(
        `GRANT USAGE ON SCHEMA ${name} TO ${READER}; GRANT SELECT ON ALL TABLES IN SCHEMA ${name} TO ${READER};
         ALTER DEFAULT PRIVILEGES IN SCHEMA ${name} GRANT SELECT ON TABLES TO ${READER}`,
      );
    }
  } finally {
    await owner.end();
  }
}

const POLL_MS = 50;

/** Waits until no other process starts or stops the server of this folder. */
export async function takeStartLock(folder: string, signal?: AbortSignal): Promise<{ release(): void }> {
  const path = join(folder, "start.lock");
  const tried = `taking the lock ${path} of the embedded database`;
  try {
    await (await openPlainFile(path, constants.O_CREAT | constants.O_RDWR, 0o600)).close();
  } catch (error) {
    throw describeFailure(tried, error);
  }
  for (;;) {
    signal?.throwIfAborted();
    const lock = await lockFile(path).catch((error: unknown) => {
      throw describeFailure(tried, error);
    });
    if (lock) return lock;
    // On abort, the next iteration throws the signal's reason.
    await delay(POLL_MS, undefined, signal ? { signal } : {}).catch(() => {});
  }
}
