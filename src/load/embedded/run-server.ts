import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../errors.ts";
import type { ServerFolders } from "./folders.ts";
import type { Server } from "./server.ts";
import { disownPid, readPostmaster } from "./postmaster.ts";
import { runProgram } from "./run-program.ts";
import { logPath, prepareLog, readLogFrom } from "./server-log.ts";
import { RECOVERY_TIMEOUT_MS, type Session, tryConnect } from "./session.ts";
import { serverConf, SUPERVISED } from "./settings.ts";
import { readSmallFile, writeSmallFile } from "./small-file.ts";
import { describeFailure, readStartupFailure } from "./startup-failure.ts";

const POLL_MS = 200;
/** Time limit for failed starts: children of a killed server may block the data for a while. */
const START_TIMEOUT_MS = 60_000;
/** Minimum number of starts: after a kill of Node.js and the server, the first start may fail. */
const UNKNOWN_FAILURES_ALLOWED = 2;
/** Ports to try, in this order; below those of outgoing connections, which can take a stopped server's port. */
const USUAL_PORTS = Array.from({ length: 10 }, (_, i) => 15_432 + i);

/** Connects to the running server, or starts it; a failure leaves none running. Requires the start lock. */
export async function connectOrStart(server: Server, signal?: AbortSignal): Promise<Session> {
  const progress = { started: false };
  try {
    return await connectOrTryToStart(server, progress, signal);
  } catch (error) {
    if (progress.started) await stopHalfStarted(server);
    throw error;
  }
}

async function connectOrTryToStart(
  server: Server,
  progress: { started: boolean },
  signal?: AbortSignal,
): Promise<Session> {
  const begun = performance.now();
  let startsFailedSince: number | null = null;
  let unknownFailures = 0;
  for (;;) {
    signal?.throwIfAborted();
    const state = await readPostmaster(server.folders);
    if (state.kind === "alive") {
      const session = await tryConnect(server, state.port, performance.now() - begun);
      if (session) return session;
    } else {
      await disownPid(server.folders);
      progress.started = true;
      const failure = await startServer(server, signal);
      if (failure === null) continue;
      progress.started = false;
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
    throw describeFailure(`starting the embedded database in ${folders.data}`, messageOf(error), error);
  }
}

/** Stops a server whose start failed or was aborted; retries until it can be stopped. */
async function stopHalfStarted(server: Server): Promise<void> {
  for (let waitedMs = 0; waitedMs <= 2_000; waitedMs += POLL_MS) {
    if ((await readPostmaster(server.folders)).kind === "alive") {
      await stopServer(server);
      return;
    }
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
  if (code !== 0 && (await readPostmaster(folders)).kind === "alive") {
    throw describeFailure("stopping the embedded database", output);
  }
}
