import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { surveySpool } from "../../src/spool/files.ts";
import { makeFolder, runCli } from "../cli/support/cli.ts";
import {
  configText,
  createCustomers,
  makeSetting,
  type Setting,
  startSandbox,
} from "../cli/support/setting.ts";
import { findDifferences, readContents, type TableContents } from "../support/comparable-tables.ts";
import { daysToNoon } from "../support/held-day.ts";
import { withoutRejected } from "../faults/rejected-rows.ts";

/** Rows of the input: several calls for each job. */
const ROWS = 1300;

/** The jobs as users have them, with small batches by way of the service's own limits. */
export const JOBS = `jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, valid_emails_from: validate_customers }
`;

/** Outcome of the kills of a suite. */
export interface Totals {
  kills: number;
  records: number;
  sentTwice: number;
  /** Records of calls that were in flight when the process died: they may be sent twice. */
  mostSentTwice: number;
  lost: number;
  doubled: number;
}

/** Totals before the first kill. */
export function newTotals(): Totals {
  return { kills: 0, records: 0, sentTwice: 0, mostSentTwice: 0, lost: 0, doubled: 0 };
}

/** Counts of the sandbox since it was reset. */
interface SeenBySandbox {
  readonly contents: {
    readonly distinct_records: number;
    readonly received_more_than_once: number;
    readonly billed_more_than_once: number;
  };
}

/** A sandbox, and the tables after an undisturbed run. */
export interface Stage {
  readonly sandbox: string;
  readonly expected: TableContents;
}

/** Folder and warehouse of a run that was killed. */
export interface KilledSetting extends Pick<Setting, "cwd" | "env" | "query"> {
  readonly contents: () => Promise<TableContents>;
}

/** The command that is killed, and that resumes. */
export const RUN = ["--json", "run", "--yes"];

/** Tables that are equal after a disturbed and an undisturbed run. */
export const COMPARED = { withoutTables: ["reject"] };

async function contentsOf(url: string): Promise<TableContents> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const contents = await readContents(client, COMPARED);
    // The job's next run drops work tables of killed runs.
    return new Map([...contents].filter(([table]) => !/^lookup_(?:work|row)_/u.test(table)));
  } finally {
    await client.end();
  }
}

/** Resets the sandbox, and its clock to the day on which the file began. */
export async function resetSandbox(sandbox: string): Promise<void> {
  await fetch(`${sandbox}/_sandbox/reset`, {
    method: "POST",
    headers: { "content-type": "application/json" },
  });
  const body = JSON.stringify({ days: daysToNoon() });
  const response = await fetch(`${sandbox}/_sandbox/clock`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  if (!response.ok) throw new Error(`the sandbox's clock can't be moved: ${response.status}`);
}

/** Makes a fresh warehouse with its input, and resets the sandbox. */
export async function prepareCase(
  sandbox: string,
  more = "",
  warehouse?: Setting,
  rows = ROWS,
): Promise<Setting> {
  await resetSandbox(sandbox);
  const setting = warehouse ?? (await makeSetting());
  await createCustomers(setting.url, rows);
  const config = configText({ baseUrl: sandbox, service: "  concurrency: 4\n", jobs: JOBS + more });
  await writeFile(join(setting.cwd, "config.yaml"), config);
  return setting;
}

/** Starts a sandbox, and runs once undisturbed. */
export async function setStage(rows = ROWS): Promise<Stage> {
  const sandbox = await startSandbox(await makeFolder());
  const setting = await prepareCase(sandbox, "", undefined, rows);
  const stuck = await runUntilDone(setting);
  if (stuck !== null) throw new Error(stuck);
  return { sandbox, expected: await contentsOf(setting.url) };
}

/** Counts the records of an endpoint's calls that the service carried out. */
export async function recordsCarriedOut(sandbox: string, path: string): Promise<number> {
  // The sandbox's controls answer in this form.
  const { recent } = (await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as {
    recent: readonly { endpoint: string; status: number; records: number }[];
  };
  const calls = recent.filter(({ endpoint, status }) => status === 200 && endpoint.endsWith(path));
  return calls.reduce((sum, { records }) => sum + records, 0);
}

async function seen(sandbox: string): Promise<SeenBySandbox> {
  // The sandbox's controls answer in this form.
  return (await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as SeenBySandbox;
}

/** Counts the records of reserved calls without a known outcome, except those with an answer on disk. */
export async function recordsInDoubt(setting: Pick<KilledSetting, "query">): Promise<number> {
  const [row] = await setting.query(
    "SELECT coalesce(sum(records_sent), 0)::int AS records FROM person_data_ops.api_call WHERE possibly_billed",
  );
  return Number(row?.["records"] ?? 0);
}

/** Repetitions that a case allows beyond those in its ledger. */
export interface Allowance {
  /** Faults made the run send records again: only billed ones count. */
  readonly mayBeAskedAgain?: boolean;
  /** Records in flight when the process was stopped, of calls that were answered later. */
  readonly underWay?: number;
}

/** Runs until nothing is left after a kill, and lists rows lost or doubled and records sent twice beyond those in flight. */
export async function finish(
  stage: Stage,
  setting: Setting,
  totals: Totals,
  allowance: Allowance = {},
): Promise<readonly string[]> {
  const contents = () => contentsOf(setting.url);
  return finishKilled(stage, { ...setting, contents }, totals, allowance);
}

/** Does the same for any warehouse. */
export async function finishKilled(
  stage: Stage,
  setting: KilledSetting,
  totals: Totals,
  { mayBeAskedAgain = false, underWay = 0 }: Allowance = {},
): Promise<readonly string[]> {
  totals.kills += 1;
  const stuck = await runUntilDone(setting);
  if (stuck !== null) return [stuck];
  const inDoubt = Math.max(underWay, await recordsInDoubt(setting));
  const { contents } = await seen(stage.sandbox);
  const [doubled] = await setting.query(
    `SELECT count(*)::int AS rows FROM (SELECT FROM person_data.match_history GROUP BY job, source, source_key
       HAVING count(*) > 1) AS h`,
  );
  const actual = await setting.contents();
  // Faults may have omitted a record from two answers before the kill, which rejects it for good.
  const [expected, loaded] = mayBeAskedAgain
    ? await withoutRejected(setting.query, stage.expected, actual)
    : [stage.expected, actual];
  const differences = findDifferences(expected, loaded);
  const doubledRows = Number(doubled?.["rows"] ?? 0);
  const sentTwice = mayBeAskedAgain ? contents.billed_more_than_once : contents.received_more_than_once;
  const kept = await surveySpool(join(setting.cwd, ".person-etl", "spool"));
  totals.records += contents.distinct_records;
  totals.sentTwice += contents.billed_more_than_once;
  totals.mostSentTwice += inDoubt;
  totals.lost += differences.length;
  totals.doubled += doubledRows;
  return [
    ...differences,
    ...(doubledRows > 0 ? [`${doubledRows} intervals are doubled`] : []),
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

/** Prints the totals of a suite. */
export function printTotals(name: string, totals: Totals): void {
  process.stdout.write(`${name}: ${JSON.stringify(totals)}\n`);
}
