import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { runCli, runJson } from "./support/cli.ts";
import { configText, createCustomers, makeSetting, type Setting, startSandbox } from "./support/setting.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

/** Time for several processes in sequence. */
const PATIENT = { timeout: 180_000 };
const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";

/** A warehouse with customers, one service for all processes, and a budget. */
async function makeBudgeted(budgets: string, faults = ""): Promise<Setting & { baseUrl: string }> {
  const setting = await makeSetting();
  await createCustomers(setting.url, 240);
  const baseUrl = await startSandbox(setting.cwd, faults === "" ? [] : ["--faults", faults]);
  const text = configText({ baseUrl, jobs: `${ENRICH}budgets: { ${budgets} }\n` });
  await writeFile(join(setting.cwd, "config.yaml"), text);
  return { ...setting, baseUrl };
}

/** Records in calls that the service executed, and those received more than once. */
async function seenBy(baseUrl: string): Promise<{ readonly carriedOut: number; readonly twice: number }> {
  // Answer of the sandbox's controls.
  const { recent, contents } = (await (await fetch(`${baseUrl}/_sandbox/ledger`)).json()) as {
    recent: { status: number; records: number }[];
    contents: { received_more_than_once: number };
  };
  const carriedOut = recent
    .filter(({ status }) => status === 200)
    .reduce((sum, { records }) => sum + records, 0);
  return { carriedOut, twice: contents.received_more_than_once };
}

const jobOf = (document: object) => (document as { jobs: readonly Record<string, unknown>[] }).jobs[0] ?? {};

test("three processes share a budget, and exceed it by no record", PATIENT, async () => {
  // Each has more to send than the budget allows, so that none ends before it is used up.
  const setting = await makeBudgeted("enrich: { per_day: 60 }", "413=20");
  const shards = ["0/3", "1/3", "2/3"];
  const runs = await Promise.all(shards.map((shard) => runJson(["run", "--shard", shard], setting)));
  expect(runs.map(({ code, document }) => [code, jobOf(document)["limited_by"]])).toEqual(
    shards.map(() => [0, "budget_day"]),
  );
  const { carriedOut } = await seenBy(setting.baseUrl);
  expect(runs.reduce((sum, { document }) => sum + Number(jobOf(document)["records_sent"]), 0)).toBe(
    carriedOut,
  );
  // One may have been refused while another held records that it released later: the next run sends them.
  const rest = await runJson(["run"], setting);
  expect(jobOf(rest.document)).toMatchObject({ limited_by: "budget_day", records_sent: 60 - carriedOut });
  expect(await seenBy(setting.baseUrl)).toEqual({ carriedOut: 60, twice: 0 });

  const plan = await runCli(["plan"], setting);
  expect(plan.stdout).toMatch(
    /enrich_customers\n {2}• due: 1\d\d never answered\n {2}• remaining: 1\d\d rows for later runs \(budget_day\)/,
  );
  expect(plan.stdout).toMatch(/enrich +today \(UTC\) +60 +60 +0/);
  const status = await runCli(["status"], setting);
  expect(status.stdout).toMatch(/enrich +today \(UTC\) +60 +60 +0/);
  const [today] = await setting.query("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day");
  expect(status.stdout).toMatch(
    new RegExp(`${String(today?.["day"])} +enrich_customers +\\d+ +60 +\\d+ +\\d+$`, "m"),
  );
});

test.for(["after_reserve:4", "after_receive:3"])(
  "a run killed %s keeps its reservations, and continues with the rest under its id",
  PATIENT,
  async (step) => {
    const setting = await makeBudgeted("enrich: { per_month: 5000 }", "413=20");
    const run = ["run", "--run-id", "night-1", "--max-records", "60"];
    const killed = await runCli(run, { ...setting, env: { ...setting.env, PERSON_ETL_CRASH_AT: step } });
    expect(killed.code === null || killed.code === 137).toBe(true);
    const underWay = await setting.query(
      "SELECT sum(records_reserved)::int AS records FROM person_data_ops.api_call WHERE settled_at IS NULL",
    );
    const lost = Number(underWay[0]?.["records"]);
    expect(lost).toBeGreaterThan(0);

    const { code, document } = await runJson(run, setting);
    expect(code).toBe(0);
    expect(jobOf(document)).toMatchObject({ status: "limited", limited_by: "max_records" });
    const { carriedOut } = await seenBy(setting.baseUrl);
    expect(carriedOut).toBeLessThanOrEqual(60);
    expect(
      await setting.query(
        "SELECT records_reserved::int AS records FROM person_data_state.budget_use WHERE period <> 'day'",
      ),
    ).toEqual([{ records: 60 }, { records: 60 }]);

    // Another run sends the rest; only calls in flight at the crash count as possibly billed twice.
    const last = await runJson(["run"], setting);
    expect(jobOf(last.document)).toMatchObject({ status: "succeeded" });
    const twice = await setting.query(
      "SELECT sum(records_possibly_billed_twice)::int AS records FROM person_data_ops.api_call",
    );
    expect(twice).toEqual([{ records: lost }]);
    expect((await seenBy(setting.baseUrl)).twice).toBeLessThanOrEqual(lost);
    const status = await runJson(["status"], setting);
    const days = (status.document as unknown as { days: { possibly_billed_twice: number }[] }).days;
    expect(days.map((day) => day.possibly_billed_twice)).toEqual([lost]);
  },
);
