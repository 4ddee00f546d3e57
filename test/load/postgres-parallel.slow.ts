import { describe, expect, test } from "vitest";
import { openWarehouse, type Warehouse } from "../support/bound-load.ts";
import { connect, open } from "./bare-database.ts";
import { personChildren } from "../../src/schemas/person.ts";
import { openDoor } from "../support/door.ts";
import { useContext } from "./postgres-context.ts";
import { erase, makeCouple } from "./suite/erased-couple.ts";
import { ANSWERED_AT, commitOf, holdJobs, runOf, reserveAt } from "./suite/nights.ts";
import { enrichSpec, makePeople, validateSpec } from "./suite/people.ts";
import { looseRecord, readRows, wholePerson } from "./suite/person-updates.ts";
import { columnOf, untilWaiting, valueOf } from "./suite/context.ts";
import type { LookupCommit } from "../../src/load/lookups/commit.ts";
import type { LookupRecord, LookupSpec } from "../../src/load/lookups/lookup.ts";

const context = useContext();

const spec = enrichSpec();
const run = runOf(spec, "run-1");

const openAnother = (url = context.url, schema = "person_data"): Warehouse =>
  open(url, [schema, `${schema}_ops`, `${schema}_state`]);

/** A second of one morning. */
const at = (second: number) =>
  new Date(Date.UTC(2026, 10, 21, 4, 0, second)).toISOString().replace("Z", "+00:00");

/** Answers about these persons, in this order; their content depends only on the second. */
function commitAbout(warehouse: Warehouse, numbers: readonly number[], second: number): LookupCommit {
  const replies = numbers.map((n) => {
    const pid = `p-${String(n).padStart(3, "0")}`;
    const person = wholePerson(pid, {
      full_name: `${pid} at ${second}`,
      age: second % 3,
      phones: Array.from({ length: (n + second) % 4 }, (_, i) => ({
        phone_rank: i,
        phone_number: `${second}-${i}`,
      })),
      education_experience: [{ education_majors: [`major of ${second % 2}`], education_minors: ["Art"] }],
    });
    return [looseRecord(`${second} ${pid}`), { pid, person }] as const;
  });
  return commitOf(warehouse, spec, run, replies, { completedAt: at(second) });
}

/** Record of an address. */
function addressRecord(address: string): LookupRecord {
  const content = Buffer.from(address).toString("hex");
  return { recordId: content.slice(0, 32), json: JSON.stringify(address), address, content, sentPid: null };
}

/** Has the run read the rows of commits. */
async function readRowsOf(warehouse: Warehouse, commits: readonly LookupCommit[]): Promise<void> {
  const keys = commits.flatMap(({ answers }) =>
    answers.map(({ record }) => String(JSON.parse(record.json).first_name)),
  );
  await readRows({ ...context, warehouse }, spec, run, keys);
}

/** Reserves the calls of commits in order, before any load; `first` is the number of the first one. */
async function reserveInOrder(
  warehouse: Warehouse,
  first: number,
  commits: readonly LookupCommit[],
): Promise<readonly LookupCommit[]> {
  for (const [i, commit] of commits.entries()) {
    const time = commit.answers[0]?.completedAt ?? ANSWERED_AT;
    await reserveAt(warehouse, commit, { at: time, callNumber: first + i });
  }
  return commits;
}

const contentTables = [
  "person",
  ...personChildren.map((table) => table.name),
  "enrichment",
  "match_history",
  "lookup_answer",
  "person_state",
];

/** Schema of a table, after the name of the first schema. */
const suffixOf = (table: string) => (["lookup_answer", "person_state"].includes(table) ? "_state" : "");

/** All loaded rows, without bookkeeping columns. */
async function contentOf(schema: string): Promise<Readonly<Record<string, readonly (string | null)[]>>> {
  const contents: Record<string, readonly (string | null)[]> = {};
  for (const table of contentTables) {
    contents[table] = await columnOf(
      context,
      `SELECT (to_jsonb(t) - '_synced_at' - '_record_synced_at' - '_run_id' - 'call_id')::text FROM ${schema}${suffixOf(table)}.${table} AS t
      ORDER BY 1`,
    );
  }
  return contents;
}

