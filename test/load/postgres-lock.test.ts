import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { runSql } from "../support/run-sql.ts";
import { type Pooler, POOLER_TIMEOUT_MS, startPooler } from "../support/pgbouncer.ts";
import { connectAsText, openPostgresContext, type PostgresContext } from "./postgres-context.ts";
import { commitOf, runOf, tester } from "./suite/nights.ts";
import { enrichSpec } from "./suite/people.ts";
import { looseRecord, wholePerson } from "./suite/person-updates.ts";
import { clear, columnOf, valueOf } from "./suite/context.ts";
import { inTransaction, tableLock, waitForLock } from "../../src/load/db/session.ts";
import { type LockHolder, type LockRequest, requestLock } from "../../src/load/runs/lock.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";

const spec = enrichSpec({ job: "locked_job" });
/** Last statement of a run before each COMMIT. */
const FENCE = "SELECT FROM person_data_state.job_lock WHERE job = 'locked_job' AND epoch = 1 FOR KEY SHARE";

function lockRequest(runId: string, changes: Partial<LockRequest> = {}): LockRequest {
  const run = { runId, job: spec.job, jobType: spec.type, shard: "0/1" };
  return { ...run, process: tester, lifeMs: 3_600_000, dead: [], ...changes };
}

async function hold(warehouse: Warehouse, runId: string): Promise<RunRef> {
  const reply = await warehouse.acquireLock(lockRequest(runId));
  if (reply.kind === "refused") throw new Error(`refused to ${runId}`);
  return reply.run;
}

async function takeOver(warehouse: Warehouse, runId: string): Promise<RunRef> {
  const dead: readonly LockHolder[] = (await warehouse.jobStatus(spec.job)).holders;
  const reply = await warehouse.acquireLock(lockRequest(runId, { dead }));
  if (reply.kind === "refused") throw new Error(`refused to ${runId}`);
  return reply.run;
}

function commitAbout(warehouse: Warehouse, run: RunRef, pid: string) {
  return commitOf(warehouse, spec, run, [
    [looseRecord(pid), { pid, person: wholePerson(pid, { full_name: pid }) }],
  ]);
}

/** True if it settles within the given milliseconds. */
async function endsWithin(milliseconds: number, work: Promise<unknown>): Promise<boolean> {
  // The awaiting code handles its failure.
  const ended = work.then(
    () => true,
    () => true,
  );
  return await Promise.race([ended, delay(milliseconds, false)]);
}

let pooler: Pooler;
beforeAll(async () => {
  pooler = await startPooler();
}, POOLER_TIMEOUT_MS);
afterAll(() => pooler.stop());

