import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { openEmbedded } from "../../src/load/embedded/open.ts";
import { silentLog } from "../../src/log.ts";
import { homeOf, postmasterPid } from "../support/embedded-files.ts";
import { answers, makeLastingFolder, makeOpenFolder } from "../support/embedded-process.ts";
import { runSql } from "../support/run-sql.ts";

const log = silentLog;

/** Database shared by all tests that restore it. */
let dataDir = "";
beforeAll(async () => {
  const { folder, remove } = await makeLastingFolder();
  dataDir = join(folder, "data-dir");
  return remove;
});

test("the server is closed to others and durable, its passwords are in files of their owner, and its log has no values", async () => {
  const server = await openEmbedded({ dataDir, log });
  const rows = await runSql(
    server.superuserUrl,
    `SELECT name, setting FROM pg_settings WHERE name IN ('listen_addresses', 'unix_socket_directories', 'fsync',
       'synchronous_commit', 'full_page_writes', 'TimeZone', 'server_encoding', 'password_encryption') ORDER BY 1`,
  );
  expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
    TimeZone: "UTC",
    fsync: "on",
    full_page_writes: "on",
    listen_addresses: "127.0.0.1",
    password_encryption: "scram-sha-256",
    server_encoding: "UTF8",
    synchronous_commit: "on",
    unix_socket_directories: "",
  });
  const locale = "SELECT datlocprovider, datlocale FROM pg_database WHERE datname = 'warehouse'";
  expect(await runSql(server.connectionString, locale)).toEqual([
    { datlocprovider: "b", datlocale: "C.UTF-8" },
  ]);
  const wrong = new URL(server.connectionString);
  wrong.password = "wrong";
  await expect(runSql(wrong.href, "SELECT 1")).rejects.toMatchObject({ code: "28P01" });
  await runSql(
    server.connectionString,
    "CREATE TABLE t (mail text PRIMARY KEY); INSERT INTO t VALUES ('ada@example.org')",
  );
  for (const [statement, code] of [
    ["INSERT INTO t VALUES ('ada@example.org')", "23505"],
    ["SELECT 'ada@example.org'::int", "22P02"],
  ] as const) {
    await expect(runSql(server.connectionString, statement)).rejects.toMatchObject({ code });
  }
  await server.close();
  const control = join(dataDir, "postgres");
  const text = await readFile(join(control, "server.log"), "utf8");
  expect(text).toContain("database system is ready to accept connections");
  expect(text).not.toContain("ada@");
  const shown = server.howToConnect.join("\n");
  for (const name of ["password", "reader-password"]) {
    const file = join(control, name);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(shown).not.toContain((await readFile(file, "utf8")).trim());
  }
  expect((await stat(join(control, "data"))).mode & 0o777).toBe(0o700);
  expect(shown).toContain(
    `PGREQUIREAUTH=scram-sha-256 PGPASSWORD=$(cat ${join(control, "reader-password")}) psql -h 127.0.0.1 -p ${server.port} -U reader warehouse`,
  );
});

test("the program's role is no superuser, and the reader only reads the schemas that it may", async () => {
  const readableSchemas = ["people", "ops"];
  const dataDir = join(await makeOpenFolder(), "data-dir");
  const first = await openEmbedded({ dataDir, log, readableSchemas });
  expect(
    await runSql(first.connectionString, "SELECT usesuper FROM pg_user WHERE usename = current_user"),
  ).toEqual([{ usesuper: false }]);
  await runSql(
    first.connectionString,
    "CREATE SCHEMA people; CREATE TABLE people.person AS SELECT 1 AS n; CREATE SCHEMA state; CREATE TABLE state.secret AS SELECT 2 AS n",
  );
  await first.close();
  const second = await openEmbedded({ dataDir, log, readableSchemas });
  await runSql(second.connectionString, "CREATE TABLE people.later AS SELECT 3 AS n");
  const reader = new URL(second.connectionString);
  reader.username = "reader";
  reader.password = (await readFile(join(dataDir, "postgres", "reader-password"), "utf8")).trim();
  expect(
    await runSql(reader.href, "SELECT p.n, l.n AS later FROM people.person AS p, people.later AS l"),
  ).toEqual([{ n: 1, later: 3 }]);
  for (const [statement, code] of [
    ["SELECT * FROM state.secret", "42501"],
    ["BEGIN READ WRITE; INSERT INTO people.person VALUES (4)", "42501"],
    ["COPY people.person TO PROGRAM 'true'", "42501"],
    ["BEGIN READ WRITE; CREATE TEMP TABLE t AS SELECT 1", "42501"],
    ["BEGIN READ WRITE; SELECT lo_from_bytea(0, 'x')", "42501"],
    ["BEGIN READ WRITE; SELECT lo_create(0)", "42501"],
    ["SET temp_file_limit = -1", "42501"],
  ] as const) {
    await expect(runSql(reader.href, statement)).rejects.toMatchObject({ code });
  }
  // The hold that keeps the server running is taken there.
  const maintenance = new URL(reader);
  maintenance.pathname = "/postgres";
  await expect(runSql(maintenance.href, "SELECT pg_advisory_lock(1)")).rejects.toMatchObject({
    code: "42501",
  });
  // A role may change itself: the next opening takes that back.
  await runSql(
    reader.href,
    "BEGIN READ WRITE; ALTER ROLE reader SET default_transaction_read_only = off; ALTER ROLE reader PASSWORD 'x'; COMMIT",
  );
  await second.close();
  const third = await openEmbedded({ dataDir, log, readableSchemas });
  reader.port = String(third.port);
  expect(await runSql(reader.href, "SHOW default_transaction_read_only")).toEqual([
    { default_transaction_read_only: "on" },
  ]);
  await third.close();
});

