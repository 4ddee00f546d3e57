import { recordsOf } from "../support/keyed-records.ts";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { LockLostError } from "../../src/errors.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { tables } from "../../src/schemas/registry.ts";
import { callOf, commitOf, countersOf, reservationOf, tester } from "./suite/nights.ts";
import { enrichSpec, makePeople, pushed } from "./suite/people.ts";
import { looseRecord, wholePerson } from "./suite/person-updates.ts";
import { columnOf, schemaNames } from "./suite/context.ts";
import type { LockHolder, LockRequest } from "../../src/load/runs/lock.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";
import { useContext } from "./postgres-context.ts";

const context = useContext();

const spec = enrichSpec({ job: "locked_job" });

const LONG_MS = 3_600_000;

/** Asks for the lock of `locked_job`; long-lived by default. */
function ask(runId: string, changes: Partial<LockRequest> = {}) {
  const run = { runId, job: spec.job, jobType: spec.type, shard: "0/1" };
  return context.warehouse.acquireLock({ ...run, process: tester, lifeMs: LONG_MS, dead: [], ...changes });
}

/** Acquires a free lock. */
async function hold(runId: string, changes: Partial<LockRequest> = {}): Promise<RunRef> {
  const reply = await ask(runId, changes);
  if (reply.kind === "refused") throw new Error(`refused to ${runId}`);
  return reply.run;
}

/** The same, and begins the run. */
async function begin(runId: string, changes: Partial<LockRequest> = {}): Promise<RunRef> {
  const run = await hold(runId, changes);
  await context.warehouse.beginRun(run);
  return run;
}

async function holders(): Promise<readonly LockHolder[]> {
  return (await context.warehouse.jobStatus(spec.job)).holders;
}

/** Contents of our tables except the locks. */
async function everything(): Promise<Readonly<Record<string, unknown>>> {
  const contents: Record<string, unknown> = {};
  for (const { name, schema } of tables.filter((table) => table.name !== "job_lock")) {
    contents[name] = await context.sql(`SELECT * FROM ${schemaNames[schema]}.${name} AS t ORDER BY t`);
  }
  return contents;
}

/** What a process does for a run: every function that writes. */
const works: Readonly<Record<string, (warehouse: Warehouse, run: RunRef) => Promise<unknown>>> = {
  beginRun: (warehouse, run) => warehouse.beginRun(run),
  selectLookup: (warehouse, run) => warehouse.selectLookup(spec, run),
  recordFound: (warehouse, run) => warehouse.recordFound(run, { records_due: 7 }),
  reserveCall: (warehouse, run) => warehouse.reserveCall(run, reservationOf(1)),
  recordAttempts: (warehouse, run) => warehouse.recordAttempts(run, [callOf()], { requests: 1 }),
  commitLookup: (warehouse, run) =>
    warehouse.commitLookup(
      commitOf(warehouse, spec, run, [
        [looseRecord("Ann"), { pid: "p-1", person: wholePerson("p-1", { full_name: "Ann" }) }],
        [looseRecord("Bob"), { code: "unprocessable_entity" }],
      ]),
    ),
  readWanted: (warehouse, run) => warehouse.readWanted(run, "s-1", pushed("SELECT 'p-1' AS service_pid")),
  noteListedPids: (warehouse, run) => warehouse.noteListedPids(run, "s-1", ["p-1"]),
  finishBatch: (warehouse, run) => {
    const answer = { segmentId: "s-1", change: "add", isOwn: false, apiRequestId: null } as const;
    const pids = { pids: ["p-1"], invalid: ["p-1"], rejectMessage: "Unknown." };
    return warehouse.finishBatch({ run, calls: [callOf()] }, { ...answer, ...pids });
  },
  comparePush: (warehouse, run) => {
    const reading = { segmentId: "s-1", isComplete: true, retriesInvalid: true };
    return warehouse.comparePush({ run, calls: [callOf()] }, reading);
  },
  addMembers: (warehouse, run) => {
    const members = [{ servicePid: "p-1", firstAddedAt: null, seenAt: "2026-11-05T00:00:00Z", extra: null }];
    return warehouse.addMembers({ run, calls: [callOf()] }, { segmentId: "s-1", members, isListed: true });
  },
  removeMembers: (warehouse, run) => warehouse.removeMembers({ run, calls: [callOf()] }, "s-1", []),
  commitFeed: (warehouse, run) => {
    const checkpoints = [{ stream: "days", cursor: { day: "2026-01-02" } }];
    return warehouse.commitFeed({ run, calls: [callOf()], checkpoints });
  },
  endRun: (warehouse, run) => {
    const end = { status: "succeeded", limitedBy: null, error: null, tables: [] } as const;
    return warehouse.endRun(run, { ...end, counters: countersOf({}) }, null);
  },
};

