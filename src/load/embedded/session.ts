import { join } from "node:path";
import { Client } from "pg";
import { codeOf, FixConfigurationError, messageOf, StopRunError } from "../../errors.ts";
import type { Server } from "./server.ts";
import { logPath } from "./server-log.ts";
import { ROLE } from "./settings.ts";

/** A session on the maintenance database of the running server. */
export interface Session {
  readonly client: Client;
  readonly port: number;
}

/** A server that recovers after a crash answers "starting up" for as long as that takes. */
export const RECOVERY_TIMEOUT_MS = 30 * 60_000;
/** For a living server that doesn't answer at all. */
const ANSWER_TIMEOUT_MS = 60_000;
/** A session, or null while the server starts or stops; how long that may go on depends on what it answers. */
export async function tryConnect(server: Server, port: number, waitedMs: number): Promise<Session | null> {
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
