import { readdir, rename } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { reportWaiting, spoolRoot } from "../../../src/jobs/lookup/job-spool.ts";
import { configOf, jobOf, repeats, startWorld, unaccountedRows, type World } from "../world.ts";

const config = configOf("\n  enrich_customers: { type: enrich, input: customers }");

/** Raises an error of this class when the ledger entry of an answer with results is written. */
const refuseAnswers = (sqlstate: string) => `
  CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''${sqlstate}''; END';
  CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON person_data_ops.api_call FOR EACH ROW
  WHEN (NEW.records_matched IS NOT NULL) EXECUTE FUNCTION refuse()`;

/** Paths of all files in the spool, below its root. */
async function spooledFiles(world: World): Promise<string[]> {
  const root = spoolRoot(await world.config());
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** A world whose run `first` received one answer and couldn't commit it. */
async function startWithAnswer() {
  const world = await startWorld({ rows: 60, config });
  await world.run({ maxRecords: 0 });
  await world.rows(refuseAnswers("P0001"));
  expect(jobOf(await world.run({ runId: "first" }), "enrich_customers").status).toBe("failed");
  await world.rows("DROP FUNCTION refuse CASCADE");
  const [file = "", ...others] = await spooledFiles(world);
  expect(others).toEqual([]);
  return { world, file };
}

/** Enrich calls that the service received. */
async function requestsOf(world: World): Promise<number> {
  // Answer of the sandbox's controls.
  const ledger = (await world.control("/ledger")) as { endpoints: Record<string, { requests: number }> };
  return ledger.endpoints["POST /v2/enrich"]?.requests ?? 0;
}

describe("an answer that can't be committed", () => {
  test("keeps no mark if another cause made it fail", async () => {
    const { file } = await startWithAnswer();
    expect(basename(file)).toMatch(/^\d{8}T\d{9}Z-[0-9a-f-]{36}\.call$/u);
  });

  test.each([1, 2])("is loaded although %s loads of it ended in a crash", async (tries) => {
    const { world, file } = await startWithAnswer();
    await rename(file, file.replace(".call", `.try${tries}.call`));
    const job = jobOf(await world.run({ runId: "second" }), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0 });
    expect(await spooledFiles(world)).toEqual([]);
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
  });

  test("is quarantined after three crashes: its records are rejected, nothing is sent again or blocked", async () => {
    const { world, file } = await startWithAnswer();
    const tried = file.replace(".call", ".try3.call");
    await rename(file, tried);
    const requests = await requestsOf(world);
    const job = jobOf(await world.run({ runId: "second" }), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0 });
    expect(unaccountedRows(job)).toBe(0);
    expect(await requestsOf(world)).toBe(requests);
    const quarantined = join(dirname(dirname(tried)), "quarantine", basename(tried));
    expect(await spooledFiles(world)).toEqual([quarantined]);
    const rejects = await world.rows(`SELECT code, stage, run_id, count(*) FROM person_data.reject
      WHERE code = 'answer_unloadable' GROUP BY 1, 2, 3`);
    expect(rejects).toEqual([
      {
        code: "answer_unloadable",
        stage: "load",
        run_id: "second",
        count: expect.stringMatching(/^[1-9]\d$/u),
      },
    ]);
    expect(await world.rows("SELECT possibly_billed FROM person_data_ops.api_call")).toEqual([
      { possibly_billed: "t" },
    ]);
    expect((await reportWaiting(await world.config(), null)).remarks).toMatchObject([
      {
        path: dirname(quarantined),
        message: "1 received answer of enrich_customers can't be loaded and is in quarantine",
      },
    ]);
  });
});