const moveBeat = (by: string) =>
  context.sql(`UPDATE person_data_state.job_lock SET heartbeat_at = clock_timestamp() + interval '${by}',
    expires_at = clock_timestamp() + interval '${by}' + interval '30 s'`);

describe("the lock of a job", () => {
  test("is held by one process, which status shows, until it is released", async () => {
    const owner = { host: "etl-1", pid: 4711, machine: "boot 1", processStart: "99" };
    const run = await hold("first", { process: owner });
    expect(run).toEqual({ runId: "first", job: "locked_job", jobType: "enrich", shard: "0/1", epoch: 1 });
    const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    const times = { acquiredAt: instant, heartbeatAt: instant, expiresAt: instant, isExpired: false };
    const holder = { ...owner, job: "locked_job", shard: "0/1", epoch: 1, runId: "first", ...times };
    expect(await holders()).toEqual([holder]);
    expect(await ask("second")).toEqual({ kind: "refused", holders: [holder] });
    await context.warehouse.releaseLock(run);
    expect(await holders()).toEqual([]);
    expect(await ask("second")).toMatchObject({ kind: "held", run: { epoch: 2 }, tookOver: [] });
  });

  test("is acquired by one of many processes at the same time", async () => {
    const replies = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(`run-${i}`)));
    expect(replies.filter((reply) => reply.kind === "held")).toHaveLength(1);
  });

  test("is extended by every heartbeat, also after it expired if no other process took it", async () => {
    // Long enough for a heartbeat and the following check.
    const lifeMs = 1200;
    const run = await hold("first", { lifeMs });
    for (let beat = 0; beat < 5; beat++) {
      await delay(lifeMs / 4);
      expect(await context.warehouse.renewLock(run, lifeMs)).toBe(true);
    }
    expect((await ask("second")).kind).toBe("refused");
    await delay(lifeMs + 100);
    expect(await holders()).toMatchObject([{ runId: "first", isExpired: true }]);
    await context.warehouse.beginRun(run);
    expect(await context.warehouse.renewLock(run, LONG_MS)).toBe(true);
    expect((await ask("second")).kind).toBe("refused");
  });

  test("that has expired is taken over, and the run that held it is closed", async () => {
    const stale = await begin("crashed", { lifeMs: 100 });
    await delay(150);
    expect(await ask("next")).toMatchObject({
      kind: "held",
      run: { runId: "next", epoch: 2 },
      tookOver: [{ runId: "crashed", epoch: 1 }],
    });
    const runs = "SELECT run_id, status, error, finished_at IS NULL AS open FROM person_data_ops.sync_run";
    const error = "The process ended without closing this run.";
    expect(await context.sql(runs)).toEqual([{ run_id: "crashed", status: "failed", error, open: "false" }]);
    expect(await context.warehouse.renewLock(stale, LONG_MS)).toBe(false);
    await context.warehouse.releaseLock(stale);
    expect(await holders()).toMatchObject([{ runId: "next", epoch: 2 }]);
  });

  test("is expired if its heartbeat is older than its life, or as far in the future: the clock was ahead", async () => {
    await hold("ahead", { lifeMs: 30_000 });
    await moveBeat("20 s");
    expect((await ask("early")).kind).toBe("refused");
    await moveBeat("1 h");
    expect(await holders()).toMatchObject([{ runId: "ahead", isExpired: true }]);
    expect((await ask("next")).kind).toBe("held");
  });

  test("is taken over immediately from a dead holder, but from no later one", async () => {
    await hold("first");
    const dead = await holders();
    await hold("second", { dead });
    expect(await ask("third", { dead })).toMatchObject({ kind: "refused", holders: [{ runId: "second" }] });
  });
});

