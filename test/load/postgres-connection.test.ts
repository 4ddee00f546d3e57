import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createSecureContext, TLSSocket } from "node:tls";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { fileSecret } from "../../src/config/secrets.ts";
import { settingsOf } from "../../src/load/db/connect.ts";
import { explainFailure } from "../../src/load/db/failures.ts";
import { openPool } from "../../src/load/db/session.ts";
import { makeSelfSigned } from "../extract/self-signed.ts";
import { freshDatabase, roleIn } from "./bare-database.ts";

const SSL_REQUEST = Buffer.from("0000000804d2162f", "hex");
/** Password requests of a server: type R, length, method. */
const CLEAR_TEXT = Buffer.from("520000000800000003", "hex");
const MD5 = Buffer.from("520000000c0000000541424344", "hex");

/** Starts a server that only listens; `answer` reacts to each message. Returns its port and all received messages. */
async function listen(answer: (socket: Socket, message: Buffer) => void) {
  const heard: Buffer[] = [];
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data) => {
      const message = Buffer.from(data);
      heard.push(message);
      answer(socket, message);
    });
  });
  await once(server.listen(0, "0.0.0.0"), "listening");
  onTestFinished(() => void server.close());
  const address = server.address();
  return { port: typeof address === "object" && address ? address.port : 0, heard };
}

/** Connects once; returns the reason of the failure. */
async function reasonOf(url: string, allowInsecure = false): Promise<string> {
  const pool = openPool({ url, allowInsecure }, 1);
  try {
    await pool.query("SELECT 1");
    return "connected";
  } catch (error) {
    const explained = explainFailure(error, { name: "The warehouse", path: "warehouse.url" });
    return explained instanceof Error ? explained.message : "no error";
  } finally {
    await pool.end();
  }
}

const UNSAFE =
  "The warehouse can't be used: it asks for the password in clear text or as an MD5 hash on an unencrypted connection.";

test("an unencrypted password goes to no server, and its MD5 hash only if that is allowed", async () => {
  let wish = CLEAR_TEXT;
  const { port, heard } = await listen((socket, message) => {
    if (message.includes("user")) socket.write(wish);
    else socket.end();
  });
  const url = `postgres://loader:S3cret-Wareh0use@127.0.0.1:${port}/dwh`;
  await expect(reasonOf(url)).resolves.toBe(UNSAFE);
  await expect(reasonOf(url, true)).resolves.toBe(UNSAFE);
  wish = MD5;
  await expect(reasonOf(url)).resolves.toBe(UNSAFE);
  expect(heard).toHaveLength(3);
  expect(Buffer.concat(heard).toString("latin1")).not.toContain("S3cret");
  await expect(reasonOf(url, true)).resolves.toMatch(
    /^The warehouse can't be used: the connection was lost\./,
  );
  expect(heard.at(-1)?.toString("latin1")).toMatch(/^p\0\0\0\x28md5[0-9a-f]{32}\0$/);
});

// 0.0.0.0 reaches this machine, but isn't a loopback address.
test("nothing is sent to another machine before TLS is agreed on", async () => {
  const { port, heard } = await listen((socket) => void socket.write("N"));
  await expect(reasonOf(`postgres://loader:S3cret-Wareh0use@0.0.0.0:${port}/dwh`)).resolves.toBe(
    "The warehouse can't be used: it doesn't support TLS, which is the default for other machines.",
  );
  expect(heard).toEqual([SSL_REQUEST]);
});

test("certificates are verified even if the environment turns verification off", async () => {
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
  const secureContext = createSecureContext(makeSelfSigned());
  const heard: Buffer[] = [];
  const { port } = await listen((socket, message) => {
    if (!message.equals(SSL_REQUEST)) return;
    socket.removeAllListeners("data");
    socket.write("S");
    const encrypted = new TLSSocket(socket, { isServer: true, secureContext });
    encrypted.on("error", () => {}).on("data", (data) => heard.push(Buffer.from(data)));
  });
  for (const mode of [
    "",
    "?sslmode=verify-full",
    "?sslmode=require",
    "?sslmode=require&uselibpqcompat=true",
  ]) {
    await expect(reasonOf(`postgres://loader:S3cret@0.0.0.0:${port}/dwh${mode}`)).resolves.toBe(
      "The warehouse can't be used: its certificate is signed by an unknown authority.",
    );
  }
  expect(heard).toEqual([]);
});

test.each([
  ["postgres://u@db.example.com/d", false, { rejectUnauthorized: true }],
  ["postgres://u@db.example.com/d", true, false],
  ["postgres://u@db.example.com/d?sslmode=verify-full", true, { rejectUnauthorized: true }],
  ["postgres://u@db.example.com/d?sslmode=no-verify", true, { rejectUnauthorized: false }],
  ["postgres://u@localhost/d", false, false],
  ["postgres://u@[::1]/d", false, false],
  ["postgresql:///d?host=/run/postgresql", false, false],
  ["postgres://u:p@/d?host=/run/postgresql", false, false],
  ["postgres://u@localhost/d?host=db.example.com", false, { rejectUnauthorized: true }],
  ["postgres://u@localhost/d?sslmode=require", false, { rejectUnauthorized: true }],
])("%s, allowed to be insecure %s, has the TLS settings %j", (url, allowInsecure, ssl) => {
  expect(settingsOf({ url, allowInsecure }).ssl).toEqual(ssl);
});

test("an address keeps its port, names, options and characters", () => {
  const url = "postgres://lo%40der:p%2Fw%25@db.example.com:6543/my%20db?options=-c%20a%3Db&sslmode=require";
  expect(settingsOf({ url })).toMatchObject({
    host: "db.example.com",
    port: 6543,
    user: "lo@der",
    database: "my db",
    options: "-c a=b",
    application_name: "person-etl",
  });
});

test("a new password in the file of the address is found by the next connection", async () => {
  const { url, role, admin } = await roleIn(await freshDatabase(), "SELECT 1");
  const file = join(inject("runFolder"), role);
  await writeFile(file, url, { mode: 0o600 });
  const secret = fileSecret(file);
  const pool = openPool({ url: await secret.read(), readUrl: () => secret.read() }, 1);
  onTestFinished(() => pool.end());
  await pool.query("SELECT 1");
  await admin.query(`ALTER ROLE ${role} PASSWORD 'second'`);
  await writeFile(file, url.replace(":secret@", ":second@"), { mode: 0o600 });
  await admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", [role]);
  await expect
    .poll(async () => (await pool.query("SELECT current_user AS name").catch(() => null))?.rows[0])
    .toEqual({ name: role });
});
