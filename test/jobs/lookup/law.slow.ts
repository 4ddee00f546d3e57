import { expect, test } from "vitest";
import type { JobReport } from "../../../src/jobs/job.ts";
import type { InputShard } from "../../../src/load/lookups/lookup.ts";
import { ownsKey } from "../../../src/load/lookups/content.ts";
import { startWorld, unaccountedRows, type World } from "../world.ts";
import * as fc from "../../support/fast-check.ts";

/** Events of one night. */
interface Night {
  /** Changes the input before the run. */
  readonly change: string;
  readonly faults: string;
  readonly maxRecords: number | null;
  /** Records that the service's plan covers. */
  readonly capacity: number | null;
  /** Commits before a signal; null for none. */
  readonly stopAfter: number | null;
  readonly resend: boolean;
  readonly shards: number;
}

const JOBS = ["resolve_customers", "validate_customers", "enrich_customers"];

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null, freq: 2 });

const nights: fc.Arbitrary<Night> = fc.record({
  change: fc.constantFrom(
    "SELECT 1",
    "UPDATE crm.customers SET city = 'Moved ' || id WHERE id % 7 = 0",
    "UPDATE crm.customers SET first_name = 'Poison' WHERE id % 41 = 0",
    "UPDATE crm.customers SET email = 'shared@example.com', work_email = NULL WHERE id % 11 = 0",
    "UPDATE crm.customers SET first_name = NULL, last_name = ' ' WHERE id % 13 = 0",
    "INSERT INTO crm.customers SELECT id + (SELECT max(id) FROM crm.customers), first_name, last_name, email, work_email, phone, linkedin, street, city, state, zip, updated_at FROM crm.customers WHERE id % 17 = 0",
  ),
  faults: fc.constantFrom(
    "",
    "503:0.3,429=0:0.2",
    "missing:0.6,duplicated:0.5,shuffled:0.5",
    "500:0.5",
    "cut_body:0.4,truncated_json:0.3",
    "413=40,missing:0.4",
    "forbidden@validate_emails#2-",
    "revoked#4-",
  ),
  maxRecords: maybe(fc.integer({ min: 0, max: 300 })),
  capacity: maybe(fc.integer({ min: 0, max: 200 })),
  stopAfter: maybe(fc.integer({ min: 0, max: 3 })),
  resend: fc.boolean(),
  shards: fc.constantFrom(1, 3),
});

const OUTCOMES = ["matched", "unmatched", "rejected", "answered"] as const;
type Covered = Record<(typeof OUTCOMES)[number], number>;

function readCovered(row: Readonly<Record<string, string | null>> | undefined): Covered | null {
  // Every outcome has a counter.
  return row ? (Object.fromEntries(OUTCOMES.map((name) => [name, Number(row[name])])) as Covered) : null;
}

/** Compares a run's counters with the tables; returns each job's coverage, or null without one. */
async function expectTrueTotals(world: World, runId: string, jobs: readonly JobReport[]) {
  const coverage = new Map<string, Covered | null>();
  for (const job of jobs) {
    const where = `run_id = '${runId}' AND job = '${job.job}'`;
    const [books] = await world.rows(`SELECT * FROM person_data_ops.sync_run WHERE ${where}`);
    expect(books).toMatchObject({
      status: job.status,
      limited_by: job.limited_by ?? null,
      records_read: String(job.records_read),
      records_sent: String(job.records_sent),
      records_remaining: String(job.records_remaining),
    });
    expect(await world.value(`SELECT count(*) FROM person_data_ops.api_call WHERE ${where}`)).toBe(
      String(job.requests),
    );
    const [row] = await world.rows(`SELECT * FROM person_data_ops.input_coverage WHERE ${where}`);
    coverage.set(job.job, readCovered(row));
  }
  return coverage;
}