describe("loaders in parallel", () => {
  test.each([
    [2, 50],
    [4, 15],
  ])(
    "%i of them about the same persons in opposite orders come to what one after the other does, %i times, at the first try",
    async (count, rounds) => {
      const sequential = openAnother(context.url, "sequential");
      await sequential.migrate();
      await context.sql("DELETE FROM sequential_state.job_lock");
      await holdJobs(sequential);
      for (const table of contentTables) {
        await context.sql(`DELETE FROM sequential${suffixOf(table)}.${table}`);
      }
      const loaders = Array.from({ length: count }, () => openWarehouse({ url: context.url }));
      // Conflicts and deadlocks would be retried, but cost time.
      const rolledBack = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
      const before = await valueOf(context, rolledBack);
      for (let round = 0; round < rounds; round++) {
        // Every round has persons of the last one and new ones.
        const numbers = Array.from({ length: 12 }, (_, i) => round * 6 + i);
        const orders = [
          numbers,
          numbers.toReversed(),
          [...numbers.slice(6), ...numbers.slice(0, 6)],
          numbers.slice(3),
        ];
        const commitsFor = (warehouse: Warehouse) =>
          reserveInOrder(
            warehouse,
            round * 4 + 1,
            loaders.map((_, i) => commitAbout(warehouse, orders[i] ?? [], round * 4 + i)),
          );
        const commits = await commitsFor(context.warehouse);
        await readRowsOf(context.warehouse, commits);
        await readRowsOf(sequential, commits);
        await Promise.all(commits.map(async (commit, i) => loaders[i]?.commitLookup(commit)));
        for (const commit of await commitsFor(sequential)) await sequential.commitLookup(commit);
      }
      // A session reports its rollbacks when it ends.
      await Promise.all(loaders.map((loader) => loader.close()));
      expect(await valueOf(context, rolledBack)).toBe(before);
      expect(await contentOf("person_data")).toEqual(await contentOf("sequential"));
      expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe(String(rounds * 6 + 6));
    },
  );

  test("two processes that load answers to the same rows at once keep the later one, and double no interval", async () => {
    const other = openAnother();
    for (let round = 0; round < 10; round++) {
      const replies = Array.from(
        { length: 10 },
        (_, i) => [looseRecord(`${round} ${i}`), { pid: `p-${i}` }] as const,
      );
      const commit = commitOf(context.warehouse, spec, run, replies, { completedAt: at(1) });
      const later = commitOf(other, spec, run, replies.toReversed(), { completedAt: at(2) });
      await readRowsOf(context.warehouse, [commit]);
      await reserveInOrder(context.warehouse, 1, [commit, later]);
      await Promise.all([context.warehouse.commitLookup(commit), other.commitLookup(later)]);
    }
    const counts = `SELECT (SELECT count(*) FROM person_data.enrichment) AS rows, (SELECT count(*) FROM person_data.match_history) AS intervals,
      (SELECT string_agg(DISTINCT answered_at::text, '') FROM person_data_state.lookup_answer) AS at`;
    expect(await context.sql(counts)).toEqual([
      { rows: "100", intervals: "100", at: "2026-11-21 04:00:02+00" },
    ]);
  });

  test("two jobs that validate the same addresses at once keep the answer of the later call", async () => {
    const [one, two] = [validateSpec({ job: "one" }), validateSpec({ job: "two" })];
    const commitOfJob = (spec: LookupSpec, round: number, second: number, isReversed: boolean) => {
      const addresses = Array.from({ length: 20 }, (_, i) => `${round * 10 + i}@example.com`);
      const replies = (isReversed ? addresses.toReversed() : addresses).map(
        (address) => [addressRecord(address), { pid: "", status: `status ${second}` }] as const,
      );
      return commitOf(context.warehouse, spec, runOf(spec), replies, { completedAt: at(second) });
    };
    for (let round = 0; round < 20; round++) {
      const commits = await reserveInOrder(context.warehouse, round * 2 + 1, [
        commitOfJob(one, round, round * 2, false),
        commitOfJob(two, round, round * 2 + 1, true),
      ]);
      await Promise.all(commits.map((commit) => context.warehouse.commitLookup(commit)));
    }
    expect(await valueOf(context, "SELECT count(*) FROM person_data.email_validation")).toBe("210");
    expect(
      await columnOf(
        context,
        "SELECT DISTINCT email_validation_status FROM person_data.email_validation WHERE email_address LIKE '20_@%'",
      ),
    ).toEqual(["status 39"]);
  });
});

