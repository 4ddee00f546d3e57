import { randomBytes } from "node:crypto";
import { statfsSync } from "node:fs";
import { constants, mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FixConfigurationError } from "../../errors.ts";
import type { Binaries } from "./binaries.ts";
import { openPlainFile, readSmallFile, type ServerFolders, writeSmallFile } from "./folders.ts";
import { describeFailure, giveTo, runProgram, type ServerUser } from "./programs.ts";

/** Role that supervises the server; the only superuser. */
export const SUPERUSER = "postgres";
/** Role of the program: owns the database, is no superuser. */
export const OWNER = "person_etl";
/** Role for users and BI tools: reads people and operations. */
export const READER = "reader";
export const DATABASE = "warehouse";

/** Set on servers that this program starts; a server started manually keeps running. */
export const SUPERVISED = "person_etl.supervised";

/** Advisory lock shared by all processes that use the server; the process that gets it exclusively stops the server. */
export const HOLD_KEY = "7296315904821337";

/** Parallel queries fail with less /dev/shm (64 MB in a plain container); System V memory has no such limit. */
const ENOUGH_SHARED_MEMORY_BYTES = 512 * 1024 * 1024;

/** Settings for bulk loads on a small machine, besides Postgres's own. None weakens durability. */
function settings(port: number): Record<string, string> {
  return {
    listen_addresses: "127.0.0.1",
    port: String(port),
    unix_socket_directories: "",
    // Shards, schedulers and BI tools at the same time.
    max_connections: "120",
    shared_buffers: "256MB",
    effective_cache_size: "1GB",
    work_mem: "32MB",
    maintenance_work_mem: "128MB",
    ...(hasLittleSharedMemory() ? { dynamic_shared_memory_type: "sysv" } : {}),
    random_page_cost: "1.1",
    jit: "off",
    // Without a replica, only crash recovery needs the WAL.
    wal_level: "minimal",
    max_wal_senders: "0",
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
  };
}

export function serverConf(port: number): string {
  const lines = Object.entries(settings(port)).map(([name, value]) => `${name} = '${value}'`);
  return [
    "# Written by person-etl at every start; put your own settings into data/postgresql.conf.",
    ...lines,
  ].join("\n");
}

/** Line of the cluster's configuration that includes ours; the user's lines follow it and take precedence. */
const INCLUDE_LINE = "include_if_exists = '../server.conf'";

function hasLittleSharedMemory(): boolean {
  if (process.platform !== "linux") return false;
  try {
    const { bsize, blocks } = statfsSync("/dev/shm");
    return bsize * blocks < ENOUGH_SHARED_MEMORY_BYTES;
  } catch {
    return true;
  }
}

/** Creates the cluster unless it exists, checks its version, and returns its password. Requires the start lock. */
export async function ensureCluster(
  folders: ServerFolders,
  binaries: Binaries,
  signal?: AbortSignal,
): Promise<string> {
  const known = await readSmallFile(join(folders.control, "password"));
  const version = await readSmallFile(join(folders.data, "PG_VERSION"));
  if (version === null) {
    if (await stat(folders.data).catch(() => null)) {
      throw new FixConfigurationError(
        "embedded_damaged",
        `${folders.data} is not a Postgres database (its file PG_VERSION is missing). Restore it, or remove the folder to start with an empty database.`,
      );
    }
    const password = known ?? randomBytes(24).toString("base64url");
    if (known === null) await writeSmallFile(join(folders.control, "password"), password, 0o600);
    await makeCluster(folders, binaries, password, signal);
    return password;
  }
  if (version !== String(binaries.majorVersion)) {
    throw new FixConfigurationError(
      "embedded_version",
      `The embedded database in ${folders.data} was created by Postgres ${version}, but this release of person-etl has Postgres ${binaries.majorVersion}, ` +
        "which can't read it. Take a pg_dump with the earlier release, or choose another data_dir to start with an empty database.",
    );
  }
  if (known === null) {
    throw new FixConfigurationError(
      "embedded_password",
      `The file ${join(folders.control, "password")} of the embedded database is missing. Restore it from a backup, ` +
        `or remove the folder ${folders.control} to start with an empty database.`,
    );
  }
  return known;
}

/** Runs initdb in a temporary folder, so that a killed initdb can't corrupt the data. */
async function makeCluster(
  folders: ServerFolders,
  binaries: Binaries,
  password: string,
  signal?: AbortSignal,
): Promise<void> {
  const tried = `creating the embedded database in ${folders.data}`;
  const passwordFile = join(folders.home, "password.initdb");
  const fresh = join(folders.home, `data.new-${randomBytes(4).toString("hex")}`);
  const maker = folders.user?.maker ?? folders.user;
  try {
    for (const left of await readdir(folders.home)) {
      // A killed initdb may still write for a moment; the next start then removes its folder.
      if (left.startsWith("data.new-"))
        await rm(join(folders.home, left), { recursive: true, force: true }).catch(() => {});
    }
    await rm(passwordFile, { force: true });
    await writeFile(passwordFile, password, { mode: 0o600, flag: "wx" });
    await giveTo(maker, passwordFile);
    await mkdir(fresh, { mode: 0o700 });
    await giveTo(maker, fresh);
    const { code, output } = await runProgram(
      binaries.initdb,
      [
        `--pgdata=${fresh}`,
        `--username=${SUPERUSER}`,
        `--pwfile=${passwordFile}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        // Same sort order of text on every system.
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--locale=C",
        "--no-instructions",
      ],
      { user: maker, signal },
    );
    if (code !== 0) throw describeFailure(tried, explainMissingAccount(output));
    if (folders.user?.maker) await giveAllTo(folders.user, fresh);
    await using conf = await openPlainFile(
      join(fresh, "postgresql.conf"),
      constants.O_APPEND | constants.O_WRONLY,
    );
    await conf.writeFile(`\n${INCLUDE_LINE}\n# Your own settings go below this line.\n`);
    await rename(fresh, folders.data);
  } catch (error) {
    await rm(fresh, { recursive: true, force: true }).catch(() => {});
    signal?.throwIfAborted();
    if (error instanceof Error && !("errno" in error)) throw error;
    throw describeFailure(tried, error);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** Explains initdb's failure in a container whose user has no account. */
function explainMissingAccount(output: string): string {
  return output.includes("could not look up effective user ID")
    ? `${output}\nThis user is missing from /etc/passwd: run person-etl as a user with an account, or set warehouse.url to your own Postgres.`
    : output;
}

/** Changes the owner of a folder and of everything in it, without following links. */
async function giveAllTo({ uid, gid }: ServerUser, folder: string): Promise<void> {
  const command = 'PATH="$PATH:/usr/sbin" exec chown -Rh "$1" "$2"';
  const { code, output } = await runProgram("/bin/sh", ["-c", command, "sh", `${uid}:${gid}`, folder], {
    user: null,
  });
  if (code !== 0) throw new Error(output);
}
