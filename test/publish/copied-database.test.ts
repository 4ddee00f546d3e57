import { randomBytes } from "node:crypto";
import { expect, inject, onTestFinished, test } from "vitest";
import { publishDestination } from "../../src/jobs/publish/publish-destination.ts";
import { readCopiedDestinations, takeOverDestinations } from "../../src/load/publication/registration.ts";
import { runSql } from "../support/run-sql.ts";
import { createMemoryDestination } from "./memory-destination.ts";
import { openDefaultDb } from "../load/postgres-context.ts";
import { openSourceContext } from "./publication-context.ts";

/** Copies a database as for staging, and opens the copy. */
async function openCopy(url: string) {
  const name = `copy_${randomBytes(6).toString("hex")}`;
  const copy = new URL(url);
  const original = copy.pathname.slice(1);
  copy.pathname = `/${name}`;
  const terminate = `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${original}'`;
  await runSql(inject("postgresUrl"), terminate);
  await runSql(inject("postgresUrl"), `CREATE DATABASE ${name} TEMPLATE ${original}`);
  const db = openDefaultDb(copy.href);
  onTestFinished(async () => {
    await db.close();
    await runSql(inject("postgresUrl"), `DROP DATABASE ${name} WITH (FORCE)`);
  });
  return { db, url: copy.href };
}

const change = (url: string, name: string) =>
  runSql(url, `UPDATE person_data.person SET full_name = '${name}', _synced_at = now(), _run_id = ''`);

test("a copy of the database publishes nothing to its destination before it is accepted as moved", async () => {
  const source = await openSourceContext();
  const target = createMemoryDestination();
  const publication = await source.publicationTo(target);
  await source.sql("INSERT INTO person_data.person (service_pid, full_name) VALUES ('p1', 'Ada')");
  await publishDestination(publication);
  const { url } = source.context;
  onTestFinished(() => source.close());
  const copy = await openCopy(url);
  const db = openDefaultDb(url);
  onTestFinished(() => db.close());
  const [original, theirs] = [
    { ...publication, db },
    { ...publication, db: copy.db },
  ];
  const published = () => [...target.rows("person").values()].map((row) => row["full_name"]);

  await change(copy.url, "Copy");
  await expect(publishDestination(theirs)).rejects.toMatchObject({ code: "publication_refused" });
  expect([await readCopiedDestinations(copy.db), await readCopiedDestinations(db)]).toEqual([["memory"], []]);
  await change(url, "Original");
  await publishDestination(original);
  expect(published()).toEqual(["Original"]);

  // A move: the former database doesn't publish any more.
  const moved = await copy.db.transaction((session) => takeOverDestinations(session));
  expect([moved, await readCopiedDestinations(copy.db)]).toEqual([["memory"], []]);
});
