import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { runCli, runJson } from "./support/cli.ts";
import { configText, createCustomers, makeSetting, type Setting, startSandbox } from "./support/setting.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const ROWS = 600;
const SHARDS = ["0/3", "1/3", "2/3"];
const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

interface Job {
  readonly job: string;
  readonly status: string;
  readonly [counter: string]: number | string;
}

/** A database with customers but without our tables, and one service for all processes. */
async function makeShared(
  jobs?: string,
  flags: readonly string[] = [],
): Promise<Setting & { baseUrl: string }> {
  const setting = await makeSetting();
  await createCustomers(setting.url, ROWS);
  const baseUrl = await startSandbox(setting.cwd, flags);
  const text = configText(jobs === undefined ? { baseUrl } : { baseUrl, jobs });
  await writeFile(join(setting.cwd, "config.yaml"), text);
  return { ...setting, baseUrl };
}

/** Records received by the service: answer of the sandbox's controls. */
interface Ledger {
  readonly contents: { readonly received_more_than_once: number };
  readonly endpoints: Readonly<Record<string, { readonly records: number }>>;
}

async function readLedger(baseUrl: string): Promise<Ledger> {
  return (await (await fetch(`${baseUrl}/_sandbox/ledger`)).json()) as Ledger;
}

const jobsOf = (document: object): readonly Job[] => (document as { jobs: readonly Job[] }).jobs;
test.concurrent("three shards in three processes send every record once, and leave nothing pending", async () => {
  const setting = await makeShared();
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

test.concurrent("a run resumed with another number of shards stays within the rest of its cap", async () => {
  const setting = await makeShared(
    ENRICH.replace("input: customers", "input: customers, max_records_per_run: 50"),
  );
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
  const { endpoints } = await readLedger(setting.baseUrl);
  expect(endpoints["POST /v2/enrich"]?.records).toBe(50);
});