describe("without the lock", () => {
  test.each(Object.keys(works))("%s writes nothing after another process took the job over", async (name) => {
    const work = (run: RunRef) => works[name]?.(context.warehouse, run);
    await makePeople(context, [{ id: "1", first_name: "Ann" }, { id: "2" }]);
    const stale = await begin("stale");
    const fresh = await begin("fresh", { dead: await holders() });
    const before = await everything();
    await expect(work(stale)).rejects.toThrow(LockLostError);
    expect(await everything()).toEqual(before);
    await work(fresh);
    expect(await everything()).not.toEqual(before);
  });

  test("a run writes nothing after its lock was released", async () => {
    await makePeople(context, [{ id: "1", first_name: "Ann" }]);
    const run = await begin("over");
    await context.warehouse.releaseLock(run);
    const before = await everything();
    await expect(context.warehouse.selectLookup(spec, run)).rejects.toThrow(LockLostError);
    expect(await everything()).toEqual(before);
  });

  test("a selection is neither read on nor dropped under its successor", async () => {
    await makePeople(context, [{ id: "1", first_name: "Ann" }]);
    const select = async (run: RunRef) => context.warehouse.selectLookup(spec, run);
    const stale = await select(await begin("same id"));
    const selection = await select(await begin("same id", { dead: await holders() }));
    await expect(recordsOf(context.warehouse.db, spec, stale)).rejects.toThrow(LockLostError);
    await expect(stale.close()).rejects.toThrow(LockLostError);
    expect(await recordsOf(context.warehouse.db, spec, selection)).toMatchObject([{ keys: ["1"] }]);
    await selection.close();
  });
});

describe("the locks of a job's shards", () => {
  test("exclude those of every other number of shards, not each other", async () => {
    await begin("a", { shard: "0/2" });
    await begin("b", { shard: "1/2" });
    expect((await ask("c", { shard: "1/2" })).kind).toBe("refused");
    for (const shard of ["0/1", "0/3", "2/4"]) {
      expect(await ask("c", { shard })).toMatchObject({
        kind: "refused",
        holders: [
          { runId: "a", shard: "0/2" },
          { runId: "b", shard: "1/2" },
        ],
      });
    }
  });

  test("are all taken over by another division once they have expired, each closes its own run", async () => {
    const stale = await begin("a", { shard: "0/2" });
    await begin("b", { shard: "1/2", lifeMs: 100 });
    const statuses = () => columnOf(context, "SELECT status FROM person_data_ops.sync_run ORDER BY run_id");
    await delay(150);
    await begin("c", { shard: "1/2", lifeMs: 100 });
    expect(await statuses()).toEqual(["running", "failed", "running"]);
    await context.warehouse.renewLock(stale, 1);
    await delay(150);
    expect(await ask("whole")).toMatchObject({ tookOver: [{ shard: "0/2" }, { shard: "1/2" }] });
    await expect(context.warehouse.beginRun(stale)).rejects.toThrow(LockLostError);
    expect(await statuses()).toEqual(["failed", "failed", "failed"]);
    expect((await ask("again", { shard: "0/2" })).kind).toBe("refused");
  });
});
