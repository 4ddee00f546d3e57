import { join } from "node:path";
import { Client } from "pg";
import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";
import type { Server } from "./server.ts";
import { logPath } from "./server-log.ts";
import { SUPERUSER } from "./settings.ts";

/** A session on the maintenance database of the running server. */
export interface Session {
  readonly client: Client;
  readonly port: number;
}

/** Timeout while the server reports "starting up": crash recovery can take long. */
export const RECOVERY_TIMEOUT_MS = 30 * 60_000;
/** Timeout for a running server that does not respond. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Connects to the server; null while it starts or stops, within a timeout. */
export async function tryConnect(server: Server, port: number, waitedMs: number): Promise<Session | null> {
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
