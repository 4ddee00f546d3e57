import { copyFile, mkdir, readdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { spoolRoot } from "../../../src/jobs/lookup/job-spool.ts";
import { surveySpool } from "../../../src/spool/files.ts";
import { configOf, jobOf, repeats, startWorld, unaccountedRows, type World } from "../world.ts";
import { requestsOfJobs, type SeenRequests } from "../../support/requests-of-jobs.ts";

const enrich = (more = "") => `\n  enrich_customers: { type: enrich, input: customers${more} }`;

/** Tables that must be equal after any disturbance of a run. */
const TABLES = ["enrichment", "match_history", "person", "person_phone", "person_address", "lookup_answer"];

async function spoolOf(world: World) {
  return await surveySpool(spoolRoot(await world.config()));
}

/** Files of pending calls, oldest first. */
async function filesOf(world: World): Promise<string[]> {
  const { contents } = await spoolOf(world);
  const lists = await Promise.all(
    contents.map(async ({ folder }) => (await readdir(folder)).map((name) => join(folder, name))),
  );
  return lists.flat().toSorted();
}

/** A world whose first run, `first`, received answers but couldn't commit any. */
async function startWithKept(options: { rows: number; jobs?: string; faults?: string }) {
  const config = configOf(options.jobs ?? enrich());
  const world = await startWorld({ rows: options.rows, config });
  await world.run({ maxRecords: 0 });
  await world.control("/faults", { faults: options.faults ?? "" });
  await world.rows(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON person_data_ops.api_call FOR EACH ROW
    WHEN (NEW.settled_at IS NOT NULL) EXECUTE FUNCTION refuse()`);
  const report = await world.run({ runId: "first" });
  await world.rows("DROP FUNCTION refuse CASCADE");
  await world.control("/faults", { faults: "" });
  const job = jobOf(report, "enrich_customers");
  expect([job.status, job.requests, unaccountedRows(job)]).toEqual(["failed", 0, 0]);
  expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe("0");
  return { world, kept: await filesOf(world) };
}

async function contentOf(world: World, table: string): Promise<unknown> {
  const own =
    "_synced_at|_record_synced_at|_run_id|call_id|api_request_id|_at$|valid_from|call_number|group_call_numbers|is_first";
  const columns = await world.value(
    `SELECT string_agg(quote_ident(column_name), ', ' ORDER BY ordinal_position) FROM information_schema.columns
     WHERE table_schema LIKE 'person_data%' AND table_name = '${table}' AND column_name !~ '${own}'`,
  );
  return world.rows(
    `SELECT ${columns} FROM ${table === "lookup_answer" ? "person_data_state" : "person_data"}.${table} ORDER BY 1, 2, 3`,
  );
}

/** Answer of the sandbox's controls. */
async function received(world: World) {
  const ledger = (await world.control("/ledger")) as SeenRequests & {
    contents: { distinct_records: number };
  };
  return { ...ledger, requests: requestsOfJobs(ledger) };
}

describe("answers that an earlier run received and could not load", () => {
  test("are loaded first, as that run would have, and none of their records is sent again", async () => {
    const { world, kept } = await startWithKept({ rows: 9000 });
    expect(kept.length).toBeGreaterThanOrEqual(4);
    const before = await received(world);
    expect(before.requests).toBe(kept.length);
    const entry = () => world.rows("SELECT * FROM person_data_ops.sync_run WHERE run_id = 'first'");
    const entryBefore = await entry();

    const job = jobOf(await world.run({ runId: "second" }), "enrich_customers");
    expect([job.status, unaccountedRows(job), await filesOf(world)]).toEqual(["succeeded", 0, []]);
    const after = await received(world);
    expect(after.requests - before.requests).toBe(job.requests);
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });

    // The ledger is that of the first run; the second counts its answers as unchanged rows.
    const calls = await world.rows(`SELECT run_id, count(*) AS calls, sum(records_sent) AS sent,
      sum(records_matched) AS matched FROM person_data_ops.api_call GROUP BY run_id ORDER BY run_id`);
    expect(calls).toMatchObject([
      { run_id: "first", calls: String(kept.length) },
      {
        run_id: "second",
        calls: String(job.requests),
        sent: String(job.records_sent),
      },
    ]);
    expect(job.records_matched).toBe(calls.reduce((sum, { matched }) => sum + Number(matched), 0));
    expect(await entry()).toEqual(entryBefore);
    expect(job.records_unchanged + job.records_duplicate).toBeGreaterThanOrEqual(Number(calls[0]?.["sent"]));

    // Same result as without a disturbance.
    const undisturbed = await startWorld({ rows: 9000, config: configOf(enrich()) });
    await undisturbed.run();
    for (const table of TABLES) {
      expect(await contentOf(world, table)).toEqual(await contentOf(undisturbed, table));
    }
  });

  test("keep the parameters of their request after a change of the configuration", async () => {
    const { world, kept } = await startWithKept({
      rows: 60,
      jobs: enrich(", return_fields: [age, phones], refresh_after: 30d"),
    });
    expect(kept).toHaveLength(1);
    const kind = await world.value("SELECT kind FROM person_data_state.lookup_job");
    // After the job's removal another one loads its answers.
    world.configure(configOf("\n  resolve_customers: { type: resolve, input: customers }"));
    await world.run();
    expect(await filesOf(world)).toEqual([]);
    // Back again with all fields and a renamed input.
    world.configure(configOf(enrich(", refresh_after: 90d")));
    const report = await world.run({ runId: "second" });
    expect(await filesOf(world)).toEqual([]);
    expect(
      await world.rows(
        "SELECT DISTINCT kind FROM person_data_state.lookup_answer WHERE kind LIKE 'enrich:%'",
      ),
    ).toEqual([{ kind }]);
    // Fields that weren't requested are unknown, and not stored as empty.
    expect(await world.value("SELECT count(*) FROM person_data.person_phone")).not.toBe("0");
    expect(await world.value("SELECT count(*) FROM person_data.person_address")).toBe("0");
    // The answers were bought with other parameters: the user is asked, as after any such change.
    expect(jobOf(report, "enrich_customers")).toMatchObject({
      limited_by: "parameters_changed",
      records_sent: 0,
    });
    expect((await received(world)).contents.distinct_records).toBeGreaterThan(0);
    expect(await repeats(world)).toEqual({ received: 0, billed: 0 });
  });

  test("that are damaged are reported and requested again, the others aren't", async () => {
    const { world, kept } = await startWithKept({ rows: 2500 });
    const [first = "", second = ""] = kept;
    const bytes = await readFile(first);
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 5) ^ 1, bytes.length - 5);
    await writeFile(first, bytes);
    await writeFile(second, (await readFile(second)).subarray(0, 100));
    const asked = (await received(world)).contents.distinct_records;
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job.status).toBe("succeeded");
    const damaged = world.logged.filter(({ event }) => event === "spooled_answer_damaged");
    expect(damaged.map(({ fields }) => fields)).toMatchObject([
      { reason: "wrong_checksum", moved_to: first.replace("0-of-1", "quarantine") },
      { reason: "wrong_length", moved_to: second.replace("0-of-1", "quarantine") },
    ]);
    const twice = (await repeats(world)).received;
    expect(twice).toBeGreaterThan(0);
    expect(twice).toBeLessThanOrEqual(1000);
    expect(job.records_sent).toBe((await received(world)).contents.distinct_records - asked + twice);
    expect((await spoolOf(world)).quarantined).toMatchObject([{ job: "enrich_customers", files: 2 }]);
  });

  test("that leave records out, or can't be read, are recorded; those records are due", async () => {
    const { world, kept } = await startWithKept({
      rows: 1500,
      faults: "missing@enrich#1,truncated_json@enrich#2",
    });
    expect(kept.length).toBeGreaterThanOrEqual(2);
    const job = jobOf(await world.run({ runId: "second" }), "enrich_customers");
    expect([job.status, unaccountedRows(job), await filesOf(world)]).toEqual(["succeeded", 0, []]);
    expect(
      await world.rows(`SELECT run_id, possibly_billed, records_matched IS NULL AS unread, count(*) AS calls
        FROM person_data_ops.api_call WHERE run_id = 'first' GROUP BY 1, 2, 3 ORDER BY 2`),
    ).toEqual([
      { run_id: "first", possibly_billed: "f", unread: "f", calls: String(kept.length - 1) },
      { run_id: "first", possibly_billed: "t", unread: "t", calls: "1" },
    ]);
    expect(
      await world.value(
        "SELECT count(*) FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content) WHERE outcome <> 'rejected'",
      ),
    ).toBe(await world.value("SELECT count(*) FROM person_data.enrichment"));
    expect((await repeats(world)).received).toBeGreaterThan(50);
    expect((await repeats(world)).received).toBeLessThanOrEqual(1000);
  });

  test("of a dead shard are loaded by the next division of the job", async () => {
    const { world, kept } = await startWithKept({ rows: 60 });
    const folder = dirname(kept[0] ?? "");
    await rename(folder, join(dirname(folder), "3-of-4"));
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0 });
    expect(await spoolOf(world)).toEqual({ contents: [], quarantined: [] });
  });

  test("and had been loaded before a crash could remove them change nothing", async () => {
    const { world, kept } = await startWithKept({ rows: 60 });
    const [file = ""] = kept;
    const copy = join(dirname(dirname(dirname(file))), basename(file));
    await copyFile(file, copy);
    await world.run();
    const books = "SELECT * FROM person_data_ops.sync_run WHERE run_id = 'first'";
    const before = [
      await world.rows(books),
      await world.rows("SELECT * FROM person_data_state.lookup_answer ORDER BY content"),
    ];
    await mkdir(dirname(file), { recursive: true });
    await rename(copy, file);
    expect(jobOf(await world.run(), "enrich_customers")).toMatchObject({
      status: "succeeded",
      records_sent: 0,
    });
    expect([
      await world.rows(books),
      await world.rows("SELECT * FROM person_data_state.lookup_answer ORDER BY content"),
    ]).toEqual(before);
    expect(await filesOf(world)).toEqual([]);
  });

  test("by a later version of the program stop the job: their records would be sent again", async () => {
    const { world, kept } = await startWithKept({ rows: 60 });
    const [file = ""] = kept;
    const bytes = await readFile(file);
    bytes.write("PETLSPL2", "latin1");
    await writeFile(file, bytes);
    const { requests } = await received(world);
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ status: "failed", error: { code: "spool_unknown_form" } });
    expect((await received(world)).requests).toBe(requests);
    expect(await filesOf(world)).toEqual(kept);
  });
});
