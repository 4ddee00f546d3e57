import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import type { Binaries } from "./binaries.ts";
import { chooseFreePort } from "./free-port.ts";
import type { Place } from "./place.ts";
import { disownPid, readPostmaster } from "./postmaster.ts";
import { runProgram } from "./run-program.ts";
import { boundLog, ensureLog, logPath, readLogFrom } from "./server-log.ts";
import { ROLE, serverConf, SUPERVISED } from "./settings.ts";
import { readSmallFile, writeSmallFile } from "./small-file.ts";
import { describeFailure, readStartupFailure } from "./startup-failure.ts";

/** All that is needed to run the server of one place. */
export interface Server {
  readonly place: Place;
  readonly binaries: Binaries;
  readonly password: string;
  readonly log: Log;
}

/** A session on the maintenance database of the running server. */
export interface Session {
  readonly client: Client;
  readonly port: number;
}

const POLL_MS = 200;
/** A server that recovers after a crash answers "starting up" for as long as that takes. */
const RECOVERY_TIMEOUT_MS = 30 * 60_000;
/** For a living server that doesn't answer at all. */
const ANSWER_TIMEOUT_MS = 60_000;
/** Failed starts in a row: children of a killed server may hold on for a while, a lost race for a port passes at once. */
const START_TIMEOUT_MS = 60_000;
/** After both Node and the server were killed, a first start may fail for no good reason and the second succeeds. */
const UNKNOWN_FAILURES_ALLOWED = 2;

/** Connects to the running server, or starts it. Call it under the start lock. */
export async function connectOrStart(server: Server, signal?: AbortSignal): Promise<Session> {
  const begun = performance.now();
  let startsFailedSince: number | null = null;
  let unknownFailures = 0;
  for (;;) {
    signal?.throwIfAborted();
    const state = await readPostmaster(server.place);
    if (state.kind === "alive") {
      const session = await tryConnect(server, state.port, performance.now() - begun);
      if (session) return session;
    } else {
      if (state.kind === "reused_pid") await disownPid(server.place);
      const failure = await startServer(server, signal);
      if (failure === null) continue;
      startsFailedSince ??= performance.now();
      const kind = readStartupFailure(failure);
      if (kind === "unknown") unknownFailures += 1;
      const hopeless =
        kind === "disk_full" || kind === "other_version" || unknownFailures > UNKNOWN_FAILURES_ALLOWED;
      if (hopeless || performance.now() - startsFailedSince > START_TIMEOUT_MS) {
        throw describeFailure(`starting the embedded database (log: ${logPath(server.place)})`, failure);
      }
      server.log.debug({ reason: kind }, "embedded database did not start; trying again");
    }
    await delay(POLL_MS, undefined, signal ? { signal } : {});
  }
}

/** A session, or null while the server starts or stops. */
async function tryConnect(server: Server, port: number, waitedMs: number): Promise<Session | null> {
  try {
    return { client: await connect(port, server.password), port };
  } catch (error) {
    const code = codeOf(error);
    if (code === "28P01" || code === "28000") {
      throw new FixConfigurationError(
        "embedded_password",
        `The embedded database on port ${port} refuses the password in ${join(server.place.control, "password")}. ` +
          `Put the password of its role ${ROLE} there.`,
        [],
        { cause: error },
      );
    }
    // 57P03: it starts, recovers or stops, and says so.
    if (waitedMs > (code === "57P03" ? RECOVERY_TIMEOUT_MS : ANSWER_TIMEOUT_MS)) {
      throw new StopRunError(
        "embedded_no_answer",
        `The embedded database runs but doesn't answer on 127.0.0.1:${port} (${messageOf(error)}). ` +
          `Its log: ${logPath(server.place)}`,
        { cause: error },
      );
    }
    return null;
  }
}

/** Connects to the maintenance database. Nothing of the PG… variables of our environment applies. */
export async function connect(port: number, password: string): Promise<Client> {
  const client = new Client({
    host: "127.0.0.1",
    port,
    user: ROLE,
    password,
    database: "postgres",
    ssl: false,
    options: "",
    application_name: "person-etl supervisor",
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
  });
  // Without a listener a lost connection would end the process.
  client.on("error", () => {});
  try {
    await client.connect();
    return client;
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
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
