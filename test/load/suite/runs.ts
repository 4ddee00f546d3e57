import { setTimeout as delay } from "node:timers/promises";
import { asWriter } from "../../../src/load/runs/register-writer.ts";
import { randomUUID } from "node:crypto";
import { describe, expect, onTestFinished, test } from "vitest";
import { enrichSpec, makePeople, resolveSpec } from "./people.ts";
import { begin, countersOf, endOf, matchAll, runNight, runOf, tester } from "./nights.ts";
import { columnOf, type Context, type GetContext, valueOf } from "./context.ts";
import { commitPeople } from "./commits.ts";

const spec = enrichSpec();

/** Changes entries of `sync_run` as they are made, until the end of the test: later they are locked. */
async function changeEntries(context: Context, statement: string): Promise<void> {
  const change = "person_data_state.change_entry";
  await context.sql(`CREATE FUNCTION ${change}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ${statement.replaceAll("'", "''")} RETURN NEW; END';
    CREATE TRIGGER change_entry BEFORE INSERT ON person_data_ops.sync_run FOR EACH ROW EXECUTE FUNCTION ${change}()`);
  onTestFinished(async () => void (await context.sql(`DROP FUNCTION ${change} CASCADE`)));
}

/** Tests of runs and table freshness. */
export function describeRuns(getContext: GetContext): void {
  describe("runs", () => {
    test("restarted under their id reset their totals", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = await begin(warehouse, spec, "run-1");
      await warehouse.recordAttempts(run, [], { records_read: 10, records_unchanged: 4 });
      await warehouse.beginRun(run);
      await warehouse.recordAttempts(run, [], { records_read: 10, records_unchanged: 6 });
      expect(
        await context.sql("SELECT records_read, records_unchanged FROM person_data_ops.sync_run"),
      ).toEqual([{ records_read: "10", records_unchanged: "6" }]);
    });

    test("the due count is recorded before anything is sent", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = runOf(spec, "run-1");
      await warehouse.beginRun(run);
      await warehouse.recordFound(run, { records_due: 17 });
      expect(await warehouse.lastRuns("enrich_people", 5)).toEqual([
        {
          runId: "run-1",
          job: "enrich_people",
          shard: "0/1",
          jobType: "enrich",
          status: "running",
          limitedBy: null,
          startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/),
          finishedAt: null,
          recordsDue: 17,
          counters: countersOf({}),
          error: null,
        },
      ]);
    });

    test("are listed newest first, by job", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      for (const runId of ["a", "c", "b"]) await runNight(context, spec, matchAll, { runId });
      await runNight(context, resolveSpec(), matchAll, { runId: "d" });
      const runs = await context.warehouse.lastRuns("enrich_people", 2);
      expect(runs.map((run) => run.runId)).toEqual(["b", "c"]);
    });

    test("open rejects are counted by code, and the last success is reported", async () => {
      const context = getContext();
      await makePeople(context, [
        { id: "1" },
        { id: "2" },
        { id: null, first_name: "Ann" },
        { id: "3", email: "x" },
      ]);
      await runNight(context, spec, matchAll);
      const status = await context.warehouse.jobStatus("enrich_people");
      expect(status.openRejects).toEqual({ missing_key: 1, no_identifier: 2 });
      expect(status.lastSuccessAt).toMatch(/Z$/);
      expect(await context.warehouse.jobStatus("never_ran")).toEqual({
        job: "never_ran",
        lastRun: null,
        lastPass: [],
        lastSuccessAt: null,
        coverage: null,
        openRejects: {},
        holders: [],
      });
    });
  });

  describe("table_freshness", () => {
    test("reports when each table was last confirmed and last changed", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, spec, matchAll);
      const first = await context.warehouse.tableFreshness();
      expect(first.map((row) => row.tableName)).toContain("person_address");
      const enrichment = first.find((row) => row.tableName === "enrichment");
      expect(enrichment?.lastSuccessAt).toMatch(/Z$/);
      expect(enrichment?.lastChangedAt).toBe(
        (await valueOf(context, "SELECT max(_synced_at) FROM person_data.enrichment"))
          ?.replace(" ", "T")
          .replace("+00", "Z"),
      );
      expect(first.find((row) => row.tableName === "person")?.lastChangedAt).toBe(null);
      await runNight(context, spec);
      const second = (await context.warehouse.tableFreshness()).find((row) => row.tableName === "enrichment");
      expect(second?.lastChangedAt).toBe(enrichment?.lastChangedAt);
      expect(second?.lastSuccessAt).not.toBe(enrichment?.lastSuccessAt);
    });

    test("is safe up to the start of a run that is under way, and up to now when none is", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, spec, matchAll);
      const safeUntil = () => valueOf(context, "SELECT min(safe_until) FROM person_data_ops.table_freshness");
      const isSafe = (time: string) =>
        valueOf(context, `SELECT bool_and(safe_until > ${time}) FROM person_data_ops.table_freshness`);
      const newest = "(SELECT max(_synced_at) FROM person_data.person)";
      const run = runOf(spec, randomUUID());
      await warehouse.beginRun(run);
      const open = await safeUntil();
      expect(await isSafe("(SELECT max(_synced_at) FROM person_data.enrichment)")).toBe("true");
      expect(await safeUntil()).toBe(open);
      await warehouse.commitLookup({ ...(await commitPeople(context, ["p-9"])), run });
      expect(await safeUntil()).toBe(open);
      expect(await isSafe(newest)).toBe("false");
      const selection = await warehouse.selectLookup(spec, run);
      await selection.close();
      await warehouse.endRun(run, endOf(selection.counts), null);
      expect(await isSafe(newest)).toBe("true");
    });

    test("is safe up to the start of a command that writes", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, spec, matchAll);
      const bound =
        "SELECT min(safe_until) <= now() - interval '100 milliseconds' FROM person_data_ops.table_freshness";
      const during = await asWriter(context.warehouse.db, "erase", async () => {
        await delay(150);
        return valueOf(context, bound);
      });
      expect([during, await valueOf(context, bound)]).toEqual(["true", "false"]);
      expect(
        await context.sql("SELECT job, job_type, status FROM person_data_ops.sync_run WHERE job = 'erase'"),
      ).toEqual([{ job: "erase", job_type: "erase", status: "succeeded" }]);
    });

    test("isn't held back by a command that was killed, once another run begins", async () => {
      const context = getContext();
      const statuses = () =>
        columnOf(context, "SELECT status FROM person_data_ops.sync_run WHERE job = 'erase' ORDER BY 1");
      const backdate = "UPDATE person_data_ops.sync_run SET started_at = started_at - interval '1 minute'";
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      await runNight(context, spec, matchAll);
      await context.sql(`INSERT INTO person_data_ops.sync_run SELECT (jsonb_populate_record(r, '{"run_id": "killed",
        "job": "erase", "job_type": "erase", "status": "running"}')).* FROM person_data_ops.sync_run AS r`);
      await context.sql(backdate);
      await changeEntries(context, "NEW.started_at := NEW.started_at - interval '1 minute';");
      const during = await asWriter(context.warehouse.db, "erase", async () => {
        const job = { job: "another_job", jobType: "enrich", shard: "0/1", runId: "next" };
        await context.warehouse.acquireLock({ ...job, process: tester, lifeMs: 3_600_000, dead: [] });
        return statuses();
      });
      expect(during).toEqual(["failed", "running"]);
      expect(await statuses()).toEqual(["failed", "succeeded"]);
      const age =
        "SELECT min(safe_until) > now() - interval '30 seconds' FROM person_data_ops.table_freshness";
      expect(await valueOf(context, age)).toBe("true");
    });

    test("a command that was taken for killed writes nothing", async () => {
      const context = getContext();
      await changeEntries(context, "NEW.status := 'failed';");
      const command = asWriter(context.warehouse.db, "rejects", async (session) => {
        await session.client.query("CREATE TABLE person_data_state.written_late ()");
      });
      await expect(command).rejects.toMatchObject({ code: "writer_suspended" });
      expect(await valueOf(context, "SELECT to_regclass('person_data_state.written_late')")).toBe(null);
    });
  });
}