test("an incremental reader misses nothing that an erasure removes, however long it takes", async () => {
  await makeCouple(context);
  const copy = new Map<string, readonly (string | null)[]>();
  let readUntil = "-infinity";
  const readChanges = async () => {
    const safe = await valueOf(
      context,
      "SELECT safe_until FROM person_data_ops.table_freshness WHERE table_name = 'person'",
    );
    const changed = await columnOf(
      context,
      `SELECT service_pid FROM person_data.person WHERE _record_synced_at > '${readUntil}' AND _record_synced_at <= '${safe}'`,
    );
    for (const pid of changed) {
      const relatives = `SELECT relative_service_pid FROM person_data.person_relative WHERE service_pid = '${pid}'`;
      copy.set(String(pid), await columnOf(context, relatives));
    }
    readUntil = String(safe);
  };
  await readChanges();
  expect(copy.get("p-ann")).toEqual(["p-bob"]);
  const holder = await connect(context.url);
  await holder.query("BEGIN; LOCK TABLE person_data.segment_member IN SHARE ROW EXCLUSIVE MODE");
  const erasing = erase(context, { pids: ["p-bob"] });
  await untilWaiting(context);
  await readChanges();
  await holder.query("COMMIT");
  await erasing;
  await readChanges();
  expect(copy.get("p-ann")).toEqual([]);
});

test("a push leaves out people erased while its query is read", async () => {
  await makePeople(context, []);
  await context.sql("CREATE TABLE crm.vip AS SELECT 'p-' || n AS pid FROM generate_series(1, 3) AS n");
  await context.warehouse.beginRun(run);
  const source = {
    ...spec.input,
    key: ["service_pid"],
    relation: { sql: "SELECT pid AS service_pid FROM crm.vip" },
    fields: {},
  };
  await context.sql("BEGIN; LOCK TABLE crm.vip");
  const reading = context.warehouse.readWanted(run, "s-1", source);
  await untilWaiting(context);
  await erase(context, { pids: ["p-2"] });
  await context.sql("COMMIT");
  expect(await reading).toMatchObject({ read: 3, suppressed: 1, wanted: 2 });
});

test("a commit whose connection is lost between COMMIT and its reply is found to be done", async () => {
  const door = await openDoor(context.url, { isOpen: true });
  const warehouse = openAnother(door.url);
  await context.warehouse.beginRun(run);
  const commit = commitAbout(warehouse, [1, 2], 1);
  await readRowsOf(context.warehouse, [commit]);
  door.cutAtCommit();
  const result = await warehouse.commitLookup(commit);
  expect(door.cuts()).toBe(1);
  // Two persons, 2 + 3 phones, two studies, two enrichments and intervals.
  expect(result).toMatchObject({ rowsWritten: 13, notLoadable: [] });
  expect(await valueOf(context, "SELECT count(*) FROM person_data.person")).toBe("2");
  expect(await columnOf(context, "SELECT is_first FROM person_data_state.lookup_answer")).toEqual([
    "true",
    "true",
  ]);
  expect(await context.sql("SELECT requests, rows_written FROM person_data_ops.sync_run")).toEqual([
    { requests: "1", rows_written: "13" },
  ]);
});
