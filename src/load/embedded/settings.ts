import { statfsSync } from "node:fs";

/** The one role of the embedded database; it owns everything in it. */
export const ROLE = "person_etl";

/** The database that warehouses live in. */
export const DATABASE = "warehouse";

/** A setting that is on in servers that we started, so that one started by hand is left alone. */
export const SUPERVISED = "person_etl.supervised";

/**
 * The advisory lock that every process shares while it uses the server, on a session of its own; who gets it
 * exclusively is the last one, and stops the server.
 */
export const HOLD_KEY = "7296315904821337";

/** Below this /dev/shm (64 MB in a plain container) parallel queries fail; System V memory has no such limit. */
const ENOUGH_SHARED_MEMORY_BYTES = 512 * 1024 * 1024;

/** How a server on a small machine takes bulk loads well, kept in `server.conf`. Nothing here weakens durability. */
function settings(port: number): Record<string, string> {
  return {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: "",
    // Shards, schedulers and BI tools beside each other.
    max_connections: "120",
    password_encryption: "scram-sha-256",
    shared_buffers: "256MB",
    effective_cache_size: "1GB",
    work_mem: "32MB",
    maintenance_work_mem: "128MB",
    ...(hasLittleSharedMemory() ? { dynamic_shared_memory_type: "sysv" } : {}),
    random_page_cost: "1.1",
    jit: "off",
    fsync: "on",
    synchronous_commit: "on",
    full_page_writes: "on",
    // There is no replica: log only what crash recovery needs.
    wal_level: "minimal",
    max_wal_senders: "0",
    wal_compression: "on",
    wal_buffers: "16MB",
    min_wal_size: "512MB",
    max_wal_size: "2GB",
    checkpoint_timeout: "15min",
    timezone: "UTC",
    log_timezone: "UTC",
    // Messages of failed statements quote people's data: only the server's own state is logged.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
    log_autovacuum_min_duration: "-1",
    log_line_prefix: "%m [%p] ",
    logging_collector: "off",
  };
}

/** The text of `server.conf`. */
export function serverConf(port: number): string {
  const lines = Object.entries(settings(port)).map(([name, value]) => `${name} = '${value}'`);
  return [
    "# Written by person-etl at every start; put your own settings into data/postgresql.conf.",
    ...lines,
  ].join("\n");
}

/** What makes the cluster's own configuration read ours first, so that the user's own lines, put after it, win. */
export const INCLUDE_LINE = "include_if_exists = '../server.conf'";

function hasLittleSharedMemory(): boolean {
  if (process.platform !== "linux") return false;
  try {
    const { bsize, blocks } = statfsSync("/dev/shm");
    return bsize * blocks < ENOUGH_SHARED_MEMORY_BYTES;
  } catch {
    return true;
  }
}