/** Compares a shard's coverage with the answers to its rows, before another shard answers an equal content. */
async function expectTrueCoverage(
  world: World,
  shard: InputShard,
  job: string,
  coverage: Covered,
): Promise<void> {
  const addresses = ["email", "work_email"].map(
    (column) => `SELECT ${column} AS address FROM crm.customers AS c WHERE ${ownsKey(shard, "c.id::text")}`,
  );
  const answered =
    job === "validate_customers"
      ? `SELECT a.outcome FROM (${addresses.join(" UNION ")}) AS e
          JOIN person_data_state.lookup_answer AS a ON a.kind LIKE 'validate_emails:%' AND a.content = convert_to(e.address, 'UTF8')`
      : `SELECT a.outcome FROM person_data_state.lookup_row AS r JOIN person_data_state.lookup_job AS j USING (job, source)
          JOIN person_data_state.lookup_answer AS a ON a.kind = j.kind AND a.content = r.content
          WHERE job = '${job}' AND missing_since IS NULL AND ${ownsKey(shard, "r.source_key")}`;
  const [states] = await world.rows(`SELECT count(*) FILTER (WHERE outcome = 'matched') AS matched,
      count(*) FILTER (WHERE outcome = 'unmatched') AS unmatched, count(*) FILTER (WHERE outcome = 'rejected') AS rejected,
      count(*) FILTER (WHERE outcome <> 'rejected') AS answered
    FROM (${answered}) AS a`);
  expect({ job, shard, ...coverage }).toEqual({ job, shard, ...readCovered(states) });
}

async function spend(world: World, night: Night): Promise<void> {
  await world.rows(night.change);
  await world.control("/faults", { faults: `poison=Poison,${night.faults}` });
  await world.control("/capacity", { records: night.capacity });
  const stop = new AbortController();
  let commits = 0;
  const { progress } = await world.services();
  const count = () => {
    if (night.stopAfter !== null && commits++ >= night.stopAfter) stop.abort();
  };
  let rowsRead = 0;
  for (let index = 0; index < night.shards; index++) {
    const shard = { index, count: night.shards };
    const report = await world.run(
      { maxRecords: night.maxRecords, resend: night.resend, yes: true, shard },
      { signal: stop.signal, progress: { ...progress, start: count, advance: count } },
    );
    expect(report.jobs.map((job) => [job.job, unaccountedRows(job)])).toEqual(JOBS.map((job) => [job, 0]));
    expect(report.jobs.map((job) => job.error?.code)).not.toContain("counters_do_not_add_up");
    const coverages = await expectTrueTotals(world, report.run_id, report.jobs);
    for (const [job, coverage] of coverages)
      if (coverage !== null) await expectTrueCoverage(world, shard, job, coverage);
    rowsRead += report.jobs[0]?.records_read ?? 0;
  }
  // A signal before the last shard leaves its rows unread.
  if (stop.signal.aborted) return;
  expect(String(rowsRead)).toBe(await world.value("SELECT count(*) FROM crm.customers"));
}

test("every row read ends in exactly one way, and the run totals are right, after any nights", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(nights, { minLength: 3, maxLength: 4 }), async (given) => {
      const world = await startWorld({ rows: 400, people: 2000 });
      for (const night of given) await spend(world, night);

      // One undisturbed night brings everything up to date, and the next one has nothing to do.
      const good = {
        change: "SELECT 1",
        faults: "",
        maxRecords: null,
        capacity: null,
        stopAfter: null,
        resend: false,
        shards: 1,
      };
      await spend(world, good);
      const last = await world.run();
      expect(last.jobs.map((job) => [job.status, job.records_sent, job.records_waiting])).toEqual([
        ["succeeded", 0, 0],
        ["succeeded", 0, 0],
        ["succeeded", 0, 0],
      ]);
      expect(last.jobs.map((job) => job.records_unchanged)).toEqual(last.jobs.map((job) => job.records_read));
      await world.close();
    }),
    { numRuns: 3 },
  );
}, 300_000);
