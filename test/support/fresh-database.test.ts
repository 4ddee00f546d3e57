import { Client } from "pg";
import { expect, test } from "vitest";
import { createDatabase } from "./fresh-database.ts";

test("every fresh database is empty, writable and separate", async () => {
  const [one, other] = [await createDatabase(), await createDatabase()];
  const client = new Client({ connectionString: one.url });
  await client.connect();
  await client.query("CREATE TABLE here (id int); INSERT INTO here VALUES (1)");
  expect((await client.query("SELECT * FROM here")).rows).toEqual([{ id: 1 }]);
  await client.end();

  const second = new Client({ connectionString: other.url });
  await second.connect();
  expect((await second.query("SELECT to_regclass('here') AS here")).rows).toEqual([{ here: null }]);
  expect((await second.query("SHOW server_encoding")).rows).toEqual([{ server_encoding: "UTF8" }]);
  await second.end();
  await one.release();
  await other.release();
});

test("a released database is removed although a session is open", async () => {
  const database = await createDatabase();
  const client = new Client({ connectionString: database.url });
  client.on("error", () => {});
  await client.connect();
  await database.release();
  await expect(new Client({ connectionString: database.url }).connect()).rejects.toMatchObject({
    code: "3D000",
  });
});
