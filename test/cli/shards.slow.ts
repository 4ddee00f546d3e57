import { beforeAll, expect, test } from "vitest";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { readLedger } from "./support/controls.ts";
import { runCli, runJson } from "./support/cli.ts";
import { makeServed } from "./support/setting.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const ROWS = 600;
const SHARDS = ["0/3", "1/3", "2/3"];

/** Counters of one job. */
type Job = Readonly<Record<string, number | string>>;

const jobsOf = (document: object): readonly Job[] => (document as { jobs: readonly Job[] }).jobs;

test("three shards in three processes send every record once, and leave nothing pending", async () => {
  const setting = await makeServed({ rows: ROWS });
  const runs = await Promise.all(
    SHARDS.map((shard) => runJson(["run", "--shard", shard, "--run-id", "night-1"], setting)),
  );
  expect(runs.map(({ code, document }) => [code, document.status, document["shard"]])).toEqual(
    SHARDS.map((shard) => [0, "succeeded", shard]),
  );
  const jobs = runs.flatMap(({ document }) => jobsOf(document));
  for (const name of ["resolve_customers", "enrich_customers"]) {
    const own = jobs.filter(({ job }) => job === name);
    expect(own.reduce((sum, job) => sum + Number(job["records_read"]), 0)).toBe(ROWS);
  }
  const status = await runCli(["status"], setting);
  expect(status.stdout).toMatch(/enrich_customers +up to date +just now +3× succeeded/);
  const again = await runJson(["run"], setting);
  expect(jobsOf(again.document).map((job) => job["records_sent"])).toEqual([0, 0, 0]);
  expect((await readLedger(setting.baseUrl)).contents.received_more_than_once).toBe(0);
});

test("a run resumed with another number of shards stays within the rest of its cap", async () => {
  const jobs = "jobs:\n  enrich_customers: { type: enrich, input: customers, max_records_per_run: 50 }\n";
  const setting = await makeServed({ rows: ROWS, jobs });
  const sent = async (shard: string) => {
    const { code, document } = await runJson(["run", "--run-id", "night-1", "--shard", shard], setting);
    const [job] = jobsOf(document);
    return [code, job?.["limited_by"], job?.["records_sent"]];
  };
  const cap = "max_records_per_run";
  expect(await sent("0/2")).toEqual([0, cap, 25]);
  expect(await sent("2/3")).toEqual([0, cap, 16]);
  expect(await sent("1/2")).toEqual([0, cap, 9]);
  expect(await sent("1/3")).toEqual([0, cap, 0]);
  expect(await sent("0/1")).toEqual([0, cap, 0]);
  expect((await readLedger(setting.baseUrl)).endpoints["POST /v2/enrich"]?.records).toBe(50);
});
