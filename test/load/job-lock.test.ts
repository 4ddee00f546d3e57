import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { LockLostError } from "../../src/errors.ts";
import { inTransaction, tableLock, waitForLock } from "../../src/load/db/session.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";
import { type LockHolder, type LockRequest, requestLock } from "../../src/load/runs/lock.ts";
import { noCounts } from "../../src/load/runs/runs.ts";
import { tables } from "../../src/schemas/registry.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { recordsOf } from "../support/keyed-records.ts";
import { runSql } from "../support/run-sql.ts";
import { connect as connectTo, open, roleIn } from "./bare-database.ts";
import { connectAsText, useContext } from "./postgres-context.ts";
import { columnOf, schemaNames, untilWaiting, valueOf } from "./suite/context.ts";
import { callOf, commitOf, reservationOf, tester } from "./suite/nights.ts";
import { enrichSpec, makePeople, pushed } from "./suite/people.ts";
import { looseRecord, wholePerson } from "./suite/person-updates.ts";

const context = useContext();

const spec = enrichSpec({ job: "locked_job" });

const LONG_MS = 3_600_000;

/** Asks for the lock of `locked_job`; long-lived by default. */
function ask(runId: string, changes: Partial<LockRequest> = {}, warehouse = context.warehouse) {
  const run = { runId, job: spec.job, jobType: spec.type, shard: "0/1" };
  return warehouse.acquireLock({ ...run, process: tester, lifeMs: LONG_MS, dead: [], ...changes });
}

/** Takes the lock over from its holders, from another process; returns its run. */
async function takeOver(runId: string, url = context.url): Promise<RunRef> {
  const reply = await ask(runId, { dead: await holders() }, open(url));
  if (reply.kind === "refused") throw new Error(`refused to ${runId}`);
  return reply.run;
}

/** Session of the test, directly to the server. */
const connect = () => connectTo(context.directUrl);

/** Opens a transaction that holds the fence of the first owner, as before each COMMIT of a run. */
async function holdFence(): Promise<Client> {
  const committing = await connect();
  await committing.query(
    "BEGIN; SELECT FROM person_data_state.job_lock WHERE job = 'locked_job' AND epoch = 1 FOR KEY SHARE",
  );
  return committing;
}

/** Opens a transaction in a session named like those of the lock's owner. */
async function openNamed(name: string | null): Promise<Client> {
  const client = await connect();
  await client.query(`BEGIN; SET LOCAL application_name = '${name}'; SELECT 1`);
  return client;
}

const OWNER_NAME =
  "SELECT 'person-etl ' || owner_token FROM person_data_state.job_lock WHERE job = 'locked_job'";

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

