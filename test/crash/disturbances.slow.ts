import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { makeFolder, runJson, startCli } from "../cli/support/cli.ts";
import { setFaults, stopAtRest, untilCalled } from "../cli/support/controls.ts";
import { type Setting } from "../cli/support/setting.ts";
import { givePort } from "../support/embedded-files.ts";
import { startHolder } from "../support/embedded-process.ts";
import { passMidnight } from "../support/held-day.ts";
import {
  finish,
  newTotals,
  prepareCase,
  recordsCarriedOut,
  recordsInDoubt,
  RUN,
  setStage,
  type Stage,
  printTotals,
} from "./kill-support.ts";
import { runSql } from "../support/run-sql.ts";

const totals = newTotals();
let stage: Stage;
beforeAll(async () => {
  stage = await setStage();
});
afterAll(() => {
  printTotals("disturbed otherwise", totals);
});

/** Terminates every session in the middle of a statement or transaction, COMMIT included. */
async function terminateSessions({ url }: Setting): Promise<void> {
  await runSql(
    url,
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'`,
  );
}

describe("a run", () => {
  test.each([1, 2, 3])(
    "whose sessions are terminated again and again ends, or the next one ends it (%i)",
    async (seed) => {
      const setting = await prepareCase(stage.sandbox);
      const { child, result } = startCli(RUN, setting);
      await delay(700);
      for (let i = 0; i < 12 && child.exitCode === null; i++) {
        await terminateSessions(setting);
        await delay(20 + ((seed * 37 + i * 53) % 130));
      }
      await result;
      expect(await finish(stage, setting, totals)).toEqual([]);
    },
  );

  test.each([300, 1500])(
    "whose database is killed after %i ms resumes with every answer it received",
    async (afterMs) => {
      const dataDir = await makeFolder();
      await givePort(dataDir);
      const holder = await startHolder(dataDir);
      const own: Setting = {
        cwd: await makeFolder(),
        env: { WAREHOUSE_URL: holder.url, PERSON_SERVICE_API_KEY: "k" },
        url: holder.url,
        query: (sql) => runSql(holder.url, sql),
      };
      const setting = await prepareCase(stage.sandbox, "", own);
      const { result } = startCli(RUN, setting);
      await delay(600 + afterMs);
      const [server] = await runSql(
        holder.superuserUrl,
        "SELECT setting FROM pg_settings WHERE name = 'data_directory'",
      );
      const postmaster = Number(
        (await readFile(join(String(server?.["setting"]), "postmaster.pid"), "utf8")).split("\n")[0],
      );
      process.kill(postmaster, "SIGKILL");
      await holder.kill();
      await delay(500);
      const again = await startHolder(dataDir);
      expect(again.url).toBe(holder.url);
      await result;
      expect(await finish(stage, setting, totals)).toEqual([]);
    },
  );

  test("that is stopped for longer than its lock lasts commits nothing once another took over", async () => {
    const setting = await prepareCase(stage.sandbox);
    const env = { ...setting.env, PERSON_ETL_LOCK_LIFE_MS: "1000" };
    // Delays all answers but the first: the run is stopped while they are in flight.
    await setFaults(stage.sandbox, "slow=4000#2-");
    const { child, result } = startCli(RUN, { ...setting, env });
    await untilCalled(stage.sandbox, 2, child);
    await stopAtRest(child, setting);
    await setFaults(stage.sandbox, "");
    await delay(1500);
    // Another machine has its own spool.
    const other = await makeFolder({
      "config.yaml": await readFile(join(setting.cwd, "config.yaml"), "utf8"),
    });
    const second = await runJson(["run", "--yes", "--wait"], { cwd: other, env });
    // In flight at the stop; their answers arrive once it continues.
    const underWay = await recordsInDoubt(setting);
    expect(underWay).toBeGreaterThan(0);
    child.kill("SIGCONT");
    // It finds the job held by another process.
    expect([(await result).code, second.code]).toEqual([4, 0]);
    expect(await finish(stage, setting, totals, { underWay })).toEqual([]);
  });

  test("next to another on the same warehouse sends nothing that the other sends", async () => {
    const setting = await prepareCase(stage.sandbox);
    const other = await makeFolder({
      "config.yaml": await readFile(join(setting.cwd, "config.yaml"), "utf8"),
    });
    const both = [startCli(RUN, setting), startCli(RUN, { ...setting, cwd: other })];
    const ends = await Promise.all(both.map(({ result }) => result));
    // Each job is done by one of them; a process skips a job held by the other one.
    for (const { code } of ends) expect([0, 4]).toContain(code);
    const twice = totals.sentTwice;
    expect(await finish(stage, setting, totals)).toEqual([]);
    expect(totals.sentTwice).toBe(twice);
  });

  test.each([1, 2])("with a budget keeps to it through kills (%i)", async (seed) => {
    await passMidnight();
    const budget = "budgets: { enrich: { per_day: 700 } }\n";
    const setting = await prepareCase(stage.sandbox, budget);
    for (let kill = 0; kill < 3; kill++) {
      const { child, result } = startCli(RUN, setting);
      const timer = setTimeout(() => child.kill("SIGKILL"), 900 + ((seed * 311 + kill * 197) % 900));
      await result;
      clearTimeout(timer);
    }
    const { code, document } = await runJson(["run", "--yes"], setting);
    expect([code, document.status]).toEqual([0, "limited"]);
    const carriedOut = await recordsCarriedOut(stage.sandbox, "/v2/enrich");
    expect(carriedOut).toBeLessThanOrEqual(700);
    const file = join(setting.cwd, "config.yaml");
    await writeFile(file, (await readFile(file, "utf8")).replace(budget, ""));
    expect(await finish(stage, setting, totals)).toEqual([]);
  });
});
