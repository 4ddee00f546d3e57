import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { exampleQueries } from "../../src/cli/commands/database.ts";
import { launcher, runCli, runJson } from "./support/cli.ts";
import { ENDS } from "./support/ends.ts";
import { makeSetting } from "./support/setting.ts";

// Whole processes one after the other, and several tests of them at a time.
vi.setConfig({ testTimeout: 180_000 });

/** One job in the document of `run --json`. */
type Job = Readonly<Record<string, number>> & {
  readonly job: string;
  readonly status: string;
};

function jobsOf(document: { readonly [key: string]: unknown }): readonly Job[] {
  return document["jobs"] as readonly Job[]; // by the contract
}

test.concurrent("check, plan, two runs and status print one document each, and the second run sends nothing", async () => {
  const setting = await makeSetting({ rows: 400 });
  const { query } = setting;

  const checked = await runJson(["check"], setting);
  expect([checked.code, checked.document.status]).toEqual([0, "succeeded"]);
  expect(await query("SELECT nspname FROM pg_namespace WHERE nspname ~ '^(crm|person)'")).toEqual([]);

  const first = await runJson(["run", "--run-id", "night-1"], setting);
  expect([first.code, first.document.status, first.document["run_id"]]).toEqual([0, "succeeded", "night-1"]);
  const jobs = jobsOf(first.document);
  expect(jobs.map(({ job, status }) => [job, status])).toEqual([
    ["resolve_customers", "succeeded"],
    ["validate_customers", "succeeded"],
    ["enrich_customers", "succeeded"],
  ]);
  for (const job of jobs) {
    expect(ENDS.reduce((sum, end) => sum + (job[end] ?? 0), 0)).toBe(job["records_read"]);
  }
  expect(jobs[2]?.["records_matched"]).toBeGreaterThan(300);
  expect(await query("SELECT count(*)::int AS people FROM person_data.person")).toEqual([
    { people: jobs[2]?.["records_matched"] },
  ]);

  const planned = await runJson(["plan"], setting);
  expect(planned.code).toBe(0);
  expect(jobsOf(planned.document).map((job) => [job["records_to_send"], job["calls"]])).toEqual([
    [0, 0],
    [0, 0],
    [0, 0],
  ]);

  const second = await runCli(["run"], setting);
  expect(second.code).toBe(0);
  expect(second.stdout).toMatch(
    /\n✓ Done in [\d.]+ m?s: nothing has changed since the last run, no records sent\.\n$/,
  );
  const queries = exampleQueries("person_data").map(({ sql }) => sql.join("\n"));
  for (const sql of queries) expect((await query(sql)).length).toBeGreaterThan(0);
  expect(second.stdout).toContain(queries[0]?.replaceAll("\n", "\n  "));

  const status = await runJson(["status"], setting);
  expect(status.code).toBe(0);
  expect(status.document["service_host"]).toBe("sandbox:1");
  expect(jobsOf(status.document).map(({ job }) => job)).toEqual(jobs.map(({ job }) => job));
  expect((await runCli(["status"], setting)).stdout).toMatch(/resolve_customers +fresh +just now +succeeded/);
});

test.concurrent("a run whose output is closed still completes", async () => {
  const setting = await makeSetting({ rows: 60 });
  const { stdout } = await promisify(execFile)("sh", ["-c", `"${launcher}" run 2>&1 | head -n 1`], setting);
  expect(JSON.parse(stdout)).toMatchObject({ event: "sample_table_created" });
  await vi.waitFor(
    async () => {
      const runs = await setting.query(
        "SELECT job, status FROM person_data_ops.sync_run ORDER BY started_at",
      );
      expect(runs).toEqual([
        { job: "resolve_customers", status: "succeeded" },
        { job: "validate_customers", status: "succeeded" },
        { job: "enrich_customers", status: "succeeded" },
      ]);
    },
    { timeout: 60_000, interval: 100 },
  );
});
