import { recordsOf } from "../../support/keyed-records.ts";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockLostError } from "../../../src/errors.ts";
import type { Warehouse } from "../../support/bound-load.ts";
import { tables } from "../../../src/schemas/registry.ts";
import { feedCommit, member } from "./feed-commits.ts";
import { callOf, commitOf, countersOf, runOf, tester } from "./nights.ts";
import { enrichSpec, makePeople, people } from "./people.ts";
import { looseRecord, wholePerson } from "./person-updates.ts";
import { columnOf, type GetContext, type Context, schemaNames } from "./context.ts";
import type { LockHolder, LockRequest } from "../../../src/load/runs/job-lock.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";

const spec = enrichSpec({ job: "locked_job" });

/** Lock request for `locked_job`; long-lived by default. */
function lockRequest(runId: string, changes: Partial<LockRequest> = {}): LockRequest {
  const run = { runId, job: spec.job, jobType: spec.type, shard: "0/1" };
  return { ...run, process: tester, lifeMs: 3_600_000, dead: [], ...changes };
}

/** Acquires a free lock. */
async function hold(
  warehouse: Warehouse,
  runId: string,
  changes: Partial<LockRequest> = {},
): Promise<RunRef> {
  const reply = await warehouse.acquireLock(lockRequest(runId, changes));
  if (reply.kind === "refused") throw new Error(`refused to ${runId}`);
  return reply.run;
}

async function holdersOf({ warehouse }: Context): Promise<readonly LockHolder[]> {
  return (await warehouse.jobStatus(spec.job)).holders;
}

/** Contents of our tables except the locks, and the names of all tables. */
async function everything(context: Context): Promise<Readonly<Record<string, unknown>>> {
  const contents: Record<string, unknown> = {};
  for (const table of tables.filter(({ name }) => name !== "job_lock")) {
    contents[table.name] = await context.sql(
      `SELECT * FROM ${schemaNames[table.schema]}.${table.name} AS t ORDER BY t`,
    );
  }
  return { ...contents, tables: await context.tableNames() };
}

/** Methods that take a run: a new one doesn't compile until this suite covers it. */
type RunMethod = Exclude<
  {
    [Name in keyof Warehouse]: Warehouse[Name] extends (...args: infer Args) => Promise<unknown>
      ? [Extract<Args[number], RunRef | { readonly run: RunRef }>] extends [never]
        ? never
        : Name
      : never;
  }[keyof Warehouse],
  // The lock itself, reads, and methods that change nothing in empty tables.
  "renewLock" | "releaseLock" | "runUse" | "clearListed" | "takeBatch" | "returnBatch"
>;

