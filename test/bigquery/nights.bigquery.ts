import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { startSandbox } from "../../src/sandbox/start-sandbox.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { type CliResult, runCli } from "../cli/support/cli.ts";
import {
  configText,
  createCustomers,
  INSERT_CUSTOMERS,
  makeSetting,
  PEOPLE,
  sampleRows,
} from "../cli/support/setting.ts";
import { connectAsText } from "../load/postgres-place.ts";
import {
  type ContentsOptions,
  findDifferences,
  readContents,
  type TableContents,
} from "../support/comparable-tables.ts";
import { bigQueryOfRun } from "../support/test-bigquery.ts";
import { makeBigQuerySetting } from "./bigquery-setting.ts";

const bigQuery = await bigQueryOfRun();

const ROWS = 600;
const NEW_ROWS = 60;
const SEGMENT = "22222222-2222-4222-8222-222222222222";

const JOBS = `jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, valid_emails_from: validate_customers }
  members: { type: segment_members, segments: [{ id: ${SEGMENT}, name: VIP }] }
  deaths: { type: death_signals, segments: [{ id: ${SEGMENT} }] }
`;

/** A warehouse of either kind. */
interface Side {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  query(text: string, params?: readonly unknown[]): Promise<unknown>;
  contents(options: ContentsOptions): Promise<TableContents>;
}

/** What happens to the input between two nights. */
const CHANGES: readonly (readonly [string, (readonly unknown[])?])[] = [
  [
    "UPDATE crm.customers SET city = 'Springfield', phone = NULL, updated_at = '2026-11-01T00:00:00Z' WHERE id % 5 = 0",
  ],
  ["UPDATE crm.customers SET email = upper(email), updated_at = '2026-11-02T00:00:00Z' WHERE id % 7 = 0"],
  ["DELETE FROM crm.customers WHERE id % 17 = 3"],
  [INSERT_CUSTOMERS, [JSON.stringify(sampleRows(ROWS + NEW_ROWS).slice(ROWS))]],
];

describe.runIf(bigQuery)("the same nights in Postgres and in BigQuery", () => {
  let sides: readonly [Side, Side];
  let control: (path: string, body: object) => Promise<void>;

  beforeAll(async () => {
    if (!bigQuery) return;
    const sandbox = await startSandbox({ people: PEOPLE });
    atEnd(() => sandbox.close());
    control = async (path, body) => {
      const answer = await fetch(`${sandbox.url}/_sandbox${path}`, {
        method: "POST",
        body: JSON.stringify(body),
      });
      if (!answer.ok) throw new Error(`${path} answered ${answer.status}`);
    };
    await control("/segments", { segment_id: SEGMENT, name: "VIP", members: 3000, batch: 500 });
    const postgres = await makeSetting();
    await createCustomers(postgres.url, ROWS);
    const client = await connectAsText(postgres.url);
    atEnd(() => client.end());
    const other = await makeBigQuerySetting(bigQuery);
    await other.createCustomers(ROWS);
    const config = { baseUrl: sandbox.url, jobs: JOBS };
    await writeFile(join(postgres.cwd, "config.yaml"), configText(config));
    await writeFile(join(other.cwd, "config.yaml"), configText({ ...config, warehouse: other.warehouse() }));
    sides = [
      {
        ...postgres,
        query: (text, params) => client.query(text, params ? [...params] : undefined),
        contents: (options) => readContents(client, options),
      },
      other,
    ];
  });

  async function runNight(args: readonly string[] = []): Promise<CliResult[]> {
    const results: CliResult[] = [];
    for (const { cwd, env } of sides) {
      const result = await runCli(["run", "--yes", ...args], { cwd, env });
      // A failure shows what was said.
      expect([result.code, result.code === 0 ? "" : result.stdout + result.stderr]).toEqual([0, ""]);
      results.push(result);
    }
    return results;
  }

  /** Rows of both together, and where they differ. */
  async function compare(): Promise<{ rows: number; differences: readonly string[] }> {
    const [postgres, other] = sides;
    const [expected, found] = [
      await postgres.contents({ withoutTables: ["call_in_doubt"] }),
      await other.contents({ withoutTables: ["call_in_doubt"] }),
    ];
    const rows = [...expected.values()].flatMap((table) => [...table.values()]);
    return {
      rows: rows.reduce((sum, text) => sum + text.split("\n").length, 0),
      differences: findDifferences(expected, found, 20),
    };
  }

  test("leave the same tables behind, value by value", async () => {
    const rows: number[] = [];
    const note = async () => {
      const { rows: compared, differences } = await compare();
      expect(differences).toEqual([]);
      rows.push(compared);
    };
    await runNight();
    await note();
    for (const { stdout } of await runNight()) expect(stdout).toContain("no record was sent");
    await note();
    await control("/clock", { days: 75 });
    for (const side of sides) {
      for (const [text, params] of CHANGES) await side.query(text, params);
    }
    await runNight();
    await note();
    await control("/clock", { days: 75 });
    await runNight(["--resend"]);
    await note();
    process.stdout.write(`the same in Postgres and BigQuery after each night: ${rows.join(", ")} rows\n`);
    expect(Math.min(...rows)).toBeGreaterThan(5000);
    // Nights on an emulator: minutes on a busy machine.
  }, 1_800_000);
});
