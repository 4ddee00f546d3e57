import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { expect, type onTestFinished, test } from "vitest";
import type { Db } from "../../src/load/db/db.ts";
import type { Session } from "../../src/load/db/session.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { openDoor } from "../support/door.ts";
import { openWarehouse } from "../support/bound-load.ts";

/** Opens a warehouse behind a door that can go silent; `after` releases it. */
async function openThroughDoor(after: typeof onTestFinished) {
  const database = await createDatabase();
  after(() => database.release());
  const door = await openDoor(database.url, { isOpen: true, after });
  const { db } = openWarehouse({ url: door.url });
  after(() => db.pool.end());
  await db.transaction((session) => session.change(sql`CREATE TABLE public.counted AS SELECT 0 AS n`));
  return { door, db };
}

test.concurrent("a transaction whose connection goes silent is done again on another one, without the locks of the first", async ({
  onTestFinished,
}) => {
  const { door, db } = await openThroughDoor(onTestFinished);
  const attempts: number[] = [];
  const begun = performance.now();
  await db.transaction(async (session, attempt) => {
    attempts.push(attempt);
    await session.change(sql`UPDATE public.counted SET n = n + 1`);
    if (attempt === 1) door.silence();
    await session.change(sql`SELECT 1`);
  });
  expect(attempts).toEqual([1, 2]);
  expect(performance.now() - begun).toBeLessThan(120_000);
  expect(await db.transaction((session) => session.rows(sql`SELECT n FROM public.counted`))).toEqual([
    { n: 1 },
  ]);
});

/** Attempts that a transaction takes. */
async function attemptsOf(db: Db, work: (session: Session) => Promise<unknown>): Promise<readonly number[]> {
  const attempts: number[] = [];
  await db.transaction(async (session, attempt) => {
    attempts.push(attempt);
    await work(session);
  });
  return attempts;
}

test.concurrent("a statement that takes longer than silence may, and a transaction that waits for us, are left alone", async ({
  onTestFinished,
}) => {
  const { db } = await openThroughDoor(onTestFinished);
  const attempts = await Promise.all([
    attemptsOf(db, (session) => session.change(sql`SELECT pg_sleep(100)`)),
    attemptsOf(db, async (session) => {
      await delay(100_000);
      await session.change(sql`UPDATE public.counted SET n = 7`);
    }),
  ]);
  expect(attempts).toEqual([[1], [1]]);
});
