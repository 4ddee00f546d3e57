import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import type { LookupSpec } from "../../src/load/lookups/lookup.ts";
import { asWriter } from "../../src/load/runs/lock.ts";
import { noCounts } from "../../src/load/runs/runs.ts";
import type { StateChange } from "../../src/load/runs/alerts.ts";
import type { SchedulerProcess, SlotClaim } from "../../src/load/runs/slots.ts";
import type { Retention } from "../../src/load/runs/retention.ts";
import type { Attempt } from "../../src/schemas/ledger.ts";
import { retentionRules } from "../../src/schemas/registry.ts";
import { recordsOf } from "../support/keyed-records.ts";
import { useContext } from "./postgres-context.ts";
import { columnOf, valueOf } from "./suite/context.ts";
import {
  begin,
  callOf,
  commitOf,
  endOf,
  matchAll,
  runNight,
  runOf,
  seizeShard,
  tester,
} from "./suite/nights.ts";
import { addPeople, enrichSpec, makePeople } from "./suite/people.ts";
import { looseRecord, wholePerson } from "./suite/person-updates.ts";

const context = useContext();

const spec = enrichSpec();

/** Changes entries of `sync_run` as they are made, until the end of the test: later they are locked. */
async function changeEntries(statement: string): Promise<void> {
  const change = "person_data_state.change_entry";
  await context.sql(`CREATE FUNCTION ${change}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ${statement.replaceAll("'", "''")} RETURN NEW; END';
    CREATE TRIGGER change_entry BEFORE INSERT ON person_data_ops.sync_run FOR EACH ROW EXECUTE FUNCTION ${change}()`);
  onTestFinished(async () => void (await context.sql(`DROP FUNCTION ${change} CASCADE`)));
}

describe("table_freshness", () => {
  test("is safe up to the start of a run that is under way, and up to now when none is", async () => {
    const { warehouse } = context;
    await makePeople(context, [{ id: "1", first_name: "Ann" }]);
    await runNight(context, spec, matchAll);
    const safeUntil = () => valueOf(context, "SELECT min(safe_until) FROM person_data_ops.table_freshness");
    const isSafe = (time: string) =>
      valueOf(context, `SELECT bool_and(safe_until > ${time}) FROM person_data_ops.table_freshness`);
    const newest = "(SELECT max(_synced_at) FROM person_data.person)";
    const run = await begin(warehouse, spec, randomUUID());
    const open = await safeUntil();
    expect(await isSafe("(SELECT max(_synced_at) FROM person_data.enrichment)")).toBe("true");
    await addPeople(context, [{ id: "2", first_name: "Bob" }]);
    const selection = await warehouse.selectLookup(spec, run);
    const bob = { pid: "p-bob", person: wholePerson("p-bob", { full_name: "Bob" }) };
    await warehouse.commitLookup(commitOf(warehouse, spec, run, [[looseRecord("Bob"), bob]]));
    expect(await safeUntil()).toBe(open);
    expect(await isSafe(newest)).toBe("false");
    await selection.close();
    await warehouse.endRun(run, endOf(selection.counts), null);
    expect(await isSafe(newest)).toBe("true");
  });

  test("is safe up to the start of a command that writes", async () => {
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
    const statuses = () =>
      columnOf(context, "SELECT status FROM person_data_ops.sync_run WHERE job = 'erase' ORDER BY 1");
    const backdate = "UPDATE person_data_ops.sync_run SET started_at = started_at - interval '1 minute'";
    await makePeople(context, [{ id: "1", first_name: "Ann" }]);
    await runNight(context, spec, matchAll);
    await context.sql(`INSERT INTO person_data_ops.sync_run SELECT (jsonb_populate_record(r, '{"run_id": "killed",
      "job": "erase", "job_type": "erase", "status": "running"}')).* FROM person_data_ops.sync_run AS r`);
    await context.sql(backdate);
    await changeEntries("NEW.started_at := NEW.started_at - interval '1 minute';");
    const during = await asWriter(context.warehouse.db, "erase", async () => {
      const job = { job: "another_job", jobType: "enrich", shard: "0/1", runId: "next" };
      await context.warehouse.acquireLock({ ...job, process: tester, lifeMs: 3_600_000, dead: [] });
      return statuses();
    });
    expect(during).toEqual(["failed", "running"]);
    expect(await statuses()).toEqual(["failed", "succeeded"]);
    const age = "SELECT min(safe_until) > now() - interval '30 seconds' FROM person_data_ops.table_freshness";
    expect(await valueOf(context, age)).toBe("true");
  });

  test("a command that was taken for killed writes nothing", async () => {
    await changeEntries("NEW.status := 'failed';");
    const command = asWriter(context.warehouse.db, "rejects", async (session) => {
      await session.client.query("CREATE TABLE person_data_state.written_late ()");
    });
    await expect(command).rejects.toMatchObject({ code: "writer_suspended" });
    expect(await valueOf(context, "SELECT to_regclass('person_data_state.written_late')")).toBe(null);
  });
});