/** Every function that writes for a run. */
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
  commitFeed: (warehouse, run) => {
    const checkpoints = [{ stream: "days", cursor: { day: "2026-01-02" } }];
    return warehouse.commitFeed({ run, calls: [callOf()], checkpoints });
  },
  endRun: (warehouse, run) => {
    const end = { status: "succeeded", limitedBy: null, error: null, tables: [] } as const;
    return warehouse.endRun(run, { ...end, counters: noCounts }, null);
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

describe("a takeover", () => {
  test("waits for a commit under way, also when a heartbeat came in between", async () => {
    const run = await hold("old");
    const committing = await holdFence();
    expect(await context.warehouse.renewLock(run, LONG_MS)).toBe(true);
    await committing.query(
      "INSERT INTO person_data_state.table_load VALUES ('person', 'locked_job', NULL, now(), now(), 'old')",
    );
    const taken = takeOver("new");
    await untilWaiting(context);
    await committing.query("COMMIT");
    expect(await taken).toMatchObject({ runId: "new", epoch: 2 });
    expect(await columnOf(context, "SELECT _run_id FROM person_data_state.table_load")).toEqual(["old"]);
  });

  test("under way makes a fence wait for it, and fail", async () => {
    const run = await begin("old");
    const taking = await connect();
    await taking.query(`BEGIN; SELECT FROM person_data_state.job_lock WHERE job = 'locked_job' FOR UPDATE;
      UPDATE person_data_state.job_lock SET epoch = 2 WHERE job = 'locked_job'`);
    const late = context.warehouse.recordFound(run, { records_due: 7 });
    late.catch(() => {});
    await untilWaiting(context);
    await taking.query("COMMIT");
    await expect(late).rejects.toMatchObject({ code: "lock_lost" });
    expect(await columnOf(context, "SELECT records_due FROM person_data_ops.sync_run")).toEqual(["0"]);
  });

  test("that waits leaves the lock to an owner that renews its expired lock", async () => {
    const run = await hold("old", { lifeMs: 1 });
    const committing = await holdFence();
    const asking = ask("new", {}, open(context.url));
    await untilWaiting(context);
    expect(await context.warehouse.renewLock(run, LONG_MS)).toBe(true);
    await committing.query("COMMIT");
    expect(await asking).toMatchObject({ kind: "refused", holders: [{ runId: "old" }] });
    await context.warehouse.beginRun(run);
  });

  test("ends the sessions that its former owner opened, also while it waited, and no others", async () => {
    const old = await hold("old");
    const name = await valueOf(context, OWNER_NAME);
    const committing = await holdFence();
    const [theirs, neighbour] = [
      await openNamed(name),
      await openNamed("person-etl 000000000000000000000000"),
    ];
    const taken = takeOver("new");
    await untilWaiting(context);
    const late = await openNamed(name);
    await committing.query("COMMIT");
    expect(await taken).toMatchObject({ runId: "new", epoch: 2 });
    for (const ended of [theirs, late])
      await expect(ended.query("SELECT 1")).rejects.toThrow(/terminat|connection/);
    await neighbour.query("COMMIT");
    await expect(context.warehouse.beginRun(old)).rejects.toMatchObject({ code: "lock_lost" });
  });

  test("disconnects a process suspended in the middle of a COPY, which commits nothing when it resumes", async () => {
    const file = fileURLToPath(new URL("stopped-copier.ts", import.meta.url));
    const child = spawn(process.execPath, [file, context.url], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill("SIGKILL"));
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    expect((await lines.next()).value).toBe("copying");
    while (!/\) T /.test(await readFile(`/proc/${child.pid}/stat`, "utf8"))) await delay(10);
    const copies = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
      AND query LIKE 'COPY %' AND application_name LIKE 'person-etl %'`;
    expect(await valueOf(context, copies)).toBe("1");
    await delay(600);
    const tookOver = [{ runId: "stopped", host: "laptop" }];
    expect(await ask("new", { job: "copied_job" })).toMatchObject({ kind: "held", tookOver });
    while ((await valueOf(context, copies)) !== "0") await delay(10);
    child.kill("SIGCONT");
    expect((await lines.next()).value).toBe("lock_lost");
    await once(child, "exit");
    expect(await valueOf(context, "SELECT count(*) FROM person_data_ops.schema_drift")).toBe("0");
  });

  test("isn't blocked by sessions that its role may not end, once they can't commit", async () => {
    const run = await hold("old");
    const stuck = await openNamed(await valueOf(context, OWNER_NAME));
    expect(await takeOver("new", await roleWith("ALL"))).toMatchObject({ epoch: 2 });
    await stuck.query("COMMIT");
    await expect(context.warehouse.beginRun(run)).rejects.toMatchObject({ code: "lock_lost" });
  });
});

/** Commits an answer about one person. */
const commitAbout = (run: RunRef) =>
  context.warehouse.commitLookup(
    commitOf(context.warehouse, spec, run, [
      [looseRecord("p-1"), { pid: "p-1", person: wholePerson("p-1", { full_name: "Ann" }) }],
    ]),
  );

describe("a commit", () => {
  test("waits for no heartbeat, and blocks neither heartbeats, other commits of the run nor refused requests", async () => {
    const run = await begin("run");
    const beating = await connect();
    await beating.query(
      "BEGIN; UPDATE person_data_state.job_lock SET heartbeat_at = now(), expires_at = now() + interval '1 hour'",
    );
    const committing = await holdFence();
    await commitAbout(run);
    await beating.query("COMMIT");
    expect(await context.warehouse.renewLock(run, LONG_MS)).toBe(true);
    expect((await ask("other", {}, open(context.url))).kind).toBe("refused");
    await committing.query("COMMIT");
    expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("1");
  });

  test("leaves no settings or locks in its session", async () => {
    const run = await begin("run");
    await commitAbout(run);
    await context.warehouse.releaseLock(run);
    const sessions = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const client = await connectAsText(context.url);
        onTestFinished(() => client.end());
        await client.query("BEGIN");
        const settings = await client.query(`SELECT name, setting FROM pg_settings
          WHERE source = 'session' AND name NOT IN ('TimeZone', 'client_min_messages', 'application_name',
            'client_encoding', 'DateStyle', 'standard_conforming_strings', 'transaction_isolation')`);
        const left = await client.query(`SELECT
          (SELECT count(*) FROM pg_prepared_statements WHERE from_sql OR name <> '') AS statements,
          (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
          (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()) AS tables`);
        return { client, found: [settings.rows, left.rows] };
      }),
    );
    for (const { client, found } of sessions) {
      await client.query("COMMIT");
      expect(found).toEqual([[], [{ statements: "0", locks: "0", tables: "0" }]]);
    }
    const names = `SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = current_database()
      AND application_name LIKE 'person-etl%'`;
    expect(await columnOf(context, names)).toEqual(["person-etl"]);
  });
});

/** Creates a role with a right to all tables, for one test; returns the address to connect as it. */
async function roleWith(right: "SELECT" | "ALL"): Promise<string> {
  const schemas = "person_data, person_data_ops, person_data_state";
  const grants = `GRANT USAGE ON SCHEMA ${schemas} TO ROLE; GRANT ${right} ON ALL TABLES IN SCHEMA ${schemas} TO ROLE`;
  return (await roleIn(context.database, grants)).url;
}

test("a role that may read everything has no right to a lock of ours, and a wait for one is limited and names its holder", async () => {
  const url = await roleWith("SELECT");
  for (const statement of [
    "BEGIN; LOCK TABLE person_data_state.schema_migration IN SHARE ROW EXCLUSIVE MODE",
    "BEGIN; LOCK TABLE person_data_state.schedule_slot IN SHARE ROW EXCLUSIVE MODE",
    "SELECT FROM person_data_state.job_request FOR UPDATE",
    "SELECT FROM person_data_ops.sync_run FOR UPDATE",
  ]) {
    await expect(runSql(url, statement)).rejects.toMatchObject({ code: "42501" });
  }
  const holder = await connect();
  await holder.query(`SET application_name = 'psql of Ann'; BEGIN`);
  const { names, pool } = context.warehouse.db;
  const slots = { ...tableLock(names.state, "schedule_slot"), purpose: "a test", timeout: "100ms" };
  const requests = { ...requestLock(names, "a_job"), timeout: "100ms" };
  await inTransaction(pool, (session) => waitForLock(session, requests));
  for (const [lock, take] of [
    [slots, "LOCK TABLE person_data_state.schedule_slot IN SHARE ROW EXCLUSIVE MODE"],
    [requests, "UPDATE person_data_state.job_request SET _synced_at = now() WHERE job = 'a_job'"],
  ] as const) {
    await holder.query("SAVEPOINT held");
    await holder.query(take);
    await expect(inTransaction(pool, (session) => waitForLock(session, lock))).rejects.toMatchObject({
      code: "lock_held",
      message: expect.stringMatching(
        /^Waited 100ms for a lock for .*; session \d+ \(role \w+, application psql of Ann\) has it\./u,
      ),
    });
    await holder.query("ROLLBACK TO SAVEPOINT held");
  }
  await inTransaction(pool, (session) => waitForLock(session, slots));
});
