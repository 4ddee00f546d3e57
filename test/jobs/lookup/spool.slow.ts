import { describe, expect, test } from "vitest";
import { parseFaults } from "../../../packages/sandbox/src/start-sandbox.ts";
import { surveySpool } from "../../../src/spool/files.ts";
import { reportWaiting, spoolRoot } from "../../../src/jobs/lookup/job-spool.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { configOf, jobOf, runWhileTableGoes, startWorld, unaccountedRows, type World } from "../world.ts";

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";

/** Files in the spool of a world's data_dir. */
async function spoolOf(world: World) {
  return await surveySpool(spoolRoot(await world.config()));
}

describe("the spool of a run", () => {
  test.each([
    ["that goes well", ""],
    ["whose answers leave records out", "missing:0.5"],
    ["of which an answer left out every record", "missing@enrich#1"],
    ["of which an answer couldn't be read", "truncated_json@enrich#1"],
  ])("%s is empty at its end", async (_name, faults) => {
    const rows = faults === "missing@enrich#1" ? 1 : 40;
    const world = await startWorld({
      rows,
      config: configOf(enrichOnly),
      faults: parseFaults(faults),
    });
    const job = jobOf(await world.run(), "enrich_customers");
    expect(job.status).toBe("succeeded");
    expect(await spoolOf(world)).toEqual({ contents: [], quarantined: [] });
  });

  test("with a bound below the size of one answer continues call by call", async () => {
    // Uncompressed, 500 people take about 3.5 MB.
    const world = await startWorld({ rows: 2200, config: configOf(enrichOnly), latencyMs: 30 });
    const { config } = await world.services();
    const report = await world.run({}, { config: { ...config, spoolBytes: 1024 ** 2 } });
    expect(jobOf(report, "enrich_customers")).toMatchObject({ status: "succeeded", records_remaining: 0 });
    expect(await spoolOf(world)).toEqual({ contents: [], quarantined: [] });
    // One call ends before the next one begins.
    expect(
      await world.value(`SELECT count(*) FROM person_data_ops.api_call AS a JOIN person_data_ops.api_call AS b
        ON a.call_id < b.call_id AND tstzrange(a.reserved_at, a.settled_at) && tstzrange(b.reserved_at, b.settled_at)`),
    ).toBe("0");
  });

  test("keeps every paid answer when the warehouse fails", async () => {
    const world = await startWorld({ rows: 6000, config: configOf(enrichOnly), latencyMs: 50 });
    const report = await runWhileTableGoes(world, "person_phone");
    expect(jobOf(report, "enrich_customers").status).toBe("failed");
    // Answer of the sandbox's controls.
    const ledger = (await world.control("/ledger")) as { endpoints: Record<string, { requests: number }> };
    const requests = ledger.endpoints["POST /v2/enrich"]?.requests ?? 0;
    const loaded = Number(
      await world.value("SELECT count(*) FROM person_data_ops.api_call WHERE settled_at IS NOT NULL"),
    );
    const { contents } = await spoolOf(world);
    expect(contents).toMatchObject([{ job: "enrich_customers", shard: "0/1", calls: requests - loaded }]);
    expect(requests - loaded).toBeGreaterThan(0);
    const [job] = report.jobs;
    expect(job?.error?.message).toMatch(
      /\d+ received answers? (?:is|are) saved in .*0-of-1; the next run of enrich_customers loads/u,
    );
    // They count when they are loaded.
    expect(job).toMatchObject({ requests: loaded });
    expect(job && unaccountedRows(job)).toBe(0);

    const services2 = await world.services();
    const [content] = contents;
    expect((await readStatus(services2)).jobs).toMatchObject([
      { job: "enrich_customers", waiting_answers: { calls: content?.calls, bytes: content?.bytes } },
    ]);
    expect((await reportWaiting(services2.config, null)).remarks).toEqual([]);
    const renamed = enrichOnly.replace("enrich_customers", "enrich_clients");
    for (const [jobs, why] of [
      [renamed, "a job that is no longer configured"],
      [`${renamed}\n  enrich_customers: { type: enrich, input: customers, enabled: false }`, "disabled"],
    ] as const) {
      world.configure(configOf(jobs));
      const status = await readStatus(await world.services());
      expect(status.answers_left_behind).toMatchObject([
        {
          folder: content?.folder,
          message: expect.stringContaining(why),
          hint: expect.stringContaining("to load them"),
        },
      ]);
    }
    const elsewhere = (await startWorld({ rows: 1, config: enrichOnly })).warehouse;
    await elsewhere.migrate();
    await elsewhere.writeServiceHost("elsewhere:443", { replace: false });
    world.configure(configOf(enrichOnly));
    expect((await reportWaiting(await world.config(), elsewhere.db)).remarks).toMatchObject([
      { path: content?.folder, message: expect.stringContaining("to a warehouse other than") },
    ]);
  });
});