const shardOf = (index: number, count: number, changes: Partial<LookupSpec> = {}): LookupSpec => ({
  ...spec,
  ...changes,
  shard: { index, count },
});

const select = async (shard: LookupSpec, runId: string = randomUUID()) =>
  context.warehouse.selectLookup(shard, await begin(context.warehouse, shard, runId));

describe("shards of a run", () => {
  const twenty = Array.from({ length: 20 }, (_, i) => ({ id: String(i + 1), first_name: `Ann ${i}` }));

  test("that begin at the same time accept changed parameters once", async () => {
    await makePeople(context, twenty);
    await runNight(context, spec, matchAll);
    const changed = { kind: "enrich:others", acceptParameters: "keep" } as const;
    const selections = await Promise.all([0, 1, 2, 3].map((i) => select(shardOf(i, 4, changed))));
    expect(selections.reduce((total, { counts }) => total + counts.unchanged, 0)).toBe(20);
  });

  test("keep their claims when a sibling is taken over", async () => {
    await makePeople(context, twenty);
    const shared = randomUUID();
    await select(shardOf(0, 2), shared);
    const living = await select(shardOf(1, 2), shared);
    // The first process is dead.
    await seizeShard(context.warehouse, runOf(shardOf(0, 2)));
    const successor = await select(shardOf(0, 2));
    expect(await recordsOf(context.warehouse.db, spec, living)).toHaveLength(living.counts.toSend);
    expect(living.counts.toSend + successor.counts.toSend).toBe(20);
  });
});

const LONG_MS = 3_600_000;
const DAY_MS = 86_400_000;

const scheduler = (owner: string): SchedulerProcess => ({ owner, host: "node-1", pid: 4711 });

/** Slot at 01:15 of a day in November. */
function claimOf(job: string, day: number, runId = `run-${job}-${day}`): SlotClaim {
  return { job, slot: `2026-11-${day}T01:15 UTC`, dueAt: `2026-11-${day}T01:15:00Z`, runId };
}

/** Time so many days ago. */
const ago = (days: number): string => new Date(Date.now() - days * DAY_MS).toISOString();

/** Current state of one job. */
const job = (state: string) => [{ subject: "job enrich", state }];

function keep(table: (typeof retentionRules)[number]["table"], days: number): Retention {
  const rule = retentionRules.find((one) => one.table === table);
  if (!rule) throw new Error(`no rule for ${table}`);
  return { rule, keepMs: days * DAY_MS };
}

