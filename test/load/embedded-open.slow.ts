import { readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { openEmbedded } from "../../src/load/embedded/open-embedded.ts";
import { silentLog } from "../../src/log.ts";
import { homeOf, postmasterPid } from "../support/embedded-files.ts";
import { answers, makeLastingFolder, makeOpenFolder, runSql } from "../support/embedded-process.ts";

const log = silentLog;

/** One database for all tests that leave it as they found it. */
let dataDir = "";
beforeAll(async () => {
  const { folder, remove } = await makeLastingFolder();
  dataDir = join(folder, "data-dir");
  return remove;
});

test("a first start makes the database, a second one finds its data on the same port", async () => {
  const dataDir = join(await makeOpenFolder(), "data-dir");
  const first = await openEmbedded({ dataDir, log });
  await runSql(first.connectionString, "CREATE TABLE kept AS SELECT 7 AS n");
  await first.close();
  expect(await answers(first.connectionString)).toBe(false);

  const second = await openEmbedded({ dataDir, log });
  expect(second.port).toBe(first.port);
  expect(second.connectionString).toBe(first.connectionString);
  expect(await runSql(second.connectionString, "SELECT n, current_database() AS name FROM kept")).toEqual([
    { n: 7, name: "warehouse" },
  ]);
  await second.close();
});

test("the server listens on 127.0.0.1 only, asks for the password, and never weakens durability", async () => {
  const server = await openEmbedded({ dataDir, log });
  const rows = await runSql(
    server.connectionString,
    `SELECT name, setting FROM pg_settings WHERE name IN ('listen_addresses', 'unix_socket_directories', 'fsync',
       'synchronous_commit', 'full_page_writes', 'TimeZone', 'server_encoding', 'password_encryption', 'jit') ORDER BY 1`,
  );
  expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
    TimeZone: "UTC",
    fsync: "on",
    full_page_writes: "on",
    jit: "off",
    listen_addresses: "127.0.0.1",
    password_encryption: "scram-sha-256",
    server_encoding: "UTF8",
    synchronous_commit: "on",
    unix_socket_directories: "",
  });
  expect(
    await runSql(
      server.connectionString,
      "SELECT datlocprovider, datlocale FROM pg_database WHERE datname = 'warehouse'",
    ),
  ).toEqual([{ datlocprovider: "b", datlocale: "C.UTF-8" }]);
  const wrong = new URL(server.connectionString);
  wrong.password = "wrong";
  await expect(runSql(wrong.href, "SELECT 1")).rejects.toMatchObject({ code: "28P01" });
  await server.close();
});

test("the password lies in a file for its owner alone and in none of the lines shown to people", async () => {
  const server = await openEmbedded({ dataDir, log });
  await server.close();
  const file = join(dataDir, "postgres", "password");
  const password = (await readFile(file, "utf8")).trim();
  expect(new URL(server.connectionString).password).toBe(password);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await stat(join(dataDir, "postgres", "data"))).mode & 0o777).toBe(0o700);
  expect(server.howToConnect.join("\n")).not.toContain(password);
  expect(server.howToConnect[0]).toContain(
    `PGPASSWORD=$(cat ${file}) psql -h 127.0.0.1 -p ${server.port} -U person_etl warehouse`,
  );
});

test("failed statements leave no values in the server's log", async () => {
  const server = await openEmbedded({ dataDir, log });
  const { connectionString } = server;
  await runSql(
    connectionString,
    "CREATE TABLE t (mail text PRIMARY KEY); INSERT INTO t VALUES ('ada@example.org')",
  );
  await expect(runSql(connectionString, "INSERT INTO t VALUES ('ada@example.org')")).rejects.toMatchObject({
    code: "23505",
  });
  await expect(runSql(connectionString, "SELECT 'ada@example.org'::int")).rejects.toMatchObject({
    code: "22P02",
  });
  await server.close();
  const text = await readFile(join(dataDir, "postgres", "server.log"), "utf8");
  expect(text).toContain("database system is ready to accept connections");
  expect(text).not.toContain("ada@");
});

test("a log that has grown too long keeps its end only", async () => {
  await (await openEmbedded({ dataDir, log })).close();
  const path = join(dataDir, "postgres", "server.log");
  await writeFile(path, `${"x".repeat(5 * 1024 * 1024)}\nthe last old line\n`);
  await (await openEmbedded({ dataDir, log })).close();
  const text = await readFile(path, "utf8");
  expect(text.length).toBeLessThan(300 * 1024);
  expect(text).toContain("the last old line\n");
  expect(text).toContain("database system is shut down");
});

test("a port taken by somebody else is left to them, and the new one is kept from then on", async () => {
  const first = await openEmbedded({ dataDir, log });
  await first.close();
  const other = createServer().listen(first.port, "127.0.0.1");
  await once(other, "listening");
  onTestFinished(() => {
    other.close();
  });
  const second = await openEmbedded({ dataDir, log });
  expect(second.port).not.toBe(first.port);
  await second.close();
  other.close();
  await once(other, "close");
  const third = await openEmbedded({ dataDir, log });
  expect(third.port).toBe(second.port);
  await third.close();
});

test("the user's own settings in postgresql.conf outlive ours", async () => {
  await (await openEmbedded({ dataDir, log })).close();
  const conf = join(dataDir, "postgres", "data", "postgresql.conf");
  const before = await readFile(conf);
  await writeFile(conf, "work_mem = '7MB'\n", { flag: "a" });
  const server = await openEmbedded({ dataDir, log });
  expect(await runSql(server.connectionString, "SHOW work_mem")).toEqual([{ work_mem: "7MB" }]);
  await server.close();
  await writeFile(conf, before);
});

test("a server that can't start is an error with the last lines of its log", async () => {
  await (await openEmbedded({ dataDir, log })).close();
  const conf = join(dataDir, "postgres", "data", "postgresql.conf");
  const before = await readFile(conf);
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
    message: expect.stringMatching(/made by Postgres 17; this release of person-etl brings Postgres 18/),
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

test("an opening given up at any moment leaves nothing running and nothing broken", async () => {
  const dataDir = join(await makeOpenFolder(), "data-dir");
  for (const afterMs of [0, 60, 150, 300, 450, 600, 750]) {
    const signal = AbortSignal.timeout(afterMs);
    const outcome = await openEmbedded({ dataDir, log, signal }).then(
      // It was faster than the signal.
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
