import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Client } from "pg";
import type { Server } from "./server.ts";
import { connect } from "./session.ts";
import { DATABASE, OWNER, READER } from "./settings.ts";
import { readSmallFile, writeSmallFile } from "./small-file.ts";

/** Sessions of the reader: most of the server's stay free for runs. */
const READER_SESSIONS = 60;

/** Creates a large object: any role may, without limit. */
const MAKERS = ["lo_creat(integer)", "lo_create(oid)", "lo_from_bytea(oid, bytea)"];

/**
 * Creates the database, its owner (no superuser), and the reader for people and BI tools; `admin` is a session of the
 * superuser in the database of the hold, which no other role may enter. Takes back what the reader changed on itself.
 */
export async function ensureDatabase({
  server,
  admin,
  port,
}: {
  readonly server: Server;
  readonly admin: Client;
  readonly port: number;
}): Promise<void> {
  const readerFile = join(server.folders.control, "reader-password");
  const readerPassword = (await readSmallFile(readerFile)) ?? randomBytes(24).toString("base64url");
  await writeSmallFile(readerFile, readerPassword, 0o600);
  const roles = await admin.query("SELECT 1 FROM pg_roles WHERE rolname = $1", [READER]);
  if (roles.rowCount === 0) {
    await admin.query(
      `BEGIN; CREATE ROLE ${OWNER} LOGIN PASSWORD ${admin.escapeLiteral(server.password)}; CREATE ROLE ${READER} LOGIN; COMMIT`,
    );
  }
  const exists = await admin.query("SELECT 1 FROM pg_database WHERE datname = $1", [DATABASE]);
  if (exists.rowCount === 0) await admin.query(`CREATE DATABASE ${DATABASE} OWNER ${OWNER}`);
  await admin.query(
    `BEGIN;
     ALTER ROLE ${READER} CONNECTION LIMIT ${READER_SESSIONS} PASSWORD ${admin.escapeLiteral(readerPassword)};
     ALTER ROLE ${READER} RESET ALL;
     ALTER ROLE ${READER} IN DATABASE ${DATABASE} RESET ALL;
     ALTER ROLE ${READER} SET default_transaction_read_only = on;
     ALTER ROLE ${READER} SET temp_file_limit = '4GB';
     REVOKE CONNECT, TEMPORARY ON DATABASE postgres, template1 FROM PUBLIC;
     REVOKE TEMPORARY ON DATABASE ${DATABASE} FROM PUBLIC;
     COMMIT`,
  );
  const inside = await connect(port, server.password, { database: DATABASE });
  try {
    await inside.query(`REVOKE EXECUTE ON FUNCTION ${MAKERS.join(", ")} FROM PUBLIC`);
  } finally {
    await inside.end();
  }
}

/** Grants the reader some schemas, if they exist. */
export async function grantReading(
  port: number,
  password: string,
  schemas: readonly string[],
): Promise<void> {
  const owner = await connect(port, password, { user: OWNER, database: DATABASE });
  try {
    const { rows } = await owner.query<{ name: string }>(
      "SELECT quote_ident(nspname) AS name FROM pg_namespace WHERE nspname = ANY ($1) AND nspowner = $2::regrole",
      [schemas, OWNER],
    );
    for (const { name } of rows) {
      await owner.query(
        `GRANT USAGE ON SCHEMA ${name} TO ${READER}; GRANT SELECT ON ALL TABLES IN SCHEMA ${name} TO ${READER};
         ALTER DEFAULT PRIVILEGES IN SCHEMA ${name} GRANT SELECT ON TABLES TO ${READER}`,
      );
    }
  } finally {
    await owner.end();
  }
}