test("a log that has grown too long is set aside at the next start", async () => {
  await (await openEmbedded({ dataDir, log })).close();
  const path = join(dataDir, "postgres", "server.log");
  await writeFile(path, `${"x".repeat(5 * 1024 * 1024)}\nthe last old line\n`);
  await (await openEmbedded({ dataDir, log })).close();
  const [text, old] = [await readFile(path, "utf8"), await readFile(`${path}.1`, "utf8")];
  expect(text.slice(-200)).toContain("database system is shut down");
  expect([text.length < 300 * 1024, old.endsWith("the last old line\n")]).toEqual([true, true]);
});

test("a taken port is replaced by another one below those of outgoing connections, which is kept from then on", async () => {
  const first = await openEmbedded({ dataDir, log });
  await first.close();
  for (const port of new Set([first.port, 15_432, 15_433])) await takePort(port);
  const second = await openEmbedded({ dataDir, log });
  expect(second.port).not.toBe(first.port);
  expect(second.port).toBeLessThan(20_000);
  await second.close();
  // The next start tries this one first.
  expect((await readFile(join(dataDir, "postgres", "port"), "utf8")).trim()).toBe(String(second.port));
});

/** Listens on a port until the test ends, unless another process does. */
async function takePort(port: number): Promise<void> {
  const server = createServer().listen(port, "127.0.0.1");
  onTestFinished(() => {
    server.close();
  });
  await once(server, "listening").catch(() => {});
}

test("the user's own settings take precedence; a server that can't start is an error with the last lines of its log", async () => {
  await (await openEmbedded({ dataDir, log })).close();
  const conf = join(dataDir, "postgres", "data", "postgresql.conf");
  const before = await readFile(conf);
  await writeFile(conf, "work_mem = '7MB'\n", { flag: "a" });
  const server = await openEmbedded({ dataDir, log });
  expect(await runSql(server.connectionString, "SHOW work_mem")).toEqual([{ work_mem: "7MB" }]);
  await server.close();
  await writeFile(conf, "shared_buffers = 'plenty'\n", { flag: "a" });
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({
    name: "StopRunError",
    code: "embedded_start_failed",
    message: expect.stringContaining('invalid value for parameter "shared_buffers": "plenty"'),
  });
  await writeFile(conf, before);
});

test("data of another major version is refused and left alone", async () => {
  await (await openEmbedded({ dataDir, log })).close();
  const version = join(dataDir, "postgres", "data", "PG_VERSION");
  await writeFile(version, "17\n");
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "embedded_version",
    message: expect.stringMatching(/created by Postgres 17, but this release of person-etl has Postgres 18/),
  });
  await writeFile(version, "18\n");
  await (await openEmbedded({ dataDir, log })).close();
});

test("a missing password and a folder that is no database are named, nothing is overwritten", async () => {
  const server = await openEmbedded({ dataDir, log });
  await server.close();
  const passwordFile = join(dataDir, "postgres", "password");
  const password = await readFile(passwordFile, "utf8");
  await rm(passwordFile);
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({ code: "embedded_password" });
  await writeFile(passwordFile, "another\n");
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({
    code: "embedded_password",
    message: expect.not.stringContaining("another"),
  });
  expect(await postmasterPid(dataDir)).toBeNull();
  await writeFile(passwordFile, password);
  const version = join(dataDir, "postgres", "data", "PG_VERSION");
  await rename(version, `${version}.away`);
  await expect(openEmbedded({ dataDir, log })).rejects.toMatchObject({ code: "embedded_damaged" });
  await rename(`${version}.away`, version);
  await (await openEmbedded({ dataDir, log })).close();
});

test("an opening aborted at any moment leaves nothing running and nothing broken", async () => {
  const dataDir = join(await makeOpenFolder(), "data-dir");
  for (const afterMs of [0, 60, 150, 300, 450, 600, 750]) {
    const signal = AbortSignal.timeout(afterMs);
    const outcome = await openEmbedded({ dataDir, log, signal }).then(
      // It ended before the signal.
      async (server) => {
        await server.close();
        return "opened";
      },
      (error: unknown) => (error instanceof Error ? error.name : error),
    );
    expect(["opened", "TimeoutError"]).toContain(outcome);
    expect(await postmasterPid(dataDir)).toBeNull();
  }
  const server = await openEmbedded({ dataDir, log });
  expect(await answers(server.connectionString)).toBe(true);
  await server.close();
  expect(await homeOf(dataDir)).toBe(join(dataDir, "postgres"));
});
