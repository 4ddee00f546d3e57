import { Client, type Pool, type PoolClient } from "pg";

/** A transaction under way, as the server can be asked about it. */
export interface OpenTransaction {
  readonly pid: number;
  /** Its `now()`, which distinguishes it from later transactions of the same backend. */
  readonly now: string;
}

const CHECK_MS = 15_000;
/** Longest wait for the server while it does not work on our statement. */
const SILENT_MS = 60_000;
/** The same where only the peer is awaited (COPY), or the server can't be asked. */
const DOUBTFUL_MS = 300_000;
const ASK_TIMEOUT_MS = 5_000;

/** The driver's fields that show progress; its types leave them out. */
interface DriverState {
  readonly readyForQuery: boolean;
  readonly connection: {
    readonly stream: {
      readonly bytesRead: number;
      readonly bytesWritten: number;
      destroy(error: Error): void;
    };
  };
}

/** A connection on which nothing came back, though the server does nothing for it. */
class SilentConnectionError extends Error {
  override readonly name = "SilentConnectionError";
  readonly code = "ETIMEDOUT";
}

/**
 * Cuts a connection that went silent: the network lost it without a reset, so a statement would wait for its reply for
 * hours while heartbeats on another connection keep the lock. Long statements are left alone: the server is asked.
 */
export function watchConnection(pool: Pool, client: PoolClient) {
  // The fields exist in every release of the driver that package.json allows.
  const driver = client as unknown as DriverState;
  const { stream } = driver.connection;
  let transaction: OpenTransaction | null = null;
  let bytes = -1;
  let quietSinceMs = performance.now();
  let isAsking = false;

  const moved = (): boolean => {
    const now = stream.bytesRead + stream.bytesWritten;
    if (driver.readyForQuery || now !== bytes) {
      bytes = now;
      quietSinceMs = performance.now();
      return true;
    }
    return false;
  };

  async function check(): Promise<void> {
    if (moved() || performance.now() - quietSinceMs < SILENT_MS) return;
    const limitMs = transaction === null ? SILENT_MS : await patienceMs(pool, transaction);
    if (moved() || performance.now() - quietSinceMs < limitMs) return;
    if (transaction !== null) await endBackend(pool, transaction);
    stream.destroy(new SilentConnectionError("The connection to the database went silent."));
  }

  const timer = setInterval(() => {
    if (isAsking) return;
    isAsking = true;
    void check().finally(() => {
      isAsking = false;
    });
  }, CHECK_MS);
  timer.unref();
  return {
    /** Records the transaction once BEGIN is answered. */
    begun(open: OpenTransaction): void {
      transaction = open;
    },
    stop: () => clearInterval(timer),
  };
}

/** Queries through a separate connection. */
async function query<Row>(pool: Pool, sql: string, values: readonly unknown[]): Promise<readonly Row[]> {
  const client = new Client({
    ...pool.options,
    // The pool hides it from copies.
    password: pool.options.password,
    connectionTimeoutMillis: ASK_TIMEOUT_MS,
    query_timeout: ASK_TIMEOUT_MS,
  });
  client.on("error", () => {});
  try {
    await client.connect();
    // The caller declares the row type.
    return (await client.query(sql, [...values])).rows as Row[];
  } finally {
    void client.end().catch(() => {});
  }
}

/** Returns the longest silence, by the server's work on the transaction as another session sees it. */
async function patienceMs(pool: Pool, { pid, now }: OpenTransaction): Promise<number> {
  try {
    const [row] = await query<{ state: string; awaits_client: boolean }>(
      pool,
      `SELECT state, wait_event_type IS NOT DISTINCT FROM 'Client' AS awaits_client
       FROM pg_catalog.pg_stat_activity WHERE pid = $1 AND xact_start = $2::timestamptz`,
      [pid, now],
    );
    if (row?.state !== "active") return SILENT_MS;
    return row.awaits_client ? DOUBTFUL_MS : Infinity;
  } catch {
    return DOUBTFUL_MS;
  }
}

/** Ends the backend, whose locks would block the retry; a server that can't be reached keeps it. */
async function endBackend(pool: Pool, { pid, now }: OpenTransaction): Promise<void> {
  try {
    await query(
      pool,
      "SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = $1 AND xact_start = $2::timestamptz",
      [pid, now],
    );
  } catch {
    // The retry fails in the same way and reports it.
  }
}