describe("slots of a schedule", () => {
  test("are granted to one of many who claim them at the same time", async () => {
    const { warehouse } = context;
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

  test("that are finished, held, or older than a known one are granted to no one", async () => {
    const { warehouse } = context;
    const claim = (day: number, owner = "two") =>
      warehouse.claimSlots([claimOf("resolve", day)], scheduler(owner), LONG_MS);
    expect(await claim(21, "one")).toHaveLength(1);
    expect(await claim(22)).toEqual([]);
    await warehouse.endSlots("one", [{ ...claimOf("resolve", 21), status: "succeeded" }]);
    expect([await claim(21), await claim(20)]).toEqual([[], []]);
    expect(await claim(22)).toHaveLength(1);
  });

  test("of a scheduler that died are claimed again, or missed once a newer one is due", async () => {
    const { warehouse } = context;
    const claims = [claimOf("resolve", 21), claimOf("enrich", 21)];
    await warehouse.claimSlots(claims, scheduler("dead"), LONG_MS);
    expect(await warehouse.claimSlots(claims, scheduler("two"), LONG_MS)).toEqual([]);
    // As if its clock had been ahead.
    await context.sql(`UPDATE person_data_state.schedule_slot SET _synced_at = _synced_at + interval '2 h',
      expires_at = expires_at + interval '2 h'`);
    expect(await warehouse.newestSlots()).toMatchObject([{ isHeld: false }, { isHeld: false }]);
    await context.sql(
      "UPDATE person_data_state.schedule_slot SET _synced_at = claimed_at, expires_at = claimed_at",
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
});

/** Changes that are reported when the job is in this state. */
async function reportedIn(state: string, runId: string): Promise<readonly StateChange[]> {
  const all: StateChange[] = [];
  await context.warehouse.reportChanges(job(state), runId, async (changes) => all.push(...changes) > 0);
  return all;
}

describe("states of alerts", () => {
  test("are reported once per change, to one of many", async () => {
    expect(await reportedIn("ok", "run-1")).toEqual([]);
    const reported = await Promise.all(Array.from({ length: 6 }, () => reportedIn("failed", "run-2")));
    expect(reported.flat()).toEqual([{ subject: "job enrich", state: "failed", before: "ok" }]);
    expect(await reportedIn("failed", "run-3")).toEqual([]);
    expect(await reportedIn("ok", "run-4")).toEqual([
      { subject: "job enrich", state: "ok", before: "failed" },
    ]);
  });
});

describe("what is no longer kept", () => {
  test("is removed by age; open rejects and the newest run of each end stay", async () => {
    for (const [run_id, days, status] of [
      ["old", 50, "succeeded"],
      ["older", 60, "succeeded"],
      ["failed", 70, "failed"],
      ["new", 1, "limited"],
    ] as const) {
      const at = ago(days);
      const ofJob = { job: "enrich", shard: "0/1", job_type: "enrich", records_due: 0 };
      const run = { ...noCounts, ...ofJob, run_id, status, started_at: at, finished_at: at, _synced_at: at };
      await context.sql(
        "INSERT INTO person_data_ops.sync_run SELECT (json_populate_record(NULL::person_data_ops.sync_run, $1)).*",
        [JSON.stringify(run)],
      );
    }
    for (const [key, resolved] of [
      ["open", "NULL"],
      ["resolved", `'${ago(50)}'`],
    ] as const) {
      await context.sql(`INSERT INTO person_data.reject (reject_id, run_id, job, source, source_key, stage, code, message,
        created_at, resolved_at, _synced_at) VALUES ('00000000-0000-4000-8000-00000000000${key.length}', 'old', 'enrich',
        'customers', '${key}', 'send', 'no_identifier', 'm', '${ago(60)}', ${resolved}, '${ago(60)}')`);
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
});

/** SQL day before today in UTC, `YYYY-MM-DD`. */
const dayBefore = (days: number): string => ago(days).slice(0, 10);

/** A call for ten records that started and ended at one moment (UTC). */
const enrichCall = (time: string, changes: Partial<Attempt> = {}) => {
  const at = `${time}+00:00`;
  const call = { endpoint: "POST /v2/enrich", startedAt: at, requestCompletedAt: at, recordsSent: 10 };
  return callOf({ ...call, ...changes });
};

/** Commits calls, and the service's counts by endpoint and UTC day; those of past days are final. */
async function commitUsage(
  days: readonly (readonly [endpoint: string, day: string, count: number])[],
  calls: readonly Attempt[],
) {
  const counts = ["total_requests", "num_input_records", "num_resolvable_records", "num_matches"];
  const columns = [
    "endpoint",
    "bucketing_size",
    "timezone",
    "bucket_start",
    "bucket_start_local",
    "bucket_end",
  ];
  const rows = days.map(([endpoint, day, count]) => {
    const end = new Date(Date.parse(day) + DAY_MS).toISOString();
    const bucket = [endpoint, "day", "UTC", `${day}T00:00:00Z`, `${day}T00:00:00`, end];
    return [...bucket, ...counts.map(() => String(count)), "2026-11-21T04:00:00Z", "true"];
  });
  const table = "endpoint_usage_bucket";
  const upserts = [{ table, columns: [...columns, ...counts, "observed_at", "is_final"], rows }];
  await context.warehouse.commitFeed({ run: runOf({ job: "another", type: "enrich" }), calls, upserts });
}

const compared = (columns: string) =>
  columnOf(
    context,
    `SELECT concat_ws(' ', endpoint, day, ${columns}) FROM person_data_ops.usage_reconciliation
    WHERE reported IS NOT NULL ORDER BY endpoint, day`,
  );

describe("usage_reconciliation", () => {
  test("compares our answered calls with the service's counts, by its own day", async () => {
    const statuses = (second: number, list: readonly (number | null)[]) =>
      list.map((httpStatus) => enrichCall(`2026-11-20T00:00:0${second}`, { httpStatus }));
    await commitUsage(
      [
        ["v2/enrich", "2026-11-19", 5],
        ["v2/enrich", "2026-11-20", 1],
        ["v1/resolve", "2026-11-19", 3],
      ],
      [
        enrichCall("2026-11-19T23:59:59.999999"),
        enrichCall("2026-11-19T12:00:00"),
        enrichCall("2026-11-20T00:00:00"),
        ...statuses(1, [null, 408, 500, 502, 504, 507]),
        ...statuses(2, [307, 400, 402, 404, 409, 413, 422, 429, 503]),
        // No connection.
        enrichCall("2026-11-20T00:00:03", { httpStatus: null, isSent: false, recordsSent: 0 }),
      ],
    );
    // Ours, reported, others', our records, ours in doubt, ours refused.
    expect(await compared("ours, reported, not_ours, ours_records, ours_in_doubt, ours_refused")).toEqual([
      "v1/resolve 2026-11-19 0 3 3 0 0 0",
      "v2/enrich 2026-11-19 2 5 3 20 0 0",
      "v2/enrich 2026-11-20 1 1 0 10 6 9",
    ]);
  });

  test("leaves out months whose calls were removed, and the day on which that ended", async () => {
    const { warehouse } = context;
    await warehouse.recordServiceHost("service.example:443");
    // A month is removed as a whole: 100 days ago, none of the month of that day.
    const [first, third] = [dayBefore(142), dayBefore(98)];
    const second = `${dayBefore(100).slice(0, 8)}01`;
    const calls = [dayBefore(141), third].map((day) => enrichCall(`${day}T12:00:00`));
    await commitUsage(
      [first, second, third].map((day) => ["v2/enrich", day, 1] as const),
      calls,
    );
    // Retention goes by our clock.
    expect(await warehouse.removeOld([keep("api_call", 30)])).toEqual({ api_call: 0 });
    await context.sql("UPDATE person_data_ops.api_call SET _synced_at = started_at");
    expect(await warehouse.removeOld([keep("api_call", 200)])).toEqual({ api_call: 0 });
    const kept = `v2/enrich ${third} 1 0`;
    expect(await compared("ours, not_ours")).toEqual([
      `v2/enrich ${first} 0 1`,
      `v2/enrich ${second} 0 1`,
      kept,
    ]);
    expect(await warehouse.removeOld([keep("api_call", 100)])).toEqual({ api_call: 1 });
    const cut = [`v2/enrich ${first}`, `v2/enrich ${second}`, kept];
    expect(await compared("ours, not_ours")).toEqual(cut);
    // Removed rows don't return when the retention grows.
    await warehouse.removeOld([keep("api_call", 200)]);
    expect(await compared("ours, not_ours")).toEqual(cut);
  });
});
