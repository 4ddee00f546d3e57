import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../errors.ts";
import { chooseFreePort } from "./free-port.ts";
import type { Place } from "./place.ts";
import { disownPid, endLeftovers, readPostmaster, runsDeletedProgram } from "./postmaster.ts";
import { runProgram } from "./run-program.ts";
import type { Server } from "./server.ts";
import { boundLog, ensureLog, logPath, readLogFrom } from "./server-log.ts";
import { RECOVERY_TIMEOUT_MS, type Session, tryConnect } from "./session.ts";
import { HOLD_KEY, serverConf, SUPERVISED } from "./settings.ts";
import { readSmallFile, writeSmallFile } from "./small-file.ts";
import { describeFailure, readStartupFailure } from "./startup-failure.ts";

const POLL_MS = 200;
/** Failed starts in a row: children of a killed server may hold on for a while, a lost race for a port passes at once. */
const START_TIMEOUT_MS = 60_000;
/** After both Node and the server were killed, a first start may fail for no good reason and the second succeeds. */
const UNKNOWN_FAILURES_ALLOWED = 2;

/** Connects to the running server, or starts it; a failure leaves none behind. Call it under the start lock. */
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
    const state = await readPostmaster(server.place);
    if (state.kind === "alive") {
      const session = await tryConnect(server, state.port, performance.now() - begun);
      if (session && !(await mustRestart(session, state.pid))) return session;
      if (session) await restart(server, session);
    } else {
      if (state.kind === "reused_pid") await disownPid(server.place);
      progress.started = true;
      const failure = await startServer(server, signal);
      if (failure === null) continue;
      progress.started = false;
      startsFailedSince ??= performance.now();
      const kind = readStartupFailure(failure);
      if (kind === "unknown") unknownFailures += 1;
      const hopeless =
        kind === "disk_full" || kind === "other_version" || unknownFailures > UNKNOWN_FAILURES_ALLOWED;
      if (hopeless || performance.now() - startsFailedSince > START_TIMEOUT_MS) {
        throw describeFailure(`starting the embedded database (log: ${logPath(server.place)})`, failure);
      }
      if (kind === "data_in_use") await endLeftovers(server.place);
      server.log.debug({ reason: kind }, "embedded database did not start; trying again");
    }
    // Aborted: the next round throws the signal's own reason.
    await delay(POLL_MS, undefined, signal ? { signal } : {}).catch(() => {});
  }
}

/** True for an orphan whose programs were replaced meanwhile (a new `npm ci`), so that it can't load its parts any more. */
async function mustRestart({ client }: Session, pid: number): Promise<boolean> {
  if (!(await runsDeletedProgram(pid))) return false;
  const { rows } = await client.query<{ unused: boolean }>(
    `SELECT pg_try_advisory_lock(${HOLD_KEY}) AND current_setting('${SUPERVISED}', true) = 'on' AS unused`,
  );
  if (rows[0]?.unused === true) return true;
  await client.query("SELECT pg_advisory_unlock_all()");
  return false;
}

async function restart(server: Server, session: Session): Promise<void> {
  await stopServer(server);
  await session.client.end().catch(() => {});
}

/** Starts the server; null if it runs, else what its log says. */
async function startServer(server: Server, signal?: AbortSignal): Promise<string | null> {
  const { place, binaries } = server;
  try {
    await boundLog(place);
    const logged = await ensureLog(place);
    const port = await choosePort(place);
    await writeSmallFile(join(place.home, "server.conf"), serverConf(port), 0o644);
    await writeSmallFile(join(place.control, "port"), String(port), 0o644);
    // pg_ctl puts the server into a session of its own: a Ctrl-C in the terminal never reaches it.
    const { code, output } = await runProgram(
      binaries.pgCtl,
      [
        "start",
        `--pgdata=${place.data}`,
        `--log=${logPath(place)}`,
        "--wait",
        `--timeout=${RECOVERY_TIMEOUT_MS / 1000}`,
        `--options=-c ${SUPERVISED}=on`,
      ],
      { user: place.user, signal },
    );
    return code === 0 ? null : (await readLogFrom(place, logged)) || output;
  } catch (error) {
    signal?.throwIfAborted();
    throw describeFailure(`starting the embedded database in ${place.data}`, messageOf(error), error);
  }
}

/** Stops what was being started when it failed or the user gave up; it may need a moment until it can be stopped. */
async function stopHalfStarted(server: Server): Promise<void> {
  for (let waitedMs = 0; waitedMs <= 2_000; waitedMs += POLL_MS) {
    if ((await readPostmaster(server.place)).kind === "alive") {
      await stopServer(server);
      return;
    }
    await delay(POLL_MS);
  }
}

async function choosePort(place: Place): Promise<number> {
  const last = Number((await readSmallFile(join(place.control, "port"))) ?? "0");
  return await chooseFreePort(Number.isInteger(last) && last > 0 && last < 65_536 ? last : null, place.home);
}

/** Stops the server at once but cleanly: sessions end, what was committed is on disk. */
export async function stopServer(server: Server): Promise<void> {
  const { place, binaries } = server;
  const { code, output } = await runProgram(
    binaries.pgCtl,
    ["stop", `--pgdata=${place.data}`, "--mode=fast", "--wait", "--timeout=120"],
    { user: place.user },
  );
  if (code !== 0 && (await readPostmaster(place)).kind === "alive") {
    throw describeFailure("stopping the embedded database", output);
  }
  await boundLog(place);
}
