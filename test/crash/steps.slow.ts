import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { makeFolder, startCli } from "../cli/support/cli.ts";
import { runSql } from "../support/run-sql.ts";
import { partOf, sized } from "../support/test-size.ts";
import { startOwnDatabase } from "./day-support.ts";
import { finish, openTotals, prepareCase, RUN, setStage, type Stage, STEPS } from "./kill-support.ts";

/** In part, a third of the points, reached one, two or three times. */
const CASES = partOf([...STEPS.entries()], 3).flatMap(([i, point]) =>
  sized([1 + (i % 3)], [1, 2, 3]).map((count) => [point, count] as const),
);

const totals = openTotals("killed at every step");
let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
});

describe("a run that is killed", () => {
  test.each(CASES)("at %s, the %i. time, is finished by the next one", async (point, count) => {
    const setting = await prepareCase(stage.sandbox);
    const env = { ...setting.env, PERSON_ETL_CRASH_AT: `${point}:${count}` };
    const { child, result } = startCli(RUN, { ...setting, env });
    await result;
    expect(child.signalCode).toBe("SIGKILL");
    expect(await finish(stage, setting, totals)).toEqual([]);
  });
});

test("a run whose sessions are terminated again and again ends, or the next one ends it", async () => {
  const setting = await prepareCase(stage.sandbox);
  const { child, result } = startCli(RUN, setting);
  await delay(700);
  for (let i = 0; i < 12 && child.exitCode === null; i++) {
    // In the middle of a statement or transaction, COMMIT included.
    await setting.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`);
    await delay(20 + ((i * 53) % 130));
  }
  await result;
  expect(await finish(stage, setting, totals)).toEqual([]);
});

test("a run whose database is killed resumes with every answer it received", async () => {
  const server = await startOwnDatabase();
  const { url } = server;
  const query = (sql: string) => runSql(url, sql);
  const env = { WAREHOUSE_URL: url, PERSON_SERVICE_API_KEY: "k" };
  const setting = await prepareCase(stage.sandbox, { cwd: await makeFolder(), env, url, query });
  const { result } = startCli(RUN, setting);
  await delay(1500);
  await server.crash(500);
  await result;
  expect(await finish(stage, setting, totals)).toEqual([]);
});
