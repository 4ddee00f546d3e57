import { once } from "node:events";
import { constants, lstat, readlink, rename } from "node:fs/promises";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";
import type { Binaries } from "./binaries.ts";
import { serverConf, SUPERUSER, SUPERVISED } from "./cluster.ts";
import { openPlainFile, readSmallFile, type ServerFolders, writeSmallFile } from "./folders.ts";
import { describeFailure, readStartupFailure, runProgram } from "./programs.ts";
import type { Log } from "../../log.ts";
import { describeThisProcess, stateOfProcess } from "../../process-state.ts";

export interface Server {
  readonly folders: ServerFolders;
  readonly binaries: Binaries;
  readonly password: string;
  readonly log: Log;
}

const POLL_MS = 200;
/** Time limit for failed starts: children of a killed server may block the data for a while. */
const START_TIMEOUT_MS = 60_000;
/** Minimum number of starts: after a kill of Node.js and the server, the first start may fail. */
const UNKNOWN_FAILURES_ALLOWED = 2;
/** Ports to try, in this order; below those of outgoing connections, which can take a stopped server's port. */
const USUAL_PORTS = Array.from({ length: 10 }, (_, i) => 15_432 + i);

/** Connects to the running server, or starts it; a failure leaves none running. Requires the start lock. */
export async function connectOrStart(server: Server, signal?: AbortSignal): Promise<Session> {
  const begun = performance.now();
  let startsFailedSince: number | null = null;
  let unknownFailures = 0;
  let isStarted = false;
  try {
    for (;;) {
      signal?.throwIfAborted();
      const port = await portOfServer(server.folders);
      if (port !== null) {
        const session = await tryConnect(server, port, performance.now() - begun);
        if (session) return session;
      } else {
        await disownPid(server.folders);
        isStarted = true;
        const failure = await startServer(server, signal);
        if (failure === null) continue;
        isStarted = false;
        startsFailedSince ??= performance.now();
        const kind = readStartupFailure(failure);
        if (kind === "unknown") unknownFailures += 1;
        const isHopeless = kind === "disk_full" || unknownFailures > UNKNOWN_FAILURES_ALLOWED;
        if (isHopeless || performance.now() - startsFailedSince > START_TIMEOUT_MS) {
          throw describeFailure(`starting the embedded database (log: ${logPath(server.folders)})`, failure);
        }
        server.log.debug({ reason: kind }, "embedded database did not start; retrying");
      }
      // On abort, the next iteration throws the signal's reason.
      await delay(POLL_MS, undefined, signal ? { signal } : {}).catch(() => {});
    }
  } catch (error) {
    if (isStarted) await stopHalfStarted(server);
    throw error;
  }
}

/** Starts the server; returns null on success, else its log. */
async function startServer(server: Server, signal?: AbortSignal): Promise<string | null> {
  const { folders, binaries } = server;
  try {
    const logged = await prepareLog(folders);
    const port = await choosePort(folders);
    await writeSmallFile(join(folders.home, "server.conf"), serverConf(port), 0o644);
    await writeSmallFile(join(folders.control, "port"), String(port), 0o644);
    // pg_ctl starts its own session: Ctrl-C in the terminal doesn't reach the server.
    const { code, output } = await runProgram(
      binaries.pgCtl,
      [
        "start",
        `--pgdata=${folders.data}`,
        `--log=${logPath(folders)}`,
        "--wait",
        `--timeout=${RECOVERY_TIMEOUT_MS / 1000}`,
        `--options=-c ${SUPERVISED}=on`,
      ],
      { user: folders.user, signal },
    );
    return code === 0 ? null : (await readLogFrom(folders, logged)) || output;
  } catch (error) {
    signal?.throwIfAborted();
    throw describeFailure(`starting the embedded database in ${folders.data}`, error);
  }
}

/** Stops a server whose start failed or was aborted; retries until it can be stopped. */
async function stopHalfStarted(server: Server): Promise<void> {
  for (let waitedMs = 0; waitedMs <= 2_000; waitedMs += POLL_MS) {
    if ((await portOfServer(server.folders)) !== null) return stopServer(server);
    await delay(POLL_MS);
  }
}

/** Returns the last port if it is free, else another one. */
async function choosePort(folders: ServerFolders): Promise<number> {
  const last = Number(await readSmallFile(join(folders.control, "port")));
  const isPort = Number.isInteger(last) && last > 0 && last < 65_536;
  for (const port of [...(isPort ? [last] : []), ...USUAL_PORTS, 0]) {
    const free = await listenOn(port);
    if (free !== null) return free;
  }
  throw new Error("no port on 127.0.0.1 is free");
}

/** Tests a port; returns it, or null if it is taken. */
async function listenOn(port: number): Promise<number | null> {
  const listener = createServer();
  try {
    await once(listener.listen(port, "127.0.0.1"), "listening");
    const address = listener.address();
    return typeof address === "object" && address !== null ? address.port : null;
  } catch {
    return null;
  } finally {
    listener.close();
  }
}

/** Stops the server quickly and cleanly: sessions end, committed data is on disk. */
export async function stopServer({ folders, binaries }: Server): Promise<void> {
  const { code, output } = await runProgram(
    binaries.pgCtl,
    ["stop", `--pgdata=${folders.data}`, "--mode=fast", "--wait", "--timeout=120"],
    { user: folders.user },
  );
  if (code !== 0 && (await portOfServer(folders)) !== null) {
    throw describeFailure("stopping the embedded database", output);
  }
}

