import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startCli } from "../cli/support/cli.ts";
import { configText } from "../cli/support/setting.ts";
import {
  COMPARED,
  finishKilled,
  JOBS,
  newTotals,
  resetSandbox,
  RUN,
  setStage,
  type Stage,
  tellTotals,
} from "../crash/kill-support.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { bigQueryOfRun } from "../support/test-bigquery.ts";
import { type BigQuerySetting, makeBigQuerySetting } from "./bigquery-setting.ts";
import { type Moment, openRequestDoor, type RequestDoor } from "./request-door.ts";

const bigQuery = await bigQueryOfRun();

/** Rows of the input: a call or two for each job. */
const ROWS = 600;
/** Another seed kills at other requests. */
const SEED = Number(process.env["PERSON_ETL_CRASH_SEED"] ?? 1);
/** Kills at requests to BigQuery. */
const KILLS = Number(process.env["PERSON_ETL_BIGQUERY_KILLS"] ?? 9);
/** A minute where an emulator has a machine for itself. */
const PATIENCE_MS = 1_200_000;
const MOMENTS: readonly Moment[] = ["before", "during", "after"];

/** Each step of a run with the time that it is reached: a time a job where rows are committed. */
const STEPS = [
  "after_send:3",
  "after_spool_fsync:2",
  "before_copy:1",
  "after_copy:3",
  "before_commit:2",
  "after_commit:1",
  "after_commit:3",
  "after_spool_removal:3",
  "before_checkpoint:1",
  "after_checkpoint:2",
] as const;

describe.runIf(bigQuery)("a run into BigQuery that is killed", () => {
  const totals = newTotals();
  let stage: Stage;
  beforeAll(async () => {
    // What a run into Postgres leaves behind.
    stage = await setStage(ROWS);
  });
  afterAll(() => {
    tellTotals(`killed with BigQuery (seed ${SEED})`, totals);
  });

  async function prepareCase(): Promise<BigQuerySetting> {
    if (!bigQuery) throw new Error("there is no BigQuery");
    await resetSandbox(stage.sandbox);
    const setting = await makeBigQuerySetting(bigQuery);
    await setting.createCustomers(ROWS);
    await configure(setting);
    return setting;
  }

  async function configure(setting: BigQuerySetting, through?: string): Promise<void> {
    const service = "  concurrency: 4\n";
    const warehouse = setting.warehouse(through);
    const config = configText({ baseUrl: stage.sandbox, service, jobs: JOBS, warehouse });
    await writeFile(join(setting.cwd, "config.yaml"), config);
  }

  async function finish(setting: BigQuerySetting): Promise<readonly string[]> {
    setting.hasRun();
    const contents = () => setting.contents(COMPARED);
    const wrong = await finishKilled(stage, { ...setting, contents }, totals);
    const staging = await setting.staging();
    return staging.length === 0 ? wrong : [...wrong, `left: ${staging.join(", ")}`];
  }

  test.each(STEPS)(
    "at %s, is finished by the next one",
    async (at) => {
      const setting = await prepareCase();
      const { child, result } = startCli(RUN, {
        ...setting,
        env: { ...setting.env, PERSON_ETL_CRASH_AT: at },
      });
      await result;
      expect(child.signalCode).toBe("SIGKILL");
      expect(await finish(setting)).toEqual([]);
    },
    PATIENCE_MS,
  );

  describe.runIf(bigQuery?.apiEndpoint)("at any request to BigQuery", () => {
    let door: RequestDoor;
    let requests = 0;
    beforeAll(async () => {
      door = await openRequestDoor(bigQuery?.apiEndpoint ?? "");
      const setting = await prepareCase();
      await configure(setting, door.url);
      const { code, stdout } = await startCli(RUN, setting).result;
      if (code !== 0) throw new Error(stdout);
      requests = door.seen.length;
    });

    test.each(Array.from({ length: KILLS }, (_, index) => [index]))(
      "before it, during or after, is finished by the next one (%i)",
      async (index) => {
        const random = seededRandom(SEED, index);
        // One in every part of the run.
        const at = Math.floor(((index + random.next()) / KILLS) * requests);
        const moment = MOMENTS[(index + SEED) % MOMENTS.length] ?? "before";
        const setting = await prepareCase();
        await configure(setting, door.url);
        const { child, result } = startCli(RUN, setting);
        door.interrupt(at, moment, () => child.kill("SIGKILL"));
        await result;
        const where = `${moment} request ${at} of ${requests}: ${door.seen.at(-1)}`;
        expect([where, child.signalCode]).toEqual([where, "SIGKILL"]);
        await configure(setting);
        expect([where, await finish(setting)]).toEqual([where, []]);
      },
      PATIENCE_MS,
    );
  });

  test("lost nothing, doubled nothing, and sent no more twice than was under way", () => {
    expect([totals.lost, totals.doubled]).toEqual([0, 0]);
    expect(totals.sentTwice).toBeLessThanOrEqual(totals.mostSentTwice);
  });
});