/** Work of every method for a run. */
const runMethods: Readonly<Record<RunMethod, (warehouse: Warehouse, run: RunRef) => Promise<unknown>>> = {
  beginRun: (warehouse, run) => warehouse.beginRun(run),
  selectLookup: (warehouse, run) => warehouse.selectLookup(spec, run),
  recordFound: (warehouse, run) => warehouse.recordFound(run, { records_due: 7 }),
  reserveCall: (warehouse, run) => {
    const call = {
      callId: randomUUID(),
      endpoint: "POST /v2/enrich",
      attempt: 1,
      records: 1,
    };
    const limits = { perDay: 10, perMonth: 10, perRun: 10, perShard: null };
    return warehouse.reserveCall(run, { ...call, startedAt: "2026-11-21T04:00:00Z", limits });
  },
  recordAttempts: (warehouse, run) => warehouse.recordAttempts(run, [callOf()], { requests: 1 }),
  commitLookup: (warehouse, run) =>
    warehouse.commitLookup(
      commitOf(warehouse, spec, run, [
        [looseRecord("Ann"), { pid: "p-1", person: wholePerson("p-1", { full_name: "Ann" }) }],
        [looseRecord("Bob"), { code: "unprocessable_entity" }],
      ]),
    ),
  readWanted: (warehouse, run) =>
    warehouse.readWanted(run, "s-1", {
      ...people,
      key: ["service_pid"],
      relation: { sql: "SELECT 'p-1' AS service_pid" },
      fields: {},
    }),
  noteListedPids: (warehouse, run) => warehouse.noteListedPids(run, "s-1", ["p-1"]),
  finishBatch: (warehouse, run) =>
    warehouse.finishBatch(feedCommit(run, { calls: [callOf()] }), {
      segmentId: "s-1",
      change: "add",
      pids: ["p-1"],
      invalid: ["p-1"],
      isOwn: false,
      apiRequestId: null,
      rejectMessage: "Unknown.",
    }),
  comparePush: (warehouse, run) =>
    warehouse.comparePush(feedCommit(run, { calls: [callOf()] }), {
      segmentId: "s-1",
      isComplete: true,
      retriesInvalid: true,
    }),
  addMembers: (warehouse, run) =>
    warehouse.addMembers(feedCommit(run, { calls: [callOf()] }), {
      segmentId: "s-1",
      members: [member("p-1", 1)],
      isListed: true,
    }),
  removeMembers: (warehouse, run) =>
    warehouse.removeMembers(feedCommit(run, { calls: [callOf()] }), "s-1", []),
  commitFeed: (warehouse, run) => {
    const gap = ["locked_job", "days", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"];
    const columns = ["job", "stream", "gap_start", "gap_end", "noticed_at"];
    const upserts = [{ table: "sync_gap", columns, rows: [[...gap, "2026-11-21T00:00:00+00:00"]] }];
    const checkpoints = [{ stream: "days", cursor: { day: "2026-01-02" } }];
    const calls = [callOf()];
    return warehouse.commitFeed({ run, calls, upserts, checkpoints });
  },
  endRun: (warehouse, run) =>
    warehouse.endRun(
      run,
      { status: "succeeded", limitedBy: null, error: null, counters: countersOf({}), tables: [] },
      {
        source: "people",
        inputRows: 1,
        answered: 1,
        matched: 1,
        unmatched: 0,
        rejected: 0,
        due: 0,
        oldestAnswerAt: null,
      },
    ),
};

const namedMethods = Object.entries(runMethods);

/** Tests of acquiring and losing a job's lock. */
export function describeLocks(getContext: GetContext): void {
  describe("the lock of a job", () => {
    test("is held by one process, which status shows, until it is released", async () => {
      const context = getContext();
      const { warehouse } = context;
      const process = { host: "etl-1", pid: 4711, machine: "boot 1", processStart: "99" };
      const run = await hold(warehouse, "first", { process });
      expect(run).toEqual({ runId: "first", job: "locked_job", jobType: "enrich", shard: "0/1", epoch: 1 });
      const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
      const holder = {
        ...process,
        job: "locked_job",
        shard: "0/1",
        epoch: 1,
        runId: "first",
        acquiredAt: instant,
        heartbeatAt: instant,
        expiresAt: instant,
        isExpired: false,
      };
      expect(await holdersOf(context)).toEqual([holder]);
      expect(await warehouse.acquireLock(lockRequest("second"))).toEqual({
        kind: "refused",
        holders: [holder],
      });
      expect(await holdersOf(context)).toEqual([holder]);
      await warehouse.releaseLock(run);
      expect(await holdersOf(context)).toEqual([]);
      expect(await warehouse.acquireLock(lockRequest("second"))).toMatchObject({
        kind: "held",
        run: { epoch: 2 },
        tookOver: [],
      });
    });

    test("is acquired by one of many processes at the same time", async () => {
      const { warehouse } = getContext();
      const requests = Array.from({ length: 12 }, (_, i) => warehouse.acquireLock(lockRequest(`run-${i}`)));
      const replies = await Promise.all(requests);
      expect(replies.filter((reply) => reply.kind === "held")).toHaveLength(1);
    });

    test("of one job is independent of another's", async () => {
      const { warehouse } = getContext();
      const one = await hold(warehouse, "first");
      const other = await hold(warehouse, "second", { job: "locked_too" });
      for (const run of [one, other]) await warehouse.beginRun(run);
      expect((await warehouse.jobStatus("locked_too")).lastRun).toMatchObject({ status: "running" });
    });

    test("is extended by every heartbeat, also after it expired if no other process took it", async () => {
      const context = getContext();
      const { warehouse } = context;
      // Long enough for a heartbeat and the following check.
      const lifeMs = 1200;
      const run = await hold(warehouse, "first", { lifeMs });
      for (let beat = 0; beat < 5; beat++) {
        await delay(lifeMs / 4);
        expect(await warehouse.renewLock(run, lifeMs)).toBe(true);
      }
      expect((await warehouse.acquireLock(lockRequest("second"))).kind).toBe("refused");
      await delay(lifeMs + 100);
      expect(await holdersOf(context)).toMatchObject([{ runId: "first", isExpired: true }]);
      await warehouse.beginRun(run);
      expect(await warehouse.renewLock(run, 3_600_000)).toBe(true);
      expect((await warehouse.acquireLock(lockRequest("second"))).kind).toBe("refused");
    });

    test("that has expired is taken over, and the run that held it is closed", async () => {
      const context = getContext();
      const { warehouse } = context;
      const stale = await hold(warehouse, "crashed", { lifeMs: 100 });
      await warehouse.beginRun(stale);
      await delay(150);
      const reply = await warehouse.acquireLock(lockRequest("next"));
      expect(reply).toMatchObject({ kind: "held", run: { runId: "next", epoch: 2 } });
      expect(reply.kind === "held" && reply.tookOver).toMatchObject([{ runId: "crashed", epoch: 1 }]);
      expect(
        await context.sql(
          "SELECT run_id, status, error, finished_at IS NULL AS open FROM person_data_ops.sync_run",
        ),
      ).toEqual([
        {
          run_id: "crashed",
          status: "failed",
          error: "The process ended without closing this run.",
          open: "false",
        },
      ]);
      expect(await warehouse.renewLock(stale, 3_600_000)).toBe(false);
      await warehouse.releaseLock(stale);
      expect(await holdersOf(context)).toMatchObject([{ runId: "next", epoch: 2 }]);
    });

    test("is expired if its heartbeat is older than its life, or as far in the future: the clock was ahead", async () => {
      const context = getContext();
      const { warehouse } = context;
      await hold(warehouse, "ahead", { lifeMs: 30_000 });
      const moveBeat = (by: string) =>
        context.sql(`UPDATE person_data_state.job_lock SET heartbeat_at = clock_timestamp() + interval '${by}',
          expires_at = clock_timestamp() + interval '${by}' + interval '30 s'`);
      await moveBeat("20 s");
      expect((await warehouse.acquireLock(lockRequest("early"))).kind).toBe("refused");
      await moveBeat("1 h");
      expect(await holdersOf(context)).toMatchObject([{ runId: "ahead", isExpired: true }]);
      expect((await warehouse.acquireLock(lockRequest("next"))).kind).toBe("held");
    });

    test("is taken over immediately from a dead holder, but from no later one", async () => {
      const context = getContext();
      const { warehouse } = context;
      await hold(warehouse, "first");
      const dead = await holdersOf(context);
      await hold(warehouse, "second", { dead });
      expect(await warehouse.acquireLock(lockRequest("third", { dead }))).toMatchObject({
        kind: "refused",
        holders: [{ runId: "second" }],
      });
    });

    test("may be acquired again under the same run id, which then resumes", async () => {
      const context = getContext();
      const { warehouse } = context;
      await warehouse.beginRun(await hold(warehouse, "nightly"));
      await warehouse.beginRun(await hold(warehouse, "nightly", { dead: await holdersOf(context) }));
      expect(await context.sql("SELECT run_id, status FROM person_data_ops.sync_run")).toEqual([
        { run_id: "nightly", status: "running" },
      ]);
    });
  });

  describe("without the lock", () => {
    test.each(namedMethods)("%s writes nothing after another process took the job over", async (_, act) => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }, { id: "2" }]);
      await context.sql(`INSERT INTO person_data.input_email (source, source_key, position, email_address, _synced_at, _run_id)
        VALUES ('people', 'gone', 0, 'gone@example.com', now(), 'earlier')`);
      const stale = await hold(context.warehouse, "stale");
      await context.warehouse.beginRun(stale);
      const fresh = await hold(context.warehouse, "fresh", { dead: await holdersOf(context) });
      await context.warehouse.beginRun(fresh);
      const before = await everything(context);
      await expect(act(context.warehouse, stale)).rejects.toThrow(LockLostError);
      expect(await everything(context)).toEqual(before);
      await act(context.warehouse, fresh);
      expect(await everything(context)).not.toEqual(before);
    });

    test.each(namedMethods)("%s writes nothing after its lock was released", async (_, act) => {
      const context = getContext();
      await makePeople(context, [{ id: "1", first_name: "Ann" }, { id: "2" }]);
      const run = await hold(context.warehouse, "over");
      await context.warehouse.beginRun(run);
      await context.warehouse.releaseLock(run);
      const before = await everything(context);
      await expect(act(context.warehouse, run)).rejects.toThrow(LockLostError);
      expect(await everything(context)).toEqual(before);
    });

    test("a job without a lock can't be written for", async () => {
      const { warehouse } = getContext();
      await expect(warehouse.beginRun(runOf({ job: "never_held", type: "enrich" }))).rejects.toThrow(
        LockLostError,
      );
    });

    test("a selection is neither read on nor dropped under its successor", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makePeople(context, [{ id: "1", first_name: "Ann" }]);
      const stale = await hold(warehouse, "same id");
      await warehouse.beginRun(stale);
      const staleSelection = await warehouse.selectLookup(spec, stale);
      const fresh = await hold(warehouse, "same id", { dead: await holdersOf(context) });
      await warehouse.beginRun(fresh);
      const selection = await warehouse.selectLookup(spec, fresh);
      const read = async (frozen: typeof selection) => {
        const records = await recordsOf(warehouse.db, spec, frozen);
        return records.map((record) => record.keys[0]);
      };
      await expect(read(staleSelection)).rejects.toThrow(LockLostError);
      await expect(staleSelection.close()).rejects.toThrow(LockLostError);
      expect(await read(selection)).toEqual(["1"]);
      await selection.close();
    });
  });

  describe("the locks of a job's shards", () => {
    test("exclude those of every other number of shards, not each other", async () => {
      const context = getContext();
      const { warehouse } = context;
      const runs = [
        await hold(warehouse, "a", { shard: "0/2" }),
        await hold(warehouse, "b", { shard: "1/2" }),
      ];
      for (const run of runs) await warehouse.beginRun(run);
      expect((await warehouse.acquireLock(lockRequest("c", { shard: "1/2" }))).kind).toBe("refused");
      for (const shard of ["0/1", "0/3", "2/4"]) {
        expect(await warehouse.acquireLock(lockRequest("c", { shard }))).toMatchObject({
          kind: "refused",
          holders: [{ runId: "a" }, { runId: "b" }],
        });
      }
      expect((await holdersOf(context)).map(({ shard }) => shard)).toEqual(["0/2", "1/2"]);
    });

    test("are all taken over by another division once they have expired", async () => {
      const context = getContext();
      const { warehouse } = context;
      const stale = [];
      for (const shard of ["0/2", "1/2"]) stale.push(await hold(warehouse, shard, { shard, lifeMs: 100 }));
      for (const run of stale) await warehouse.beginRun(run);
      await delay(150);
      const reply = await warehouse.acquireLock(lockRequest("whole"));
      expect(reply.kind === "held" && reply.tookOver.map(({ shard }) => shard)).toEqual(["0/2", "1/2"]);
      for (const run of stale) await expect(warehouse.beginRun(run)).rejects.toThrow(LockLostError);
      expect(await columnOf(context, "SELECT status FROM person_data_ops.sync_run")).toEqual([
        "failed",
        "failed",
      ]);
      expect((await warehouse.acquireLock(lockRequest("again", { shard: "0/2" }))).kind).toBe("refused");
    });

    test("one that is taken over closes its own run, not that of its neighbour", async () => {
      const context = getContext();
      const { warehouse } = context;
      await warehouse.beginRun(await hold(warehouse, "a", { shard: "0/2" }));
      await warehouse.beginRun(await hold(warehouse, "b", { shard: "1/2", lifeMs: 100 }));
      await delay(150);
      await hold(warehouse, "c", { shard: "1/2" });
      expect(
        await context.sql("SELECT run_id, status FROM person_data_ops.sync_run ORDER BY run_id"),
      ).toEqual([
        { run_id: "a", status: "running" },
        { run_id: "b", status: "failed" },
      ]);
    });
  });
}
