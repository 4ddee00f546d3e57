import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { SchedulerProcess, SlotClaim } from "../../../src/load/runs/schedule-slots.ts";
import type { Retention } from "../../../src/load/runs/remove-old.ts";
import { retentionRuleOf, type RetainedTable } from "../../../src/schemas/retention.ts";
import { columnOf, type GetContext, valueOf } from "./context.ts";

const LONG_MS = 3_600_000;
const DAY_MS = 86_400_000;

const scheduler = (owner: string): SchedulerProcess => ({ owner, host: "node-1", pid: 4711 });

/** Slot at 01:15 of a day in November. */
function claimOf(job: string, day: number, runId = `run-${job}-${day}`): SlotClaim {
  return {
    job,
    slot: `2026-11-${day}T01:15 UTC`,
    dueAt: `2026-11-${day}T01:15:00Z`,
    runId,
  };
}

/** SQL for the time `days` days ago. */
const at = (days: number) => `now() - interval '${days} days'`;

/** Current state of one job. */
const job = (state: string) => [{ subject: "job enrich", state }];

function keep(table: RetainedTable, days: number): Retention {
  const rule = retentionRuleOf(table);
  if (!rule) throw new Error(`no rule for ${table}`);
  return { rule, keepMs: days * DAY_MS };
}

