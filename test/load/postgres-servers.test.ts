import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { expect, onTestFinished, test } from "vitest";
import { unexpectedMessage } from "../../src/errors.ts";
import { inTransaction, openPool } from "../../src/load/db/session.ts";
import { POOLER_TIMEOUT_MS, startPooler } from "../support/pgbouncer.ts";
import { connect, freshDatabase, open } from "./bare-database.ts";
import { people } from "./suite/people.ts";

test("a role's timeouts end nothing: transactions have their own", async () => {
  const { url } = await freshDatabase();
  const limits = [
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "transaction_timeout",
  ];
  const address = new URL(url);
  address.searchParams.set("options", limits.map((name) => `-c ${name}=150ms`).join(" "));
  const pool = openPool({ url: address.href }, 1);
  onTestFinished(() => pool.end());
  const rows = await inTransaction(pool, async (session) => {
    await session.rows(sql`SELECT pg_sleep(0.2)`);
    await delay(200);
    return session.rows(sql`SELECT current_setting('lock_timeout') AS lock_timeout`);
  });
  expect(rows).toEqual([{ lock_timeout: "0" }]);
});

test("a server that doesn't answer a lock's statement in time is not reachable, which is no unexpected error", async () => {
  const { url } = await freshDatabase();
  const { db } = open(url);
  await expect(db.lockTransaction((session) => session.rows(sql`SELECT pg_sleep(7)`))).rejects.toMatchObject({
    code: "database_unreachable",
    message: expect.stringContaining("it does not respond"),
  });
});

test("a server that accepts no changes is waited for like one that is down, and left for the one that does", async () => {
  const { url } = await freshDatabase();
  const { db, migrate } = open(url);
  await migrate();
  const admin = await connect(url);
  const name = new URL(url).pathname.slice(1);
  await admin.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await admin.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
  );
  const write = () => db.transaction((session) => session.change(sql`CREATE TABLE public.written (id int)`));
  await expect(write()).rejects.toMatchObject({
    name: "StopRunError",
    code: "database_unreachable",
    message: expect.stringContaining("it accepts no changes: it is a standby"),
  });
  await admin.query(
    `SET default_transaction_read_only = off; ALTER DATABASE ${name} RESET default_transaction_read_only`,
  );
  // The setting of an open connection would stay.
  await write();
});

test(
  "people are found through a pooler with a single connection",
  async () => {
    const { url } = await freshDatabase();
    const pooler = await startPooler({ connections: 1 });
    onTestFinished(() => pooler.stop());
    const warehouse = open(pooler.through(url));
    await warehouse.migrate();
    const admin = await connect(url);
    await admin.query(`CREATE SCHEMA crm; CREATE TABLE crm.people (id int PRIMARY KEY, first_name text, email text);
    INSERT INTO crm.people VALUES (1, 'Ann', 'ann@example.com')`);
    const input = { ...people, fields: { emails: ["email"] } };
    const found = await warehouse.findPeople({ pids: [], emails: ["ann@example.com"], rows: [] }, [input]);
    expect(found.people.rows).toEqual([{ source: people.name, sourceKey: "1" }]);
  },
  POOLER_TIMEOUT_MS,
);

test("an unexpected error of the database names it, its SQLSTATE and where to look, but no value", async () => {
  const { db } = open((await freshDatabase()).url);
  const error: unknown = await db
    .transaction((session) => session.rows(sql`SELECT 'Ann'::int`))
    .catch((e) => e);
  expect(unexpectedMessage(error, "selecting what is due")).toMatch(
    /^The warehouse \(Postgres at [^)]+\) reported an unexpected error while selecting what is due \(SQLSTATE 22P02, data exception\)\. The log of the database server has its message and statement; fix the cause and run again\. Completed work is kept\.$/u,
  );
});

test("a failure of the server itself names the database, the server's message and the next step", async () => {
  const { db } = open((await freshDatabase()).url);
  const error: unknown = await db
    .transaction((session) => session.rows(sql`LOAD 'gone_4711'`))
    .catch((e) => e);
  expect(error).toMatchObject({ name: "StopRunError", code: "database_failed" });
  expect(String(error)).toMatch(
    /The warehouse \(Postgres at [^)]+\) failed: could not access file "gone_4711": No such file or directory \(SQLSTATE 58P01, undefined file\)\. The server can't use its own files, .*: restart or repair it, then run again\. Completed work is kept\.$/u,
  );
});