describe.each([
  ["straight", (url: string) => url],
  ["through PgBouncer in transaction mode", (url: string) => pooler.through(url)],
])("a Postgres warehouse that is reached %s", (_, through) => {
  let context: PostgresContext;
  let warehouse: Warehouse;
  beforeAll(async () => {
    context = await openPostgresContext({ through });
    ({ warehouse } = context);
  });
  beforeEach(() => clear(context));
  afterAll(() => context.close());

  /** Session of the test, directly to the server. */
  async function connect(): Promise<Client> {
    const client = await connectAsText(context.directUrl);
    onTestFinished(() => client.end());
    return client;
  }

  /** Connection of another process. */
  function openAnother(): Warehouse {
    const another = openWarehouse({ url: context.url });
    onTestFinished(() => another.close());
    return another;
  }

  test("a takeover waits for a commit under way, also when a heartbeat came in between", async () => {
    const run = await hold(warehouse, "old");
    const committing = await connect();
    await committing.query(`BEGIN; ${FENCE}`);
    expect(await warehouse.renewLock(run, 3_600_000)).toBe(true);
    await committing.query(
      "INSERT INTO person_data_state.table_load VALUES ('person', 'locked_job', NULL, now(), now(), 'old')",
    );
    const another = openAnother();
    const taken = takeOver(another, "new");
    expect(await endsWithin(300, taken)).toBe(false);
    await committing.query("COMMIT");
    expect(await taken).toMatchObject({ runId: "new", epoch: 2 });
    expect(await columnOf(context, "SELECT _run_id FROM person_data_state.table_load")).toEqual(["old"]);
  });

  test("a fence during a takeover waits for it, and fails", async () => {
    const run = await hold(warehouse, "old");
    await warehouse.beginRun(run);
    const taking = await connect();
    await taking.query(`BEGIN; SELECT FROM person_data_state.job_lock WHERE job = 'locked_job' FOR UPDATE;
      UPDATE person_data_state.job_lock SET epoch = 2 WHERE job = 'locked_job'`);
    const late = warehouse.recordFound(run, { records_due: 7 });
    expect(await endsWithin(300, late)).toBe(false);
    await taking.query("COMMIT");
    await expect(late).rejects.toMatchObject({ code: "lock_lost" });
    expect(await columnOf(context, "SELECT records_due FROM person_data_ops.sync_run")).toEqual(["0"]);
  });

  test("heartbeats and commits don't block each other", async () => {
    const run = await hold(warehouse, "run");
    await warehouse.beginRun(run);
    const beating = await connect();
    await beating.query(
      "BEGIN; UPDATE person_data_state.job_lock SET heartbeat_at = now(), expires_at = now() + interval '1 hour'",
    );
    expect(await endsWithin(30_000, warehouse.commitLookup(commitAbout(warehouse, run, "p-1")))).toBe(true);
    await beating.query("COMMIT");
    const committing = await connect();
    await committing.query(`BEGIN; ${FENCE}`);
    expect(await endsWithin(30_000, warehouse.renewLock(run, 3_600_000))).toBe(true);
    await committing.query("COMMIT");
    expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("1");
  });

  test("loaders of a run don't wait for each other's fences", async () => {
    const run = await hold(warehouse, "run");
    await warehouse.beginRun(run);
    const other = await connect();
    await other.query(`BEGIN; ${FENCE}`);
    expect(await endsWithin(30_000, warehouse.commitLookup(commitAbout(warehouse, run, "p-1")))).toBe(true);
    await other.query("COMMIT");
  });

  test("a refused request for the lock blocks no commit of the holder", async () => {
    const run = await hold(warehouse, "run");
    const committing = await connect();
    await committing.query(`BEGIN; ${FENCE}`);
    const refused = openAnother().acquireLock(lockRequest("other"));
    expect(await endsWithin(30_000, refused)).toBe(true);
    expect((await refused).kind).toBe("refused");
    await committing.query("COMMIT");
    await warehouse.beginRun(run);
  });

  test("a load in progress during a takeover leaves no row, and releases what it blocked", async () => {
    const run = await hold(warehouse, "old");
    await warehouse.beginRun(run);
    const holder = await connect();
    await holder.query("BEGIN; LOCK TABLE person_data.enrichment IN EXCLUSIVE MODE");
    const load = warehouse.commitLookup(commitAbout(warehouse, run, "p-old"));
    load.catch(() => {});
    const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
      AND application_name LIKE 'person-etl %' AND wait_event_type = 'Lock'`;
    while ((await valueOf(context, waiting)) === "0") await delay(10);
    const another = openAnother();
    const fresh = await takeOver(another, "new");
    await another.beginRun(fresh);
    await expect(load).rejects.toMatchObject({ code: "lock_lost" });
    await holder.query("COMMIT");
    await another.commitLookup(commitAbout(another, fresh, "p-new"));
    expect(await columnOf(context, "SELECT service_pid FROM person_data.person")).toEqual(["p-new"]);
    expect(await columnOf(context, "SELECT run_id FROM person_data_ops.api_call")).toEqual(["new"]);
  });

  test("a process suspended in the middle of a COPY is disconnected, and commits nothing when it resumes", async () => {
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
    const reply = await warehouse.acquireLock(lockRequest("new", { job: "copied_job" }));
    expect(reply).toMatchObject({ kind: "held", tookOver: [{ runId: "stopped", host: "laptop" }] });
    while ((await valueOf(context, copies)) !== "0") await delay(10);
    child.kill("SIGCONT");
    expect((await lines.next()).value).toBe("lock_lost");
    await once(child, "exit");
    expect(await valueOf(context, "SELECT count(*) FROM person_data_ops.schema_drift")).toBe("0");
  });

  test("a takeover ends only the former owner's sessions", async () => {
    const old = await hold(warehouse, "old");
    const [name] = await columnOf(
      context,
      "SELECT 'person-etl ' || owner_token FROM person_data_state.job_lock WHERE job = 'locked_job'",
    );
    const [theirs, neighbour] = [await connect(), await connect()];
    await theirs.query(`BEGIN; SET LOCAL application_name = '${name}'; SELECT 1`);
    await neighbour.query(
      "BEGIN; SET LOCAL application_name = 'person-etl 000000000000000000000000'; SELECT 1",
    );
    await takeOver(warehouse, "new");
    await expect(theirs.query("SELECT 1")).rejects.toThrow(/terminat|connection/);
    await neighbour.query("COMMIT");
    await expect(warehouse.beginRun(old)).rejects.toMatchObject({ code: "lock_lost" });
  });

  test("a takeover ends sessions that its former owner opened while it waited", async () => {
    const old = await hold(warehouse, "old");
    const [name] = await columnOf(
      context,
      "SELECT 'person-etl ' || owner_token FROM person_data_state.job_lock WHERE job = 'locked_job'",
    );
    const committing = await connect();
    await committing.query(`BEGIN; ${FENCE}`);
    const taken = takeOver(openAnother(), "new");
    expect(await endsWithin(300, taken)).toBe(false);
    const late = await connect();
    await late.query(`BEGIN; SET LOCAL application_name = '${name}'; SELECT 1`);
    await committing.query("COMMIT");
    expect(await taken).toMatchObject({ runId: "new", epoch: 2 });
    await expect(late.query("SELECT 1")).rejects.toThrow(/terminat|connection/);
    await expect(warehouse.beginRun(old)).rejects.toMatchObject({ code: "lock_lost" });
  });

  test("an owner that renews its expired lock while a takeover waits keeps it", async () => {
    const reply = await warehouse.acquireLock(lockRequest("old", { lifeMs: 1 }));
    if (reply.kind === "refused") throw new Error("refused");
    const committing = await connect();
    await committing.query(`BEGIN; ${FENCE}`);
    const asking = openAnother().acquireLock(lockRequest("new"));
    expect(await endsWithin(300, asking)).toBe(false);
    expect(await warehouse.renewLock(reply.run, 3_600_000)).toBe(true);
    await committing.query("COMMIT");
    expect(await asking).toMatchObject({ kind: "refused", holders: [{ runId: "old" }] });
    await warehouse.beginRun(reply.run);
  });

  test("no transaction leaves settings or locks in a session", async () => {
    const run = await hold(warehouse, "run");
    await warehouse.beginRun(run);
    await warehouse.commitLookup(commitAbout(warehouse, run, "p-1"));
    await warehouse.releaseLock(run);
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
async function roleWith(context: PostgresContext, prefix: string, right: "SELECT" | "ALL"): Promise<string> {
  const schemas = "person_data, person_data_ops, person_data_state";
  const role = `${prefix}_${new URL(context.url).pathname.slice(1)}`;
  await context.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'secret';
    GRANT USAGE ON SCHEMA ${schemas} TO ${role}; GRANT ${right} ON ALL TABLES IN SCHEMA ${schemas} TO ${role}`);
  onTestFinished(async () => void (await context.sql(`DROP OWNED BY ${role}; DROP ROLE ${role}`)));
  const url = new URL(context.url);
  url.username = role;
  url.password = "secret";
  return url.href;
}

test("a role that may read everything has no right to a lock of ours, and a wait for one is limited and names its holder", async () => {
  const context = await openPostgresContext();
  onTestFinished(() => context.close());
  const url = await roleWith(context, "reader", "SELECT");
  for (const statement of [
    "BEGIN; LOCK TABLE person_data_state.schema_migration IN SHARE ROW EXCLUSIVE MODE",
    "BEGIN; LOCK TABLE person_data_state.schedule_slot IN SHARE ROW EXCLUSIVE MODE",
    "SELECT FROM person_data_state.job_request FOR UPDATE",
    "SELECT FROM person_data_ops.sync_run FOR UPDATE",
  ]) {
    await expect(runSql(url, statement)).rejects.toMatchObject({ code: "42501" });
  }
  const holder = await connectAsText(context.url);
  onTestFinished(() => holder.end());
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
      message: expect.stringMatching(/held for 100ms by session \d+ \(role \w+, application psql of Ann\)/u),
    });
    await holder.query("ROLLBACK TO SAVEPOINT held");
  }
  await inTransaction(pool, (session) => waitForLock(session, slots));
});

test("sessions that this role may not end don't block a takeover once they can't commit", async () => {
  const context = await openPostgresContext();
  onTestFinished(() => context.close());
  const url = await roleWith(context, "taker", "ALL");
  const run = await hold(context.warehouse, "old");
  const [name] = await columnOf(
    context,
    "SELECT 'person-etl ' || owner_token FROM person_data_state.job_lock",
  );
  const stuck = await connectAsText(context.url);
  onTestFinished(() => stuck.end());
  await stuck.query(`BEGIN; SET LOCAL application_name = '${name}'; SELECT 1`);
  const taker = openWarehouse({ url });
  onTestFinished(() => taker.close());
  expect(await takeOver(taker, "new")).toMatchObject({ epoch: 2 });
  await stuck.query("COMMIT");
  await expect(context.warehouse.beginRun(run)).rejects.toMatchObject({ code: "lock_lost" });
  await expect(context.warehouse.beginRun(runOf(spec))).rejects.toMatchObject({ code: "lock_lost" });
});