/** Tests of several schedulers that share slots. */
export function describeSchedule(getContext: GetContext): void {
  describe("slots of a schedule", () => {
    test("are granted to one of many who claim them at the same time", async () => {
      const { warehouse } = getContext();
      const owners = ["one", "two", "three", "four", "five", "six"];
      const claims = [claimOf("resolve", 21), claimOf("enrich", 21)];
      const granted = await Promise.all(
        owners.map((owner) => warehouse.claimSlots(claims, scheduler(owner), LONG_MS)),
      );
      const jobs = granted.flat().map(({ job }) => job);
      expect(jobs.toSorted()).toEqual(["enrich", "resolve"]);
      expect(await warehouse.newestSlots()).toMatchObject([
        { job: "enrich", status: "claimed", isHeld: true, dueAt: "2026-11-21T01:15:00Z" },
        { job: "resolve", status: "claimed", isHeld: true, runId: "run-resolve-21" },
      ]);
    });

    test("that are held by a scheduler whose heartbeat lies far in the future are granted: the clock was ahead", async () => {
      const context = getContext();
      const { warehouse } = context;
      await warehouse.claimSlots([claimOf("resolve", 21)], scheduler("ahead"), 30_000);
      await context.sql(`UPDATE person_data_state.schedule_slot SET _synced_at = _synced_at + interval '1 h',
        expires_at = expires_at + interval '1 h'`);
      expect(await warehouse.newestSlots()).toMatchObject([{ job: "resolve", isHeld: false }]);
      expect(await warehouse.claimSlots([claimOf("resolve", 21)], scheduler("two"), 30_000)).toHaveLength(1);
    });

    test("that are finished, held, or older than a known one are granted to no one", async () => {
      const { warehouse } = getContext();
      const [one, two] = [scheduler("one"), scheduler("two")];
      await warehouse.claimSlots([claimOf("resolve", 21)], one, LONG_MS);
      expect(await warehouse.claimSlots([claimOf("resolve", 22)], two, LONG_MS)).toEqual([]);
      await warehouse.endSlots("one", [{ ...claimOf("resolve", 21), status: "succeeded" }]);
      expect(await warehouse.claimSlots([claimOf("resolve", 21)], two, LONG_MS)).toEqual([]);
      expect(await warehouse.claimSlots([claimOf("resolve", 20)], two, LONG_MS)).toEqual([]);
      expect(await warehouse.claimSlots([claimOf("resolve", 22)], two, LONG_MS)).toHaveLength(1);
      expect(await warehouse.newestSlots()).toMatchObject([{ job: "resolve", isHeld: true, endedAt: null }]);
    });

    test("that were released resume under the id of their first run", async () => {
      const { warehouse } = getContext();
      await warehouse.claimSlots([claimOf("resolve", 21, "first-run")], scheduler("one"), LONG_MS);
      await warehouse.endSlots("one", [{ ...claimOf("resolve", 21), status: null }]);
      expect(await warehouse.newestSlots()).toMatchObject([{ status: "given_back", isHeld: false }]);
      const again = await warehouse.claimSlots(
        [claimOf("resolve", 21, "second-run")],
        scheduler("two"),
        LONG_MS,
      );
      expect(again).toEqual([{ job: "resolve", slot: "2026-11-21T01:15 UTC", runId: "first-run" }]);
    });

    test("of a scheduler that died are claimed again, or missed once a newer one is due", async () => {
      const context = getContext();
      const { warehouse } = context;
      const claims = [claimOf("resolve", 21), claimOf("enrich", 21)];
      await warehouse.claimSlots(claims, scheduler("dead"), LONG_MS);
      expect(await warehouse.claimSlots(claims, scheduler("two"), LONG_MS)).toEqual([]);
      await context.sql(
        "UPDATE person_data_state.schedule_slot SET expires_at = claimed_at WHERE owner = 'dead'",
      );
      const again = [claimOf("resolve", 21), claimOf("enrich", 22)];
      expect(await warehouse.claimSlots(again, scheduler("two"), LONG_MS)).toHaveLength(2);
      // Its late end has no effect.
      await warehouse.endSlots("dead", [{ ...claimOf("resolve", 21), status: "succeeded" }]);
      expect(
        await columnOf(
          context,
          "SELECT concat(job, ' ', slot, ' ', status, ' ', owner) FROM person_data_state.schedule_slot ORDER BY 1",
        ),
      ).toEqual([
        "enrich 2026-11-21T01:15 UTC missed dead",
        "enrich 2026-11-22T01:15 UTC claimed two",
        "resolve 2026-11-21T01:15 UTC claimed two",
      ]);
    });

    test("are extended by heartbeats", async () => {
      const { warehouse } = getContext();
      await warehouse.claimSlots([claimOf("resolve", 21)], scheduler("one"), 300);
      await warehouse.renewSlots("one", LONG_MS);
      await delay(350);
      expect(await warehouse.claimSlots([claimOf("resolve", 21)], scheduler("two"), LONG_MS)).toEqual([]);
    });

    test("count from when a job is first watched, which is recorded once", async () => {
      const { warehouse } = getContext();
      await warehouse.watchJobs(["resolve"], "2026-11-21T04:00:00Z", scheduler("one"));
      await warehouse.watchJobs(["resolve", "enrich"], "2026-11-22T04:00:00Z", scheduler("two"));
      expect(await warehouse.newestSlots()).toMatchObject([
        { job: "enrich", slot: "first", status: "watched", dueAt: "2026-11-22T04:00:00Z", isHeld: false },
        { job: "resolve", slot: "first", status: "watched", dueAt: "2026-11-21T04:00:00Z", isHeld: false },
      ]);
      expect(await warehouse.claimSlots([claimOf("resolve", 22)], scheduler("one"), LONG_MS)).toHaveLength(1);
    });
  });

  describe("states of alerts", () => {
    test("are reported once per change, to one of many", async () => {
      const { warehouse } = getContext();
      expect(await warehouse.changeStates(job("ok"), "run-1")).toEqual([]);
      const reported = await Promise.all(
        Array.from({ length: 6 }, () => warehouse.changeStates(job("failed"), "run-2")),
      );
      expect(reported.flat()).toEqual([{ subject: "job enrich", state: "failed", before: "ok" }]);
      expect(await warehouse.changeStates(job("failed"), "run-3")).toEqual([]);
      expect(await warehouse.changeStates(job("ok"), "run-4")).toEqual([
        { subject: "job enrich", state: "ok", before: "failed" },
      ]);
    });

    test("that were not delivered are retried, unless they have changed back", async () => {
      const { warehouse } = getContext();
      const changes = await warehouse.changeStates(job("failed"), "run-1");
      await warehouse.unmarkReported(changes);
      expect(await warehouse.changeStates(job("failed"), "run-2")).toEqual(changes);
      await warehouse.unmarkReported(changes);
      expect(await warehouse.changeStates(job("ok"), "run-3")).toEqual([]);
    });
  });

  describe("what is no longer kept", () => {
    test("is removed by age; open rejects and the newest run of each end stay", async () => {
      const context = getContext();
      const counters = (await columnOf(
        context,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'sync_run' AND column_name LIKE 'records%' ORDER BY 1",
      )) as string[]; // names are never null
      const zero = [...counters, "rows_written", "requests", "retries", "possibly_billed_twice"];
      for (const [id, days, status] of [
        ["old", 50, "succeeded"],
        ["older", 60, "succeeded"],
        ["failed", 70, "failed"],
        ["new", 1, "limited"],
      ] as const) {
        await context.sql(`INSERT INTO person_data_ops.sync_run (run_id, job, shard, job_type, status, started_at, finished_at,
          _synced_at, ${zero.join(", ")}) VALUES ('${id}', 'enrich', '0/1', 'enrich', '${status}', ${at(days)}, ${at(days)},
          ${at(days)}, ${zero.map(() => "0").join(", ")})`);
      }
      for (const [key, resolved] of [
        ["open", "NULL"],
        ["resolved", at(50)],
      ] as const) {
        await context.sql(`INSERT INTO person_data.reject (reject_id, run_id, job, source, source_key, stage, code, message,
          created_at, resolved_at, _synced_at) VALUES ('00000000-0000-4000-8000-00000000000${key.length}', 'old', 'enrich',
          'customers', '${key}', 'send', 'no_identifier', 'm', ${at(60)}, ${resolved}, ${at(60)})`);
      }
      expect(await context.warehouse.removeOld([keep("sync_run", 30), keep("reject", 30)])).toEqual({
        sync_run: 1,
        reject: 1,
      });
      expect(
        await columnOf(
          context,
          "SELECT run_id FROM person_data_ops.sync_run WHERE job <> 'retention' ORDER BY 1",
        ),
      ).toEqual(["failed", "new", "old"]);
      expect(await valueOf(context, "SELECT source_key FROM person_data.reject")).toBe("open");
      const registered = "SELECT count(*) FROM person_data_ops.sync_run WHERE job = 'retention'";
      expect(await valueOf(context, registered)).toBe("1");
      await context.warehouse.removeOld([keep("sync_run", 30), keep("reject", 30)]);
      expect(await valueOf(context, registered)).toBe("1");
    });

    test("has a rule for every table named in it that is declared", async () => {
      const { warehouse } = getContext();
      const retentions = (["match_history", "api_call", "input_coverage"] as const).map((table) =>
        keep(table, 30),
      );
      expect(await warehouse.removeOld(retentions)).toEqual({
        match_history: 0,
        api_call: 0,
        input_coverage: 0,
      });
    });
  });
}
