import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { reportSpooled, spoolRoot } from "../../../src/jobs/lookup/job-spool.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { surveySpool } from "../../../src/spool/files.ts";
import { requestsOfJobs, type SeenRequests } from "../../support/requests-of-jobs.ts";
import { configOf, enrichOnly, jobOf, repeats, startWorld, unaccountedRows, type World } from "../world.ts";

async function spoolOf(world: World) {
  return await surveySpool(spoolRoot(await world.config()));
}

/** Paths of all files in the spool, below its root. */
async function spooledFiles(world: World): Promise<string[]> {
  const root = spoolRoot(await world.config());
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
}

/** A world whose run `first` received answers but couldn't commit any. */
async function startWithKept(rows: number, { jobs = enrichOnly, faults = "" } = {}) {
  const world = await startWorld({ rows, config: configOf(jobs) });
  await world.run({ maxRecords: 0 });
  await world.control("/faults", { faults });
  await world.rows(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
    CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON person_data_ops.api_call FOR EACH ROW
    WHEN (NEW.settled_at IS NOT NULL) EXECUTE FUNCTION refuse()`);
  const report = await world.run({ runId: "first" });
  await world.rows("DROP FUNCTION refuse CASCADE");
  await world.control("/faults", { faults: "" });
  const job = jobOf(report, "enrich_customers");
  expect([job.status, job.requests, unaccountedRows(job)]).toEqual(["failed", 0, 0]);
  expect(await world.value("SELECT count(*) FROM person_data.enrichment")).toBe("0");
  const kept = await spooledFiles(world);
  // The table refused them: that is no failed try of an answer.
  expect(kept.every((file) => /^\d{8}T\d{9}Z-[0-9a-f-]{36}\.call$/u.test(basename(file)))).toBe(true);
  const { contents } = await spoolOf(world);
  expect(contents.reduce((sum, { calls }) => sum + calls, 0)).toBe(kept.length);
  return { world, kept, message: job.error?.message, content: contents[0] };
}

/** Calls of the jobs, and distinct records, that the service received. */
async function received(world: World) {
  const ledger = await world.control<
    SeenRequests & {
      contents: { distinct_records: number };
    }
  >("/ledger");
  return { requests: requestsOfJobs(ledger), records: ledger.contents.distinct_records };
}

describe("answers that an earlier run received and could not load", () => {
  test("keep the parameters of their request after a change of the configuration", async () => {
    const jobs = enrichOnly.replace(" }", ", return_fields: [age, phones], refresh_after: 30d }");
    const { world } = await startWithKept(60, { jobs });
    const kind = await world.value("SELECT kind FROM person_data_state.lookup_job");
    // After the job's removal another one loads its answers.
    world.configure(configOf("\n  resolve_customers: { type: resolve, input: customers }"));
    await world.run();
    expect(await spooledFiles(world)).toEqual([]);
    world.configure(configOf(enrichOnly.replace(" }", ", refresh_after: 90d }")));
    const report = await world.run({ runId: "second" });
    expect(
      await world.rows(
        "SELECT DISTINCT kind FROM person_data_state.lookup_answer WHERE kind LIKE 'enrich:%'",
      ),
    ).toEqual([{ kind }]);
    // Fields that weren't requested are unknown, and not stored as empty.
    expect(await world.value("SELECT count(*) > 0 FROM person_data.person_phone")).toBe("t");
    expect(await world.value("SELECT count(*) FROM person_data.person_address")).toBe("0");
    // The answers were bought with other parameters: the user is asked, as after any such change.
    const end = { limited_by: "parameters_changed", records_sent: 0 };
    expect(jobOf(report, "enrich_customers")).toMatchObject(end);
  });

  test("that are damaged are reported and requested again, the others aren't", async () => {
    const { world, kept } = await startWithKept(2500);
    const [first = "", second = ""] = kept;
    const bytes = await readFile(first);
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 5) ^ 1, bytes.length - 5);
    await writeFile(first, bytes);
    await writeFile(second, (await readFile(second)).subarray(0, 100));
    const asked = (await received(world)).records;
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job.status).toBe("succeeded");
    const damaged = world.logged.filter(({ event }) => event === "spooled_answer_damaged");
    expect(damaged.map(({ fields }) => fields)).toMatchObject([
      { reason: "wrong_checksum", moved_to: first.replace("0-of-1", "quarantine") },
      { reason: "wrong_length", moved_to: second.replace("0-of-1", "quarantine") },
    ]);
    const twice = (await repeats(world)).received;
    expect(twice > 0 && twice <= 1000).toBe(true);
    expect(job.records_sent).toBe((await received(world)).records - asked + twice);
    expect((await spoolOf(world)).quarantined).toMatchObject([{ job: "enrich_customers", files: 2 }]);
  });

  test("that leave records out, or can't be read, are recorded; those records are due", async () => {
    const faults = "missing@enrich#1,truncated_json@enrich#2";
    const { world, kept } = await startWithKept(1500, { faults });
    const job = jobOf(await world.run({ runId: "second" }), "enrich_customers");
    expect([job.status, unaccountedRows(job), await spooledFiles(world)]).toEqual(["succeeded", 0, []]);
    expect(
      await world.rows(`SELECT possibly_billed, records_matched IS NULL AS unread, count(*) AS calls
        FROM person_data_ops.api_call WHERE run_id = 'first' GROUP BY 1, 2 ORDER BY 1`),
    ).toEqual([
      { possibly_billed: "f", unread: "f", calls: String(kept.length - 1) },
      { possibly_billed: "t", unread: "t", calls: "1" },
    ]);
    const twice = (await repeats(world)).received;
    expect(twice > 50 && twice <= 1000).toBe(true);
  });

  test("of a dead shard are loaded by the next division of the job", async () => {
    const { world, content } = await startWithKept(60);
    const folder = content?.folder ?? "";
    await rename(folder, join(dirname(folder), "3-of-4"));
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0 });
    expect(await spoolOf(world)).toEqual({ contents: [], quarantined: [] });
  });

  test("by a later version of the program stop the job: their records would be sent again", async () => {
    const { world, kept } = await startWithKept(60);
    const [file = ""] = kept;
    const bytes = await readFile(file);
    bytes.write("PETLSPL3", "latin1");
    await writeFile(file, bytes);
    const { requests } = await received(world);
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ status: "failed", error: { code: "spool_unknown_form" } });
    expect((await received(world)).requests).toBe(requests);
    expect(await spooledFiles(world)).toEqual(kept);
  });

  test("are loaded although two loads of them ended in a crash", async () => {
    const { world, kept } = await startWithKept(60);
    for (const file of kept) await rename(file, file.replace(".call", ".try2.call"));
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0 });
    expect(await spooledFiles(world)).toEqual([]);
  });

  test("are quarantined after three crashes: their records are rejected, nothing is sent again or blocked", async () => {
    const { world, kept } = await startWithKept(60);
    const tried = kept[0]?.replace(".call", ".try3.call") ?? "";
    await rename(kept[0] ?? "", tried);
    const { requests } = await received(world);
    const job = jobOf(await world.run({ runId: "second" }), "enrich_customers");
    expect(job).toMatchObject({ status: "succeeded", records_sent: 0 });
    expect([unaccountedRows(job), (await received(world)).requests]).toEqual([0, requests]);
    const quarantined = join(dirname(dirname(tried)), "quarantine", basename(tried));
    expect(await spooledFiles(world)).toEqual([quarantined]);
    expect(
      await world.rows("SELECT DISTINCT code, stage, run_id FROM person_data.reject WHERE stage <> 'input'"),
    ).toEqual([{ code: "answer_unloadable", stage: "load", run_id: "second" }]);
    expect(await world.rows("SELECT possibly_billed FROM person_data_ops.api_call")).toEqual([
      { possibly_billed: "t" },
    ]);
    const message = "1 received response of enrich_customers can't be loaded and is in quarantine";
    expect((await reportSpooled(await world.config(), null)).remarks).toMatchObject([
      { path: dirname(quarantined), message },
    ]);
  });

  test("are in the status, with the reason if no run loads them", async () => {
    const { world, content, message } = await startWithKept(60);
    expect(message).toMatch(
      /\d+ received responses? (?:is|are) saved in .*0-of-1; the next run of enrich_customers loads/u,
    );
    expect((await readStatus(await world.services())).jobs).toMatchObject([
      { waiting_answers: { calls: content?.calls, bytes: content?.bytes } },
    ]);
    const renamed = enrichOnly.replace("enrich_customers", "enrich_clients");
    for (const [jobs, why] of [
      [renamed, "a job that is no longer configured"],
      [renamed + enrichOnly.replace(" }", ", enabled: false }"), "disabled"],
    ] as const) {
      world.configure(configOf(jobs));
      const { answers_left_behind: left } = await readStatus(await world.services());
      expect(left).toMatchObject([{ folder: content?.folder, message: expect.stringContaining(why) }]);
    }
    const elsewhere = (await startWorld({ rows: 1 })).warehouse;
    await elsewhere.recordServiceHost("elsewhere:443");
    world.configure(configOf(enrichOnly));
    expect((await reportSpooled(await world.config(), elsewhere.db)).remarks).toMatchObject([
      { path: content?.folder, message: expect.stringContaining("to a warehouse other than") },
    ]);
  });
});

test("a spool with less space than one answer continues call by call", async () => {
  // Uncompressed, 500 people take about 3.5 MB.
  const world = await startWorld({ rows: 2200, config: configOf(enrichOnly), latencyMs: 30 });
  const { config } = await world.services();
  const report = await world.run({}, { config: { ...config, spoolBytes: 1024 ** 2 } });
  expect(jobOf(report, "enrich_customers")).toMatchObject({ status: "succeeded", records_remaining: 0 });
  expect(
    await world.value(`SELECT count(*) FROM person_data_ops.api_call AS a JOIN person_data_ops.api_call AS b
      ON a.call_id < b.call_id AND tstzrange(a.reserved_at, a.settled_at) && tstzrange(b.reserved_at, b.settled_at)`),
  ).toBe("0");
});
