import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect } from "vitest";
import type { CrashPoint } from "../../src/crash-point.ts";
import { surveySpool } from "../../src/spool/files.ts";
import type { JobReport, RunReport } from "../../src/jobs/job.ts";
import { makeFolder, runCli, startCli } from "../cli/support/cli.ts";
import {
  configText,
  createCustomers,
  makeSetting,
  type Setting,
  startSandbox,
} from "../cli/support/setting.ts";
import { findDifferences, readContents, type TableContents } from "../support/comparable-tables.ts";
import { daysToNoon } from "../support/held-day.ts";
import { controlSandbox, ledgerAt } from "../support/sandbox-control.ts";

/** Rows of the input: several calls for each job. */
const ROWS = 1300;

/** Steps of a lookup, in order. */
export const STEPS: readonly CrashPoint[] = [
  "before_reserve",
  "after_reserve",
  "before_send",
  "after_send",
  "after_receive",
  "before_spool_write",
  "after_spool_write",
  "after_spool_fsync",
  "before_copy",
  "after_copy",
  "before_commit",
  "after_commit",
  "after_spool_removal",
  "before_end",
  "after_end",
];

type Totals = ReturnType<typeof openTotals>;

/** Totals before the first kill, printed at the end of the suite. */
export function openTotals(name: string) {
  // `mostSentTwice` are records of calls that were in flight when the process died.
  const totals = { kills: 0, records: 0, sentTwice: 0, mostSentTwice: 0, lost: 0, doubled: 0 };
  afterAll(() => void process.stdout.write(`${name}: ${JSON.stringify(totals)}\n`));
  return totals;
}

/** A sandbox, and the tables after an undisturbed run. */
export interface Stage {
  readonly sandbox: string;
  readonly expected: TableContents;
}

/** The command that is killed, and that resumes. */
export const RUN = ["--json", "run", "--yes"];

const contentsOf = (url: string) => readContents(url, { withoutTables: ["reject"] });

/** Resets the sandbox, and its clock to the day on which the file began. */
async function resetSandbox(sandbox: string): Promise<void> {
  await controlSandbox(sandbox, "/reset", {});
  await controlSandbox(sandbox, "/clock", { days: daysToNoon() });
}

/** Makes a warehouse with its input, a fresh one by default, and resets the sandbox. */
export async function prepareCase(sandbox: string, warehouse?: Setting): Promise<Setting> {
  await resetSandbox(sandbox);
  const setting = warehouse ?? (await makeSetting());
  await createCustomers(setting.url, ROWS);
  const config = configText({ baseUrl: sandbox, service: "  concurrency: 4\n" });
  await writeFile(join(setting.cwd, "config.yaml"), config);
  return setting;
}

/** Starts a sandbox, and runs once undisturbed. */
export async function setStage(): Promise<Stage> {
  const sandbox = await startSandbox(await makeFolder());
  const setting = await prepareCase(sandbox);
  const stuck = await runUntilDone(setting);
  if (stuck !== null) throw new Error(stuck);
  return { sandbox, expected: await contentsOf(setting.url) };
}

/** Counts the records of reserved calls without a known outcome, except those with an answer on disk. */
export async function recordsInDoubt(setting: Pick<Setting, "query">): Promise<number> {
  const [row] = await setting.query(
    "SELECT coalesce(sum(records_sent), 0)::int AS records FROM person_data_ops.api_call WHERE possibly_billed",
  );
  return Number(row?.["records"] ?? 0);
}

/** Runs until nothing is left after a kill, and lists rows lost or doubled and records sent twice beyond those in flight. */
export async function finish(stage: Stage, setting: Setting, totals: Totals): Promise<readonly string[]> {
  totals.kills += 1;
  const stuck = await runUntilDone(setting);
  if (stuck !== null) return [stuck];
  const inDoubt = await recordsInDoubt(setting);
  const { contents } = await ledgerAt(stage.sandbox);
  const doubled = await setting.query(
    "SELECT FROM person_data.match_history GROUP BY job, source, source_key HAVING count(*) > 1",
  );
  const differences = findDifferences(stage.expected, await contentsOf(setting.url));
  const sentTwice = contents.received_more_than_once;
  const kept = await surveySpool(join(setting.cwd, ".person-etl", "spool"));
  totals.records += contents.distinct_records;
  totals.sentTwice += contents.billed_more_than_once;
  totals.mostSentTwice += inDoubt;
  totals.lost += differences.length;
  totals.doubled += doubled.length;
  return [
    ...differences,
    ...(doubled.length > 0 ? [`${doubled.length} intervals are doubled`] : []),
    ...(sentTwice > inDoubt ? [`${sentTwice} records were sent twice, ${inDoubt} were under way`] : []),
    ...(kept.contents.length + kept.quarantined.length > 0 ? ["the spool is not empty"] : []),
  ];
}

const MOST_RUNS = 10;

/** Runs until nothing is left to do; returns the output of the last run if that never happens. */
async function runUntilDone(setting: Pick<Setting, "cwd" | "env">): Promise<string | null> {
  for (let run = 1; ; run++) {
    const { code, stdout } = await runCli(RUN, setting);
    if (code === 0) return null;
    if (run === MOST_RUNS) return `never done (exit ${code}): ${stdout}`;
  }
}

/** Starts a sandbox for feeds; to be called before all tests of a file. */
export async function startFeedService(people: number) {
  const url = await startSandbox(await makeFolder(), ["--people", String(people)]);
  return {
    url,
    control: <Answer = unknown>(path: string, body?: object) => controlSandbox<Answer>(url, path, body),
    /** Makes a warehouse without an input, for these jobs. */
    async prepare(jobs: string): Promise<Setting> {
      const setting = await makeSetting();
      const config = configText({ baseUrl: url, service: "  concurrency: 4\n", jobs });
      await writeFile(join(setting.cwd, "config.yaml"), config);
      return setting;
    },
  };
}

/** Runs jobs, all by default, and expects that the run is killed at a crash point. */
export async function killRun(setting: Setting, at: string, ...jobs: readonly string[]): Promise<void> {
  const env = { ...setting.env, PERSON_ETL_CRASH_AT: at };
  const { child, result } = startCli(["--json", "run", ...jobs], { ...setting, env });
  await result;
  expect([at, child.signalCode]).toEqual([at, "SIGKILL"]);
}

/** Runs jobs, all by default, and expects that they succeed; returns their reports. */
export async function runToEnd(setting: Setting, ...jobs: readonly string[]): Promise<readonly JobReport[]> {
  const { code, stdout } = await runCli(["--json", "run", ...jobs], setting);
  expect({ code, stdout }).toMatchObject({ code: 0 });
  // Output of `run --json`.
  return (JSON.parse(stdout) as RunReport).jobs;
}
