import { statfsSync } from "node:fs";

/** Role that supervises the server; the only superuser. */
export const SUPERUSER = "postgres";
/** Role of the program: owns the database, is no superuser. */
export const OWNER = "person_etl";
/** Role for users and BI tools: reads people and operations. */
export const READER = "reader";
/** Database of the warehouse. */
export const DATABASE = "warehouse";

/** Set on servers that this program starts; a server started manually keeps running. */
export const SUPERVISED = "person_etl.supervised";

/** Advisory lock shared by all processes that use the server; the process that gets it exclusively stops the server. */
export const HOLD_KEY = "7296315904821337";

/** Parallel queries fail with less /dev/shm (64 MB in a plain container); System V memory has no such limit. */
const ENOUGH_SHARED_MEMORY_BYTES = 512 * 1024 * 1024;

/** Settings for bulk loads on a small machine. None weakens durability. */
function settings(port: number): Record<string, string> {
  return {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: "",
    // Shards, schedulers and BI tools at the same time.
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
    // Without a replica, only crash recovery needs the WAL.
    wal_level: "minimal",
    max_wal_senders: "0",
    wal_buffers: "16MB",
    min_wal_size: "512MB",
    max_wal_size: "2GB",
    checkpoint_timeout: "15min",
    timezone: "UTC",
    log_timezone: "UTC",
    // Error messages of statements can quote personal data: only the server's state is logged.
    log_min_messages: "log",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
    log_autovacuum_min_duration: "-1",
    log_line_prefix: "%m [%p] ",
    logging_collector: "off",
  };
}

/** Text of `server.conf`. */
export function serverConf(port: number): string {
  const lines = Object.entries(settings(port)).map(([name, value]) => `${name} = '${value}'`);
  return [
    "# Written by person-etl at every start; put your own settings into data/postgresql.conf.",
    ...lines,
  ].join("\n");
}

/** Line of the cluster's configuration that includes ours; the user's lines follow it and take precedence. */
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