/** PID that no process has (maximum: 4,194,304 on Linux, 99,999 on macOS). */
const NO_PROCESS = 99_999_999;

/**
 * Returns the port of a server of these folders that runs, starts or stops, by `postmaster.pid` and the running processes; null for none,
 * whatever process has the PID in the file.
 */
export async function portOfServer(folders: ServerFolders): Promise<number | null> {
  // Lines: pid, data folder, start time, port, socket folder, address, shared memory, status.
  const lines = (await readSmallFile(join(folders.data, "postmaster.pid")))?.split("\n") ?? [];
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 1) return null;
  const here = await describeThisProcess();
  const state = await stateOfProcess({ ...here, pid, processStart: null }, here);
  return state === "running" && (await servesData(pid, folders.data)) ? Number(lines[3]) : null;
}

/**
 * Replaces the PID of an absent server, so that Postgres doesn't mistake another process for it. The shared-memory
 * line stays: it blocks a new server while children of the killed one still write.
 */
async function disownPid(folders: ServerFolders): Promise<void> {
  const path = join(folders.data, "postmaster.pid");
  const text = await readSmallFile(path);
  if (text === null) return;
  const [, ...rest] = text.split("\n");
  await using file = await openPlainFile(path, constants.O_WRONLY);
  await file.truncate(0);
  await file.writeFile(`${[NO_PROCESS, ...rest].join("\n")}\n`);
}

/** True if a process serves this data, by its working directory on Linux, by its program name elsewhere. */
async function servesData(pid: number, data: string): Promise<boolean> {
  if (process.platform === "linux") {
    // Fails for zombies and for processes of other users: neither is our server.
    return (await readlink(`/proc/${pid}/cwd`).catch(() => null)) === data;
  }
  if (process.platform === "win32") return true;
  const { code, output } = await runProgram("/bin/ps", ["-o", "comm=", "-p", String(pid)], { user: null });
  return code === 0 && basename(output.trim()) === "postgres";
}

const MAX_LOG_BYTES = 4 * 1024 * 1024;
/** Maximum bytes to read for a message. */
const READ_LOG_BYTES = 64 * 1024;

/** Log of the server, without statements and data (see `settings` of the cluster). */
function logPath(folders: ServerFolders): string {
  return join(folders.home, "server.log");
}

/** Creates the log for the server's user, after renaming a long one to `server.log.1`; returns its length in bytes. */
async function prepareLog(folders: ServerFolders): Promise<number> {
  const path = logPath(folders);
  const known = await lstat(path).catch(() => null);
  if (known && known.size > MAX_LOG_BYTES) await rename(path, `${path}.1`);
  await using file = await openPlainFile(path, constants.O_CREAT | constants.O_WRONLY, 0o600);
  if (folders.user) await file.chown(folders.user.uid, folders.user.gid);
  return (await file.stat()).size;
}

/** Reads the log from a byte offset, at most the last 64 kB. */
async function readLogFrom(folders: ServerFolders, start: number): Promise<string> {
  const file = await openPlainFile(logPath(folders), constants.O_RDONLY).catch(() => null);
  if (file === null) return "";
  try {
    const { size } = await file.stat();
    const from = Math.max(start, size - READ_LOG_BYTES);
    const length = Math.max(size - from, 0);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length + 1), 0, length, from);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** A session on the maintenance database of the running server. */
export interface Session {
  readonly client: Client;
  readonly port: number;
}

/** Timeout while the server reports "starting up": crash recovery can take long. */
const RECOVERY_TIMEOUT_MS = 30 * 60_000;
/** Timeout for a running server that does not respond. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Connects to the server; null while it starts or stops, within a timeout. */
async function tryConnect(server: Server, port: number, waitedMs: number): Promise<Session | null> {
  try {
    return { client: await connect(port, server.password), port };
  } catch (error) {
    const code = codeOf(error);
    if (code === "28P01" || code === "28000") {
      throw new FixConfigurationError(
        "embedded_password",
        `The embedded database on port ${port} rejects the password in ${join(server.folders.control, "password")}. ` +
          `Put the password of its role ${SUPERUSER} there.`,
        [],
        { cause: error },
      );
    }
    // 57P03: starting, recovering or stopping.
    if (waitedMs > (code === "57P03" ? RECOVERY_TIMEOUT_MS : ANSWER_TIMEOUT_MS)) {
      throw new StopRunError(
        "embedded_no_answer",
        `The embedded database is running but does not respond on 127.0.0.1:${port} (${messageOf(error)}). ` +
          `Its log: ${logPath(server.folders)}`,
        { cause: error },
      );
    }
    return null;
  }
}

/** Connects, by default as superuser to the maintenance database. Ignores PG… variables. */
export async function connect(
  port: number,
  password: string,
  { user = SUPERUSER, database = "postgres" } = {},
): Promise<Client> {
  const client = new Client({
    host: "127.0.0.1",
    port,
    user,
    password,
    database,
    ssl: false,
    options: "",
    application_name: "person-etl supervisor",
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
  });
  // Without a listener, a lost connection would end the process.
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}
